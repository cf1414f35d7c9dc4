// A long list: only the rows in view are in the document (@tanstack/virtual-core).
import { elementScroll, observeElementOffset, observeElementRect, Virtualizer } from "@tanstack/virtual-core";
import { html, useLayoutEffect, useRef, useState } from "./html.js";

/** Phone rows have three lines. */
const narrow = matchMedia("(max-width: 720px)");

/** `row(item, index)` draws one item; `onEnd` is called when the last rows come into view. */
export function VirtualList({ items, row, height = 44, narrowHeight = 76, onEnd, label, header, selected = -1 }) {
  const scroller = useRef(null);
  const [, redraw] = useState(0);
  const options = {
    count: items.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => (narrow.matches ? narrowHeight : height),
    overscan: 4,
    scrollToFn: elementScroll,
    observeElementRect,
    observeElementOffset,
    onChange: () => redraw((count) => count + 1),
  };
  const held = useRef(null);
  const drawn = useRef({});
  held.current ??= new Virtualizer(options);
  held.current.setOptions(options);
  useLayoutEffect(() => held.current._didMount(), []);
  useLayoutEffect(() => held.current._willUpdate());
  useLayoutEffect(() => {
    const measure = () => {
      drawn.current = {};
      held.current.measure();
    };
    narrow.addEventListener("change", measure);
    return () => narrow.removeEventListener("change", measure);
  }, []);
  useLayoutEffect(() => {
    if (selected >= 0) held.current.scrollToIndex(selected, { align: "auto" });
  }, [selected]);
  // while the list only scrolls, a row that stays in view is the same vnode, which preact does not compare again
  if (drawn.current.row !== row) drawn.current = { row, nodes: new Map() };
  const draw = (each) => {
    const { nodes } = drawn.current;
    if (!nodes.has(each.index)) {
      nodes.set(each.index, html`<div key=${each.key} class=${`vlist-row${each.index === selected ? " selected" : ""}`} role="row" aria-rowindex=${each.index + 2}
        style=${{ height: `${each.size}px`, transform: `translateY(${each.start}px)` }}>${row(items[each.index], each.index)}</div>`);
    }
    return nodes.get(each.index);
  };
  const shown = held.current.getVirtualItems();
  const last = shown.at(-1)?.index ?? 0;
  useLayoutEffect(() => {
    if (onEnd && items.length && last >= items.length - 20) onEnd();
  }, [last, items.length]);
  return html`<div class="vlist" ref=${scroller} role="table" aria-label=${label} aria-rowcount=${items.length + 1} tabindex="0">
    ${header}
    <div class="vlist-body" role="rowgroup" style=${{ height: `${held.current.getTotalSize()}px` }}>
      ${shown.map(draw)}
    </div>
  </div>`;
}
