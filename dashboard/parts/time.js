// Relative times and durations. The title has the exact time, in UTC or local time.
import { effect, html, signal } from "./html.js";
import { visible } from "./live.js";

export const local = signal(localStorage.getItem("lucius.time") === "local");
effect(() => localStorage.setItem("lucius.time", local.value ? "local" : "utc"));

/** The current time, updated each second while the tab is visible. */
export const now = signal(Date.now());
setInterval(() => visible.value && (now.value = Date.now()), 1000);

const UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
const two = (number, digits = 2) => String(number).padStart(digits, "0");

/** "2026-11-26 21:42:37.855 UTC" */
export function exact(at, { date = true, milliseconds = true } = {}) {
  const time = new Date(at);
  if (Number.isNaN(time.getTime())) return String(at);
  const part = (name) => (local.value ? time[`get${name}`]() : time[`getUTC${name}`]());
  const day = `${part("FullYear")}-${two(part("Month") + 1)}-${two(part("Date"))} `;
  const clock = `${two(part("Hours"))}:${two(part("Minutes"))}:${two(part("Seconds"))}`;
  return `${date ? day : ""}${clock}${milliseconds ? `.${two(part("Milliseconds"), 3)}` : ""}${local.value ? "" : " UTC"}`;
}

/** "0.49 s", "3 min 5 s", "2 h 4 min", "3 d 2 h" */
export function duration(seconds) {
  if (seconds < 0.0005) return "0 s";
  if (seconds < 1) return `${Number(seconds.toPrecision(2))} s`;
  if (seconds < 60) return `${Number(seconds.toFixed(seconds < 10 ? 1 : 0))} s`;
  const first = UNITS.findIndex(([, size]) => seconds >= size);
  const [unit, size] = UNITS[first];
  const whole = Math.floor(seconds / size);
  const next = UNITS[first + 1];
  const rest = next ? Math.floor((seconds - whole * size) / next[1]) : 0;
  return `${whole} ${unit}${rest ? ` ${rest} ${next[0]}` : ""}`;
}

export const secondsBetween = (from, to) => (new Date(to) - new Date(from)) / 1000;

/** "3 min ago", "in 20 s", or "now" for less than a second. */
function relative(at) {
  const seconds = (now.value - new Date(at)) / 1000;
  if (Math.abs(seconds) < 1) return "now";
  const [unit, size] = UNITS.find(([, each]) => Math.abs(seconds) >= each);
  const amount = `${Math.floor(Math.abs(seconds) / size)} ${unit}`;
  return seconds < 0 ? `in ${amount}` : `${amount} ago`;
}

export const Time = ({ at }) =>
  at ? html`<time class="tabular nowrap" datetime=${at} title=${exact(at)}>${relative(at)}</time>` : "–";
