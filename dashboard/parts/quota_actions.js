// Changes of a quota: limits with a dry run, hold, throttle, resume, and the reset of its breaker.
import { html, useEffect, useState } from "./html.js";
import { changeQuota, holdQuota, resetBreaker, resumeQuota, throttleQuota } from "../api.js";
import { CopyButton, curlOf } from "./copy.js";
import { ActionDialog } from "./dialog.js";
import { ErrorState, Skeleton, useLoad } from "./load.js";
import { may, operatesAll } from "./session.js";

/** Returns true for a dispatch limit, which stops steps instead of jobs. */
export const isDispatchLimit = (quota) => ["service", "lane"].includes(quota.kind);

const LIMITS = { max_active: "Maximum active jobs", max_per_hour: "Rate in starts per hour" };
/** Limits of a dispatch limit, which has no rate. */
const DISPATCH_LIMITS = { max_active: "Maximum directives in flight" };
/** Maximum number of jobs that a preview counts. */
const COUNTED = 1000;

/** Shows the effect of a change of limits, from a dry run. */
function Preview({ keys, change, headers, onReady }) {
  const found = useLoad((options) => changeQuota({ ...keys, dryRun: true, body: { ...change, reason: "dry run" } }, { ...options, headers }), JSON.stringify(change));
  useEffect(() => onReady(Boolean(found.data?.changed)), [found.data]);
  if (found.error) return html`<${ErrorState} error=${found.error} compact />`;
  if (!found.data) return html`<${Skeleton} rows=${2} />`;
  const { changed, released, held_back: heldBack } = found.data;
  if (!changed) return html`<p class="muted">The quota has these limits already.</p>`;
  if (typeof released !== "number") return html`<p class="muted">The preview has no number of starting jobs for these limits.</p>`;
  return html`<p class="big"><b class="tabular">${released}${released === COUNTED ? " or more" : ""}</b> waiting ${released === 1 ? "job starts" : "jobs start"} with these limits.</p>
    ${heldBack > 0 && html`<p class="muted"><b class="tabular">${heldBack}${heldBack === COUNTED ? " or more" : ""}</b> ${heldBack === 1 ? "job continues" : "jobs continue"} to wait for this quota.</p>`}`;
}

export function QuotaActions({ quota, keys, onDone }) {
  const [open, setOpen] = useState(null);
  const [values, setValues] = useState({});
  const [ready, setReady] = useState(true);
  const named = quota.name ? { name: quota.name } : { tenant: quota.tenant, job_type: quota.type, source: quota.source };
  const start = (name) => {
    setValues({ max_active: quota.rule?.max_active ?? "", max_per_hour: name === "throttle" ? 60 : quota.rule?.max_per_hour ?? "" });
    setReady(name !== "limits");
    setOpen(name);
  };
  const number = (value) => (value === "" ? null : Number(value));
  const sends = isDispatchLimit(quota);
  const labels = sends ? DISPATCH_LIMITS : LIMITS;
  const change = Object.fromEntries(Object.keys(labels).map((name) => [name, number(values[name] ?? "")]));
  const given = Object.fromEntries(Object.entries(named).filter(([, value]) => value));
  const actions = {
    limits: ["Change limits", (reason) => [changeQuota, { ...keys, body: { ...change, reason } }]],
    hold: ["Hold", (reason) => [holdQuota, { body: { ...given, reason } }]],
    throttle: ["Throttle", (reason) => [throttleQuota, { body: { ...given, max_per_hour: number(values.max_per_hour ?? ""), reason } }]],
    resume: ["Resume", (reason) => [resumeQuota, { body: { ...given, reason } }]],
    reset: ["Reset breaker", (reason) => [resetBreaker, { ...keys, body: { reason } }]],
  };
  // the API refuses a change if another operator changed the quota meanwhile
  const headers = open === "limits" ? { "If-Match": quota.etag } : {};
  // limits for every tenant only set the limits of other quotas
  const defaults = quota.tenant === "*" && !quota.name;
  // a tenant's own caller can hold, throttle and resume; other changes require an operator
  const own = ["hold", "throttle", "resume"];
  const offered = Object.keys(actions).filter((name) => (operatesAll.value || (quota.tenant !== "*" && own.includes(name))) && ({ hold: !quota.hold && !defaults, throttle: !defaults && !sends, resume: Boolean(quota.hold || quota.throttle), reset: ["OPEN", "HALF_OPEN"].includes(quota.breaker?.state) }[name] ?? true));
  if (!may(changeQuota)) return null;
  const input = (name) => html`<label class="field" key=${name}>${labels[name]}<input type="number" min="1" required=${open === "throttle"} value=${values[name]} placeholder=${open === "throttle" ? "" : "no limit"} onInput=${(event) => setValues({ ...values, [name]: event.target.value })} /></label>`;
  const run = async (reason) => {
    const [send, sent] = actions[open][1](reason);
    await send(sent, { headers });
    await onDone();
  };
  return html`<div class="buttons">
    ${offered.map((name) => html`<button key=${name} class="button small" onClick=${() => start(name)}>${actions[name][0]}</button>`)}
    ${open && html`<${ActionDialog} title=${actions[open][0]} verb=${actions[open][0]} danger=${open === "hold"} reason="required" ready=${ready} action=${run} onClose=${() => setOpen(null)}>
      ${open === "limits" && html`${Object.keys(labels).map(input)}<${Preview} keys=${keys} headers=${headers} change=${change} onReady=${setReady} />`}
      ${open === "hold" && html`<p>LUCIUS ${sends ? "starts no further attempt" : "admits no further job"} until a caller resumes the quota. ${sends ? "Attempts in flight" : "Running jobs"} continue.</p>`}
      ${open === "throttle" && input("max_per_hour")}
      ${open === "resume" && html`<p>The hold and the throttle end. ${sends ? "Waiting steps check the limit again within about 5 minutes." : "LUCIUS then admits waiting jobs within the limits, in the order of the waiting queue."}</p>`}
      ${open === "reset" && html`<p>The breaker closes, and LUCIUS clears the counts of the breaker. LUCIUS then admits waiting jobs within the limits, in the order of the waiting queue.</p>`}
      <${CopyButton} small text=${curlOf(...actions[open][1]("REASON"), headers)}>Copy as curl<//>
    <//>`}
  </div>`;
}
