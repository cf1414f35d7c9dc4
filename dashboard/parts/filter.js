// The filter box, for example `status=FAILED_FINAL since=2h`: the filter parameters of `GET /v1/jobs`, except the tenant.
import { html, useEffect, useId, useRef, useState } from "./html.js";
import { JOB_STATES } from "./state.js";

const AGO = /^(\d+)(s|m|h|d)$/;
const MILLISECONDS = { s: 1000, m: 60e3, h: 3600e3, d: 86400e3 };
export const JOB_KEYS = {
  status: "one or more states, separated by commas",
  request_type: "job type",
  label: "key:value",
  idempotency_key: "exact value",
  correlation_id: "exact value",
  since: "created at or after: 90m, 2h, 3d, or a timestamp",
  until: "created before: 90m, 2h, 3d, or a timestamp",
  archived: "true for archived jobs",
};

/** Returns the filter text of a key and its value. */
export const filterText = (name, value) => `${name}=${/\s/.test(value) ? `"${value}"` : value}`;

/** Returns {values, error} of a filter text. A duration such as `2h` becomes a timestamp. */
export function parseFilter(text, keys = JOB_KEYS) {
  const values = {};
  for (const [, word] of text.matchAll(/((?:[^\s"]|"[^"]*")+)/g)) {
    const at = word.indexOf("=");
    const key = at < 0 ? word : word.slice(0, at);
    if (at < 0 || !(key in keys)) return { values, error: `“${word}” is not a filter; use ${Object.keys(keys).join("=…, ")}=…` };
    const value = word.slice(at + 1).replace(/"/g, "");
    if (!value) return { values, error: `${key}= needs a value: ${keys[key]}` };
    if (key === "status") {
      const unknown = value.split(",").find((each) => !JOB_STATES.includes(each));
      if (unknown !== undefined) return { values, error: `“${unknown}” is not a state; use ${JOB_STATES.join(", ")}` };
    }
    const ago = ["since", "until"].includes(key) && AGO.exec(value);
    values[key] = ago ? new Date(Math.floor((Date.now() - ago[1] * MILLISECONDS[ago[2]]) / 1000) * 1000).toISOString() : value;
  }
  return { values, error: null };
}

function suggestions(word, types) {
  const at = word.lastIndexOf("=");
  if (at < 0) return Object.keys(JOB_KEYS).filter((key) => key.startsWith(word)).map((key) => [`${key}=`, JOB_KEYS[key]]);
  const key = word.slice(0, at);
  const from = word.slice(at + 1);
  if (key === "status") {
    const before = from.split(",").slice(0, -1);
    const last = from.split(",").at(-1);
    const left = JOB_STATES.filter((each) => each.startsWith(last.toUpperCase()) && !before.includes(each));
    return left.map((each) => [`status=${[...before, each].join(",")}`, ""]);
  }
  if (key === "request_type") return types.filter((each) => each.startsWith(from)).map((each) => [`request_type=${each}`, ""]);
  if (key === "since" || key === "until") return ["15m", "1h", "24h", "7d"].filter((each) => each.startsWith(from)).map((each) => [`${key}=${each}`, "ago"]);
  return [];
}

/** Shows the filter box. `value` is the text in effect. `onChange` gets the text that the user enters. */
export function FilterBox({ value, onChange, error, types = [] }) {
  const [text, setText] = useState(value);
  const [open, setOpen] = useState(false);
  const [chosen, setChosen] = useState(-1);
  const input = useRef(null);
  const id = useId();
  useEffect(() => setText(value), [value]);
  const word = text.split(/\s+/).at(-1);
  const found = open ? suggestions(word, types).filter(([each]) => each !== word).slice(0, 10) : [];
  const enter = (next) => (setOpen(false), setChosen(-1), onChange(next.trim()));
  const take = (suggestion) => {
    const next = text.slice(0, text.length - word.length) + suggestion;
    setText(next);
    setChosen(-1);
    input.current.focus();
    if (!suggestion.endsWith("=")) onChange(next.trim());
  };
  const onKeyDown = (event) => {
    const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (move && found.length) {
      event.preventDefault();
      setChosen((chosen + move + found.length) % found.length);
    } else if (event.key === "Enter") found[chosen] ? take(found[chosen][0]) : enter(text);
    else if (event.key === "Tab" && found.length && text) event.preventDefault(), take(found[Math.max(0, chosen)][0]);
    else if (event.key === "Escape") setOpen(false);
  };
  return html`<div class="filter-box">
    <svg class="filter-icon" viewBox="0 0 16 16" aria-hidden="true"><path d="M2 3h12M4.5 8h7M7 13h2" stroke="currentColor" stroke-width="1.6" stroke-linecap="round" /></svg>
    <input ref=${input} value=${text} placeholder="status=FAILED_FINAL label=batch:one since=2h" spellcheck="false" autocomplete="off"
      role="combobox" aria-label="Filter" aria-expanded=${found.length > 0} aria-controls=${id} aria-invalid=${Boolean(error)}
      aria-activedescendant=${chosen >= 0 ? `${id}-${chosen}` : undefined}
      onInput=${(event) => (setText(event.target.value), setOpen(true), setChosen(-1))} onFocus=${() => setOpen(true)}
      onBlur=${() => setOpen(false)} onKeyDown=${onKeyDown} />
    ${text && html`<button class="icon-button" aria-label="Clear the filter" onClick=${() => (setText(""), enter(""))}>✕</button>`}
    <ul id=${id} class="suggestions" role="listbox" aria-label="Suggestions" hidden=${!found.length}>
      ${found.map(([each, note], index) => html`<li key=${each} id=${`${id}-${index}`} role="option" aria-selected=${index === chosen}
        onMouseDown=${(event) => (event.preventDefault(), take(each))}><span class="mono">${each}</span><span class="muted">${note}</span></li>`)}
    </ul>
    ${error && html`<p class="field-error" role="alert">${error}</p>`}
  </div>`;
}
