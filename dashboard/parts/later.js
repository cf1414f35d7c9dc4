// A view whose code is loaded when it is first opened.
import { html, useEffect, useState } from "./html.js";
import { ErrorState, Skeleton } from "./load.js";

export function Later({ load, path }) {
  const [state, setState] = useState({ View: null, error: null });
  const start = () => load().then((module) => setState({ View: module.default, error: null }), () => setState({ View: null, error: { status: 0, code: "VIEW_NOT_LOADED", errors: [], message: "The view could not be loaded. After an update of the app, reload the page." } }));
  useEffect(() => void start(), []);
  if (state.error) return html`<section class="view"><${ErrorState} error=${state.error} retry=${() => location.reload()} /></section>`;
  return state.View ? html`<${state.View} path=${path} />` : html`<section class="view"><${Skeleton} /></section>`;
}
