// The keyboard: one listener for all views. A view registers its keys while the page shows the view.
import { signal, useEffect, useRef } from "./html.js";

export const helpOpen = signal(false);
const handlers = [];

addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, textarea, select, [contenteditable]");
  if (typing || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  for (const each of [...handlers].reverse()) {
    const handler = each.current[event.key];
    if (handler) {
      if (handler(event) !== false) event.preventDefault();
      return;
    }
  }
});

/** Registers functions by key name. If a function returns false, the browser handles the key. */
export function useKeys(keys) {
  const held = useRef(keys);
  held.current = keys;
  useEffect(() => {
    handlers.push(held);
    return () => handlers.splice(handlers.indexOf(held), 1);
  }, []);
}
