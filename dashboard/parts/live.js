// Updates of views from a tenant's stream of server-sent events. `fetch` reads the stream, since EventSource sends no token.
import { effect, signal } from "./html.js";
import { refuse, token } from "./session.js";
import { streamEvents } from "../api.js";

/** State of the updates. "live": from a stream. "polling": on a timer. "ended": the job no longer changes. "reconnecting": before
 * the first response of a stream, and after an error. "paused": the tab is hidden. */
export const connection = signal("polling");

export const visible = signal(document.visibilityState !== "hidden");
document.addEventListener("visibilitychange", () => (visible.value = document.visibilityState !== "hidden"));

const FIRST_DELAY_MS = 1000;
const LAST_DELAY_MS = 20000;

export const pause = (milliseconds, signal) =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });

/** Parses the server-sent events of a whole response (WHATWG HTML 9.2.6). Returns {events, retry}, with {id, event, data} for each event. */
export function parseEvents(text) {
  const events = [];
  let retry = null;
  for (const block of text.split(/\r?\n\r?\n/)) {
    const found = { id: null, event: "message", data: [] };
    for (const line of block.split(/\r?\n/)) {
      const [, name, value] = /^([^:]*):? ?(.*)$/s.exec(line);
      if (name === "id") found.id = value;
      else if (name === "event") found.event = value;
      else if (name === "data") found.data.push(value);
      else if (name === "retry") retry = Number(value);
    }
    if (found.id !== null || found.data.length) events.push({ ...found, data: found.data.join("\n") });
  }
  return { events, retry };
}

async function readStream(tenant, onEvents, signal) {
  let position = "";
  let failures = 0;
  while (!signal.aborted) {
    try {
      const { url, init } = streamEvents.request({ tenant_id: tenant }, { signal, headers: { Accept: "text/event-stream" } });
      if (position) init.headers["Last-Event-ID"] = position;
      if (token.value) init.headers.Authorization = `Bearer ${token.value}`;
      const response = await fetch(url, init);
      if (response.status === 401) refuse((await response.json().catch(() => ({}))).detail);
      if ([401, 403, 404, 409, 501].includes(response.status)) return void (connection.value = "polling");
      if (!response.ok) throw new Error(response.status);
      const { events, retry } = parseEvents(await response.text());
      position = events.findLast((each) => each.id)?.id ?? position;
      failures = 0;
      connection.value = "live";
      const gap = events.some((each) => each.event === "gap");
      const told = events.filter((each) => each.event === "message" && each.data).map((each) => JSON.parse(each.data));
      if (gap || told.length) onEvents(told, gap);
      await pause(retry ?? FIRST_DELAY_MS, signal);
    } catch (error) {
      if (signal.aborted) return;
      connection.value = "reconnecting";
      failures += 1;
      await pause(Math.min(LAST_DELAY_MS, FIRST_DELAY_MS * 2 ** failures), signal);
    }
  }
}

/**
 * Follows a tenant's events until the returned function is called. A hidden tab reads nothing. Calls `onEvents(events, gap)`:
 * `gap` is true after missing events or a hidden tab. The view must then load its data again.
 */
export function follow(tenant, onEvents) {
  let control = null;
  let before = true;
  const stop = effect(() => {
    control?.abort();
    if (!visible.value) {
      before = false;
      return void (connection.value = "paused");
    }
    if (!before) onEvents([], true);
    connection.value = tenant ? "reconnecting" : "polling";
    if (!tenant) return;
    control = new AbortController();
    readStream(tenant, onEvents, control.signal);
  });
  return () => (stop(), control?.abort(), (connection.value = "polling"));
}
