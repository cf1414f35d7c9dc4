// Data of a view. The page loads the data when the view opens or its tab becomes visible, when the key changes, on a timer, or on demand.
import { html, useCallback, useEffect, useRef, useState } from "./html.js";
import { visible } from "./live.js";

/**
 * Loads `load({signal})` for `key`. Returns {data, error, loading, reload}. `data` of the same key stays during a reload.
 * `every` is the interval of loads in milliseconds while the page is visible.
 */
export function useLoad(load, key, { every = 0 } = {}) {
  const [state, setState] = useState({ key, data: undefined, error: null });
  const latest = useRef(load);
  const running = useRef(null);
  latest.current = load;
  const reload = useCallback(async () => {
    running.current?.abort();
    const control = (running.current = new AbortController());
    const settle = (change) =>
      control.signal.aborted || setState((old) => ({ ...(old.key === key ? old : { data: undefined }), ...change, key }));
    try {
      settle({ data: await latest.current({ signal: control.signal }), error: null });
    } catch (error) {
      if (error.name !== "AbortError") settle({ error });
    }
  }, [key]);
  const shown = visible.value;
  useEffect(() => {
    if (!shown) return undefined;
    reload();
    const timer = every ? setInterval(reload, every) : 0;
    return () => clearInterval(timer);
  }, [reload, shown, every]);
  useEffect(() => () => running.current?.abort(), []);
  const current = state.key === key ? state : { data: undefined, error: null };
  return { ...current, loading: current.data === undefined && !current.error, reload };
}

/** Returns the title and the next step for an error of the API. */
function words(error) {
  const later = error.retryAfter === null ? "Retry later." : `Retry in ${error.retryAfter} seconds.`;
  const known = {
    0: ["No connection", "Check that the app runs, then retry."],
    VIEW: ["View not loaded", "Press Retry to reload the page."],
    401: ["Sign in to see this page", "The app needs a valid access token."],
    403: ["Your token does not allow this request", "Request the missing scope or role from an administrator, or choose another tenant."],
    404: ["Not found", "The item does not exist, was deleted after its retention, or belongs to another tenant. A code that ends in _OFF names a disabled feature."],
    429: ["Limit reached", later],
    503: ["Temporarily unavailable", `The app or one of its dependencies is busy or unavailable. ${later}`],
  };
  return known[error.status] ?? ["The request failed", "See the error code."];
}

/** Shows an error with its title, detail, code and correlation id, and a button to retry. */
export function ErrorState({ error, retry, compact = false }) {
  const [title, next] = words(error);
  return html`<div class=${compact ? "error-state compact" : "error-state"} role="alert">
    <h2>${title}</h2>
    <p class="clip">${error.message || next}</p>
    ${error.message && html`<p class="muted">${next}</p>`}
    ${error.errors?.map((each) => html`<p class="mono clip">${each.path}: ${each.message}</p>`)}
    <p class="muted small"><a class="mono" href=${`problems#${error.code}`} target="_blank">${error.code}</a>
      ${error.correlationId && html` · correlation id <span class="mono">${error.correlationId}</span>`}</p>
    ${retry && html`<button class="button" onClick=${retry}>Retry</button>`}
  </div>`;
}

/** Shows a title and the next step if there is no data. */
export const EmptyState = ({ title, children }) =>
  html`<div class="empty-state"><h2>${title}</h2><div class="muted">${children}</div></div>`;

/** Shows grey bars while data loads. */
export const Skeleton = ({ rows = 6, height = 20 }) =>
  html`<div class="skeleton" aria-label="Loading" aria-busy="true" role="status">
    ${Array.from({ length: rows }, (_, index) => html`<i key=${index} style=${{ height: `${height}px`, width: `${96 - ((index * 17) % 40)}%` }} />`)}
  </div>`;
