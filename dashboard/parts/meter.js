// A bar with a number and its maximum.
import { html } from "./html.js";

export const Meter = ({ value, most }) => html`<span class="meter" role="img" aria-label=${most === null || most === undefined ? `${value}, no maximum` : `${value} of ${most}`}>
  ${most !== null && most !== undefined && html`<i class="bar"><i class=${value >= most ? "full" : ""} style=${{ width: `${most ? Math.min(100, (100 * value) / most) : 100}%` }} /></i>`}
  <b class="tabular">${value}${most !== null && most !== undefined ? ` / ${most}` : ""}</b></span>`;
