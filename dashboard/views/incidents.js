// The lists of incidents, dead letters, rejected messages, and webhooks with their deliveries.
import { html, useState } from "../parts/html.js";
import * as api from "../api.js";
import * as commands from "../parts/commands.js";
import { CopyAs, curlOf } from "../parts/copy.js";
import { ActionDialog } from "../parts/dialog.js";
import { EmptyState, ErrorState, Skeleton, useLoad } from "../parts/load.js";
import { link, route, setQuery, tenant } from "../parts/route.js";
import { may, ownTenant } from "../parts/session.js";
import { Shape } from "../parts/state.js";
import { Time } from "../parts/time.js";

const COLORS = { OPEN: "bad", RESOLVED: "good", RETRIED: "active", DISMISSED: "stopped", ENABLED: "good", DISABLED: "idle", SUSPENDED: "bad", DELIVERED: "good", DEAD: "bad", PENDING: "active" };
const Mark = ({ state }) => html`<span class=${`state ${COLORS[state] ?? "idle"}`}><${Shape} color=${COLORS[state] ?? "idle"} />${state.toLowerCase()}</span>`;
const job = (id) => html`<a class="mono" href=${link(["jobs", id])}>${id.slice(0, 12)}</a>`;

/** Shows the buttons of a row, {verb, send, values, text, danger} each. A button prompts for a reason unless `reason` is "none". `result(answer)` returns the text to show after a success. */
function Actions({ actions, onDone }) {
  const [open, setOpen] = useState(null);
  const [result, setResult] = useState("");
  const run = async (reason) => {
    const answer = await open.send({ ...open.values, reason });
    setResult(open.result ? open.result(answer) : "");
    await onDone();
  };
  return html`<span class="buttons">${actions.map((each) => html`<button key=${each.verb} class="button small" onClick=${() => setOpen(each)}>${each.verb}</button>`)}<span role="status" class="small">${result}</span>
    ${open && html`<${ActionDialog} title=${open.verb} verb=${open.verb} reason=${open.reason ?? "required"} danger=${open.danger} action=${run} onClose=${() => setOpen(null)}><p>${open.text}</p><//>`}</span>`;
}

/** Shows a list of the API: its rows, or that it loads, failed or is empty. */
function List({ load, id, items, empty, children }) {
  const found = useLoad(load, id, { every: 10000 });
  if (found.error && !found.data) return html`<${ErrorState} error=${found.error} retry=${found.reload} />`;
  if (!found.data) return html`<${Skeleton} rows=${5} height=${48} />`;
  if (!found.data[items].length) return empty;
  return html`<div class="stack">${found.data[items].map((each) => html`<article class="card" key=${each.incidentId ?? each.id ?? (each.number ? `${each.number}:${each.name}` : each.jobId ?? each.hookId)}>${children(each, found.reload)}</article>`)}
    ${found.data.next && html`<p class="muted small">The page shows the first ${found.data[items].length} items.</p>`}</div>`;
}

function Incidents({ id }) {
  const load = async (options) => (id ? { incidents: [await api.getIncident({ incidentId: id }, options)] } : api.listIncidents({ tenant_id: tenant.value, limit: 50 }, options));
  return html`<${List} id=${`incidents:${tenant.value}:${id}`} load=${load} items="incidents"
    empty=${html`<${EmptyState} title="No incidents"><p>LUCIUS opens an incident for an escalated job failure, an open circuit breaker, a silent service, or a row that LUCIUS cannot process.</p><//>`}>
    ${(each, reload) => html`<header><h2 class="clip"><${Mark} state=${each.state} /> <span class="mono">${each.code}</span></h2>
      ${each.state === "OPEN" && may(api.resolveIncident) && html`<${Actions} onDone=${reload} actions=${[
        ...(each.kind === "JOB" ? [{ verb: "Redrive", send: api.retryIncident, values: { incidentId: each.incidentId }, text: "A new job runs the steps that have not succeeded, and keeps the results of the other steps." }] : []),
        { verb: "Resolve", send: api.resolveIncident, values: { incidentId: each.incidentId }, text: "Choose Resolve if the cause is repaired. The job of the incident, if any, stays a dead letter." },
        { verb: "Dismiss", send: api.dismissIncident, values: { incidentId: each.incidentId }, text: "Choose Dismiss if the incident needs no action. The job of the incident, if any, leaves the dead letters." },
      ]} />`}</header>
      <p class="clip-lines">${each.detail}</p>
      <p class="muted small">${each.kind === "JOB" ? html`job ${job(each.subject)}` : html`${each.kind.toLowerCase()} <span class="clip-any">${each.subject}</span>`}${each.tenant ? ` · tenant ${each.tenant}` : ""} · opened <${Time} at=${each.opened_at} />
        ${each.settled_by && html` · ${each.state.toLowerCase()} by ${each.settled_by}${each.reason ? `: ${each.reason}` : ""}`}${each.retried_by && html` · new job ${job(each.retried_by)}`}</p>`}
  <//>`;
}

const DeadLetters = () => html`<${List} id=${`dead:${tenant.value}`} load=${(options) => api.listDeadLetters({ tenant_id: tenant.value, limit: 50 }, options)} items="deadletters"
  empty=${html`<${EmptyState} title="No dead letters"><p>A dead letter is a failed job that is neither redriven nor dismissed.</p><//>`}>
  ${(each, reload) => html`<header><h2 class="clip mono">${each.error_code ?? each.last_error_code}</h2>${may(api.redriveJob) && html`<${Actions} onDone=${reload} actions=${[
    { verb: "Redrive", send: api.redriveJob, values: { jobId: each.jobId }, reason: "optional", text: "A new job runs the steps that have not succeeded, and keeps the results of the other steps." },
    { verb: "Dismiss", send: api.dismissDeadLetter, values: { jobId: each.jobId }, text: "The job stays failed and leaves this list. LUCIUS dismisses the open incident of the job, if any." },
  ]} />`}</header><p class="clip-lines">${each.error_message}</p>
  <p class="muted small">job ${job(each.jobId)} · ${each.request_type} · step ${each.failed_step_id} · attempts: ${each.attempts_total} · tenant ${each.tenant_id} · <${Time} at=${each.completed_at} /></p>`}
<//>`;

function Message({ id, onDone }) {
  const found = useLoad((options) => api.getRejected({ rejectedId: id }, options), `rejected:${id}`);
  if (found.error) return html`<${ErrorState} error=${found.error} retry=${found.reload} compact />`;
  if (!found.data) return html`<${Skeleton} rows=${3} />`;
  const { what_if: whatIf, body } = found.data;
  return html`${whatIf && html`<p><b>Expected result of a redrive:</b> <span class="mono">${whatIf.outcome}</span> ${whatIf.why}</p>`}<pre class="mono">${body}</pre>
    ${may(api.redriveRejected) && html`<${Actions} onDone=${onDone} actions=${[{ verb: "Redrive message", send: api.redriveRejected, values: { rejectedId: id }, reason: "none", text: "LUCIUS applies the message as if the message arrived now." }]} />`}`;
}

function Rejected() {
  const [open, setOpen] = useState(null);
  return html`<${List} id=${`rejected:${tenant.value}`} load=${(options) => api.listRejected({ tenant: tenant.value, limit: 50 }, options)} items="rejected"
    empty=${html`<${EmptyState} title="No rejected messages"><p>LUCIUS stores messages that no job accepts, with the reason.${tenant.value && " Clear the tenant to list also messages that name no tenant."}</p><//>`}>
    ${(each, reload) => html`<header><h2 class="clip"><span class="mono">${each.reason}</span></h2><button class="button small" aria-expanded=${open === each.id} onClick=${() => setOpen(open === each.id ? null : each.id)}>${open === each.id ? "Close" : "Preview"}</button></header>
      <p class="clip-lines">${each.detail}</p><p class="muted small">lane ${each.lane} · message <span class="mono clip-any">${each.message_id}</span> · <${Time} at=${each.received_at} />${each.redriven_outcome ? ` · redriven: ${each.redriven_outcome}` : ""}</p>
      ${open === each.id && html`<${Message} id=${each.id} onDone=${reload} />`}`}
  <//>`;
}

const Deliveries = ({ hook }) => html`<${List} id=${`deliveries:${hook.hookId}`} load=${(options) => api.listDeliveries({ hookId: hook.hookId, tenant_id: hook.tenant, limit: 20 }, options)} items="deliveries" empty=${html`<p class="muted">The webhook has no deliveries.</p>`}>
  ${(each, reload) => html`<header><span><${Mark} state=${each.state} /> <span class="mono">${each.event_type}</span></span>${each.state !== "PENDING" && may(api.redeliver) && html`<${Actions} onDone=${reload} actions=${[{ verb: "Redeliver", reason: "none", send: api.redeliver, values: { hookId: hook.hookId, number: each.number, tenant_id: hook.tenant, name: each.name }, text: "LUCIUS sends the event again. While the webhook is disabled, suspended or waiting after failures, the event waits." }]} />`}</header>
    <p class="muted small">${each.jobId ? html`job ${job(each.jobId)} · ` : ""}tries: ${each.tries}${each.status ? ` · HTTP ${each.status}` : ""}${each.error ? ` · ${each.error}` : ""} · <${Time} at=${each.tried_at ?? each.created_at} /></p>`}
<//>`;

const testResult = ({ delivered, status, error, took_ms: took }) => `${delivered ? "Delivered" : "Not delivered"}: ${status ? `HTTP ${status}` : error} in ${took} ms`;

function Webhooks() {
  const [open, setOpen] = useState(null);
  if (!tenant.value && !ownTenant.value) return html`<${EmptyState} title="Choose a tenant"><p>A webhook belongs to one tenant. Enter the tenant's name at the top.</p><//>`;
  return html`<${List} id=${`hooks:${tenant.value}`} load=${(options) => api.listWebhooks({ tenant_id: tenant.value }, options)} items="webhooks" empty=${html`<${EmptyState} title="No webhooks"><p>Create a webhook with <code class="mono">lucius webhook create URL</code>.</p><//>`}>
    ${(each, reload) => html`<header><h2 class="clip"><${Mark} state=${each.state} /> ${each.url ?? "callback URLs of jobs"}</h2><span class="buttons">
      <button class="button small" aria-expanded=${open === each.hookId} onClick=${() => setOpen(open === each.hookId ? null : each.hookId)}>Deliveries</button>
      ${may(api.testWebhook) && html`<${Actions} onDone=${reload} actions=${[...(each.hookId === "default" ? [] : [{ verb: "Test", reason: "none", send: api.testWebhook, values: { hookId: each.hookId, tenant_id: each.tenant }, text: "LUCIUS sends a test event to the endpoint.", result: testResult }]), ...(each.state === "SUSPENDED" ? [{ verb: "Resume", reason: "none", send: api.resumeWebhook, values: { hookId: each.hookId, tenant_id: each.tenant }, text: "LUCIUS sends the waiting deliveries of the webhook." }] : [])]} />`}</span></header>
      <p class="muted small">${each.description}${each.failures > 0 ? ` · ${each.failures} failures since ${each.failing_since}` : ""}${each.succeeded_at ? html` · last success <${Time} at=${each.succeeded_at} />` : ""}</p>
      ${open === each.hookId && html`<${Deliveries} hook=${each} />`}`}
  <//>`;
}

const TABS = {
  incidents: ["Incidents", (id) => (id ? [curlOf(api.getIncident, { incidentId: id }), commands.incident(id)] : [curlOf(api.listIncidents, { tenant_id: tenant.value }), commands.incidents(tenant.value)])],
  deadletters: ["Dead letters", () => [curlOf(api.listDeadLetters, { tenant_id: tenant.value }), commands.deadletters(tenant.value)]],
  rejected: ["Rejected", () => [curlOf(api.listRejected, { tenant: tenant.value }), commands.rejected(tenant.value)]],
  webhooks: ["Webhooks", () => [curlOf(api.listWebhooks, { tenant_id: tenant.value }), commands.webhooks(tenant.value)]],
};

export default function IncidentsView({ path }) {
  const tab = TABS[route.value.query.get("tab")] ? route.value.query.get("tab") : "incidents";
  const [curl, lucius] = TABS[tab][1](path[1]);
  return html`<section class="view" aria-labelledby="title">
    <header class="view-header"><h1 id="title">Incidents</h1><${CopyAs} curl=${curl} lucius=${lucius} /></header>
    <div class="segmented" role="group" aria-label="Lists">${Object.entries(TABS).map(([name, [title]]) => html`<button key=${name} aria-pressed=${tab === name} onClick=${() => setQuery({ tab: name === "incidents" ? null : name })}>${title}</button>`)}</div>
    ${tab === "incidents" && path[1] && html`<p><a href=${link(["incidents"])}>All incidents</a></p>`}
    ${tab === "incidents" && html`<${Incidents} id=${path[1]} />`}${tab === "deadletters" && html`<${DeadLetters} />`}${tab === "rejected" && html`<${Rejected} />`}${tab === "webhooks" && html`<${Webhooks} />`}
  </section>`;
}
