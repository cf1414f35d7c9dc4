// A list of any length. Only the rows in and near the view are in the document (@tanstack/virtual-core).
import { elementScroll, observeElementOffset, observeElementRect, Virtualizer } from "@tanstack/virtual-core";
import { html, useLayoutEffect, useRef, useState } from "./html.js";

/** Matches a phone, whose rows have three lines. */
const narrow = matchMedia("(max-width: 720px)");

/** Draws each item with `row(item, index)`. Calls `onEnd` when one of the last 20 rows comes into view. */
export function VirtualList({ items, row, height = 44, narrowHeight = 76, onEnd, label, header, selected = -1 }) {
  const scroller = useRef(null);
  const [, redraw] = useState(0);
  const options = {
    count: items.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => (narrow.matches ? narrowHeight : height),
    overscan: 2,
    scrollToFn: elementScroll,
    observeElementRect,
    observeElementOffset,
    onChange: () => redraw((count) => count + 1),
  };
  const held = useRef(null);
  const drawn = useRef({ row: null, nodes: new Map() });
  const made = useRef(0);
  held.current ??= new Virtualizer(options);
  held.current.setOptions(options);
  useLayoutEffect(() => held.current._didMount(), []);
  useLayoutEffect(() => held.current._willUpdate());
  useLayoutEffect(() => {
    const measure = () => {
      drawn.current.row = null;
      held.current.measure();
    };
    narrow.addEventListener("change", measure);
    return () => narrow.removeEventListener("change", measure);
  }, []);
  useLayoutEffect(() => {
    if (selected >= 0) held.current.scrollToIndex(selected, { align: "auto" });
  }, [selected]);
  const shown = held.current.getVirtualItems();
  const inView = new Set(shown.map((each) => each.index));
  let focused = scroller.current?.contains(document.activeElement) ? document.activeElement : null;
  const focusedIndex = focused?.closest("[aria-rowindex]")?.ariaRowIndex - 2;
  // the list keeps the focus when the focused row leaves the view
  if (drawn.current.nodes.has(focusedIndex) && !inView.has(focusedIndex)) (focused = scroller.current).focus({ preventScroll: true });
  // without `moveBefore` (Safari), a row that stays loses the focus when preact moves its element
  useLayoutEffect(() => {
    if (focused && document.activeElement === document.body) focused.focus({ preventScroll: true });
  });
  // a row that enters reuses the element of a row that left, which costs a third of a new element
  const { nodes: before, row: drawnBy } = drawn.current;
  const free = [...before].filter(([index]) => !inView.has(index)).map(([, node]) => node.key);
  const draw = (each) => {
    const old = before.get(each.index);
    // while the list only scrolls, a row that stays in view is the same vnode, which preact does not compare again
    if (old && drawnBy === row) return old;
    return html`<div key=${old?.key ?? free.shift() ?? (made.current += 1)} class=${`vlist-row${each.index === selected ? " selected" : ""}`} role="row" aria-rowindex=${each.index + 2}
      style=${{ height: `${each.size}px`, transform: `translateY(${each.start}px)` }}>${row(items[each.index], each.index)}</div>`;
  };
  drawn.current = { row, nodes: new Map(shown.map((each) => [each.index, draw(each)])) };
  const last = shown.at(-1)?.index ?? 0;
  useLayoutEffect(() => {
    if (onEnd && items.length && last >= items.length - 20) onEnd();
  }, [last, items.length]);
  return html`<div class="vlist" ref=${scroller} role="table" aria-label=${label} aria-rowcount=${items.length + 1} tabindex="0">
    ${header}
    <div class="vlist-body" role="rowgroup" style=${{ height: `${held.current.getTotalSize()}px` }}>
      ${[...drawn.current.nodes.values()]}
    </div>
  </div>`;
}
