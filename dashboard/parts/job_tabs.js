// The tabs of a job besides its timeline and its run: events, steps, request, audit.
import { Fragment, html, useState } from "./html.js";
import { getAudit } from "../api.js";
import * as commands from "./commands.js";
import { CopyButton } from "./copy.js";
import { ErrorState, Skeleton, useLoad } from "./load.js";
import { colorOf, Shape, State } from "./state.js";
import { duration, exact } from "./time.js";
import { verifyChain } from "./verify.js";

const json = (value) => JSON.stringify(value, null, 2);
const Facts = ({ facts }) => html`<dl class="fact-list">${facts.filter(([, value]) => value !== null && value !== undefined && value !== "").map(([name, value]) => html`<${Fragment} key=${name}><dt>${name}</dt><dd class="clip-any">${value}</dd><//>`)}</dl>`;
const Uri = ({ value }) => (value?.uri ? html`<span class="mono small break">${value.uri}</span> <${CopyButton} small text=${value.uri}>copy<//>` : null);

export function Events({ events }) {
  const [open, setOpen] = useState(null);
  return html`<table class="table events"><thead><tr><th>#</th><th>Event</th><th>Step</th><th>Change</th><th>Actor</th><th>Time</th></tr></thead><tbody>
    ${events.map((event) => {
      const ignored = event.type === "REPLY_IGNORED";
      const shown = open === event.seq;
      return html`<${Fragment} key=${event.seq}>
        <tr class=${ignored ? "ignored" : ""}>
          <td class="tabular muted">${event.seq}</td>
          <td><button class="link mono" aria-expanded=${shown} onClick=${() => setOpen(shown ? null : event.seq)}>${event.type}</button></td>
          <td class="clip">${event.stepId ?? ""}${event.attempt_no ? html` <span class="muted tabular">${event.attempt_no}</span>` : ""}</td>
          <td class="clip">${event.reason ? event.reason : [["step", event.from_status, event.to_status], ["job", event.job_from, event.job_to]].filter(([, from, to]) => to && from !== to).map(([of, , to]) => html`<span key=${of} class=${`state change ${colorOf(to)}`}><${Shape} color=${colorOf(to)} /><span class="muted">${of}</span> ${to}</span>`)}</td>
          <td class="muted clip">${event.actor}</td>
          <td class="muted tabular nowrap">${exact(event.at, { date: false })}</td>
        </tr>
        ${shown && html`<tr class="detail"><td colspan="6"><pre class="mono">${json(event)}</pre></td></tr>`}
      <//>`;
    })}
  </tbody></table>`;
}

export const Steps = ({ job, receipt }) => html`<div class="cards">${job.steps.map((step) => {
  const spent = receipt?.steps.find((each) => each.stepId === step.stepId);
  return html`<article key=${step.stepId} class="card">
    <header><h2>${step.stepId}</h2><${State} status=${step.status} /></header>
    <${Facts} facts=${[
      ["Service", step.service],
      ["Attempts", `${step.attempt_no} of ${step.max_attempts}`],
      ["Time", spent && `${duration(spent.service_s)} in the service, ${duration(spent.ack_s)} to the ACK`],
      ["Lane", `${step.lane} (${step.resolved_mode}, routed by ${step.routing_key_used})`],
      ["Waits for", step.gated_by && `dispatch limit ${step.gated_by}`],
      ["Next attempt", step.due_at && step.status === "FAILED_RETRY" && exact(step.due_at)],
      ["Error", step.last_error_code && html`<b class="mono">${step.last_error_code}</b> ${step.last_error_message}`],
      ["Input", step.input_ref && html`<${Uri} value=${step.input_ref} />`],
      ["Result", step.result_ref && html`<${Uri} value=${step.result_ref} />`],
      ["Metrics", step.result?.metrics && Object.entries(step.result.metrics).map(([name, value]) => html`<span key=${name} class="chip">${name} ${value}</span>`)],
      ["Progress", step.progress && html`<pre class="mono small">${json(step.progress)}</pre>`],
    ]} />
    ${step.result && html`<details><summary>RESULT</summary><pre class="mono">${json(step.result)}</pre></details>`}
  </article>`;
})}</div>`;

export function Request({ job }) {
  const payload = Object.fromEntries(job.steps.filter((step) => Object.keys(step.payload ?? {}).length).map((step) => [step.stepId, step.payload]));
  return html`<div class="cards"><article class="card"><${Facts} facts=${[
    ["Requested", `${exact(job.requested_at)}${job.requested_by ? ` by ${job.requested_by}` : ""}`],
    ["Protocol", `${job.protocol_id} version ${job.protocol_version}`],
    ["Mode", job.mode],
    ["Document", job.doc_id],
    ["Source", job.source],
    ["Idempotency key", job.idempotency_key],
    ["Correlation id", html`<span class="mono">${job.correlation_id}</span> <${CopyButton} small text=${job.correlation_id}>copy<//>`],
    ["Input", html`<${Uri} value=${job.input_ref} />`],
    ["Output", html`<${Uri} value=${job.output_ref} />`],
    ["Result", job.final_output && html`<${Uri} value=${job.final_output} />`],
    ["Callbacks", Object.values(job.callback_urls).join(", ")],
    ["Deadline", job.deadline_at && exact(job.deadline_at)],
    ["Payload digest", html`<span class="mono small break">${job.payload_digest}</span>`],
  ]} /></article><article class="card"><header><h2>Payload</h2></header><pre class="mono">${json(payload)}</pre></article></div>`;
}

export function Audit({ jobId }) {
  const found = useLoad(async (options) => {
    const bundle = await getAudit({ jobId }, options);
    return { bundle, proof: await verifyChain(bundle) };
  }, jobId);
  if (found.error) return html`<${ErrorState} error=${found.error} retry=${found.reload} />`;
  if (!found.data) return html`<${Skeleton} rows=${4} />`;
  const { bundle, proof } = found.data;
  const save = () => {
    const anchor = document.createElement("a");
    anchor.href = URL.createObjectURL(new Blob([json(bundle)], { type: "application/json" }));
    anchor.download = `${jobId}.audit.json`;
    anchor.click();
    setTimeout(() => URL.revokeObjectURL(anchor.href), 1000);
  };
  return html`<div class="cards"><article class="card">
    <header><h2><span class=${`state ${proof.ok ? "good" : "bad"}`}><${Shape} color=${proof.ok ? "good" : "bad"} />${proof.ok ? "Complete hash chain" : "Invalid audit bundle"}</span></h2></header>
    <p>${proof.text}</p>
    <p class="muted">This browser checks the digest of the bundle, then compares the hashes between events. To recompute the hash of each event, run the lucius command.</p>
    <div class="buttons"><button class="button primary" onClick=${save}>Download the bundle</button>
      <${CopyButton} text=${commands.audit(jobId)}>Copy as lucius command<//></div>
    <${Facts} facts=${[["Digest", html`<span class="mono small break">${bundle.digest}</span>`], ["Created", exact(bundle.taken_at)], ["Format", bundle.format], ["Events", bundle.events.length]]} />
  </article></div>`;
}
