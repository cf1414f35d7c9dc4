// A view whose code the page loads when the user first opens the view.
import { html, useEffect, useState } from "./html.js";
import { ErrorState, Skeleton } from "./load.js";

export function Later({ load, path }) {
  const [state, setState] = useState({ View: null, error: null });
  const start = () => load().then((module) => setState({ View: module.default, error: null }), () => setState({ View: null, error: { status: "VIEW", code: "VIEW_NOT_LOADED", errors: [], message: "The page could not load this view. The app may not respond, or an update may have replaced the view's files." } }));
  useEffect(() => void start(), []);
  if (state.error) return html`<section class="view"><${ErrorState} error=${state.error} retry=${() => location.reload()} /></section>`;
  return state.View ? html`<${state.View} path=${path} />` : html`<section class="view"><${Skeleton} /></section>`;
}
