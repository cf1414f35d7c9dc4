import { html } from "../parts/html.js";
import { EmptyState } from "../parts/load.js";

export default () => html`<section class="view"><h1>Incidents</h1><${EmptyState} title="This view is not built yet" /></section>`;
