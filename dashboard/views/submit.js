// A job request as a form next to the dry run's response, and the lane of a tenant's document.
import { html, useEffect, useMemo, useState } from "../parts/html.js";
import { getJob, getRouting, listJobs, listProtocols, submitJob } from "../api.js";
import * as commands from "../parts/commands.js";
import { CopyAs, curlOf } from "../parts/copy.js";
import { EmptyState, ErrorState, Skeleton, useLoad } from "../parts/load.js";
import { go, route, setQuery, tenant } from "../parts/route.js";
import { ownTenant } from "../parts/session.js";
import { Shape } from "../parts/state.js";
import { readForm, SchemaForm } from "../parts/schema_form.js";

/** The required fields of a job request that differ from job to job, and some optional fields, without the payload. */
const REQUIRED = {
  required: ["input_ref", "output_ref"],
  properties: {
    input_ref: { type: "string", description: "URI of the document." },
    output_ref: { type: "string", description: "URI of the destination of the last step's output." },
  },
};
const OPTIONAL = {
  properties: {
    priority: { enum: ["low", "normal", "high", "emergency"], default: "normal", description: "Order of the job in the waiting queue of a quota." },
    doc_id: { type: "string", description: "Document id that the tenant uses. Required for BURST." },
    mode: { enum: ["DEFAULT", "BURST"], description: "BURST spreads the documents of one tenant over the lanes." },
    idempotency_key: { type: "string", description: "Until the key expires, requests with the same key return the same job. A request with another document, output or payload returns 409." },
    labels: { type: "array", items: { type: "string" }, description: "key:value, one per line." },
  },
};
const REQUEST = { ...REQUIRED, properties: { ...REQUIRED.properties, ...OPTIONAL.properties } };
const SAMPLES = ["bw40-manual.pdf", "invoice.png", "minutes-scan.pdf"];
const onLaptop = ["127.0.0.1", "localhost", "[::1]"].includes(location.hostname);

/** Returns the URL of a laptop's blob service, from the newest job or else with the default port of `make up`. */
const storageOf = (job) => /^(https?:\/\/[^/]+\/devstoreaccount1)\//.exec(job?.input_ref?.uri ?? "")?.[1] ?? "http://127.0.0.1:10000/devstoreaccount1";

async function newestJob(options) {
  const { jobs } = await listJobs({ tenant_id: tenant.value, limit: 1 }, options);
  return jobs[0] ? getJob({ jobId: jobs[0].jobId }, options) : null;
}

function bodyOf(protocol, name, texts, payload) {
  const { values, error } = readForm(REQUEST, texts);
  const labels = values.labels && Object.fromEntries(values.labels.map((each) => [each.split(":")[0], each.split(":").slice(1).join(":")]));
  const parts = {};
  let wrong = error ?? (name ? null : "tenant is required");
  for (const step of protocol.steps) {
    const found = readForm(step.payload_schema, payload[step.step_id] ?? {});
    wrong ??= found.error && `${step.step_id}: ${found.error}`;
    if (Object.keys(found.values).length) parts[step.step_id] = found.values;
  }
  const { labels: _, input_ref: input, output_ref: output, ...rest } = values;
  return { body: { schema_version: "1.0", tenant_id: name, request_type: protocol.request_type, input_ref: { uri: input }, output_ref: { uri: output }, payload: parts, ...rest, ...(labels ? { labels } : {}) }, error: wrong };
}

const VERDICTS = { ADMITTED: ["good", "The job can start immediately."], STAGED: ["stopped", "The job must wait for a quota, or for earlier jobs."], REFUSED: ["bad", "LUCIUS refuses the request."] };
const IDEMPOTENCY = {
  DUPLICATE: ["stopped", "LUCIUS returns the existing job, and creates no new job."],
  CONFLICT: ["bad", "LUCIUS refuses the request, because a job with this idempotency key has another body."],
};

function Answer({ body, error, children }) {
  const key = JSON.stringify(body);
  const [settled, setSettled] = useState(key);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(key), 500);
    return () => clearTimeout(timer);
  }, [key]);
  const found = useLoad((options) => (error ? Promise.resolve(null) : submitJob({ dryRun: true, body: JSON.parse(settled) }, options)), `${error}:${settled}`);
  if (error) return html`<p class="muted">Complete the form: ${error}.</p>${children}`;
  if (found.error) return html`<${ErrorState} error=${found.error} retry=${found.reload} compact />${children}`;
  if (!found.data) return html`<${Skeleton} rows=${1} />${children}`;
  const { quota, idempotency, directives } = found.data;
  const [color, text] = IDEMPOTENCY[idempotency.verdict] ?? VERDICTS[quota.verdict] ?? ["idle", quota.verdict];
  return html`<p class=${`state ${color}`}><${Shape} color=${color} />${text}</p>
    ${quota.limit && html`<p class="muted">Limit: <span class="mono">${quota.limit}</span></p>`}
    ${quota.tenant_limit !== null && quota.tenant_limit !== undefined && html`<p class="muted">The tenant has ${quota.tenant_active} active jobs. The limit is ${quota.tenant_limit}.</p>`}
    ${idempotency.jobId && html`<p class="notice">Existing job: <a class="mono" href=${`#/jobs/${idempotency.jobId}`}>${idempotency.jobId.slice(0, 12)}</a></p>`}
    ${children}
    <details><summary>${directives.length} ${directives.length === 1 ? "directive" : "directives"}</summary><pre class="mono">${JSON.stringify(directives, null, 2)}</pre></details>`;
}

/** Shows the lane of this tenant and document, even if the rest of the form is empty. */
function Lane({ name, doc = "", mode = "" }) {
  const ready = name && (mode !== "BURST" || doc);
  const found = useLoad((options) => (ready ? getRouting({ tenant: name, doc_id: doc, mode }, options) : Promise.resolve(null)), JSON.stringify([name, doc, mode]));
  return html`${found.error && html`<${ErrorState} error=${found.error} compact />`}
    ${found.data && html`<p>Lane <b>${found.data.lane}</b> <span class="muted small clip-any">topic ${found.data.topic}, routing key ${found.data.routing_key_used} (${found.data.decision_reason})</span></p>`}`;
}

export default function Submit() {
  const protocols = useLoad((options) => listProtocols({}, options), "protocols");
  const newest = useLoad(newestJob, `newest:${tenant.value}`);
  const [name, setName] = useState(tenant.value || ownTenant.value || (onLaptop ? "demo" : ""));
  const [texts, setTexts] = useState({});
  const [payload, setPayload] = useState({});
  const [state, setState] = useState({ busy: false, error: null });
  const list = protocols.data?.protocols ?? [];
  const chosen = route.value.query.get("type");
  const protocol = list.find((each) => each.request_type === chosen) ?? list.find((each) => each.request_type === "OCR_EMBEDDING_SIS") ?? list[0];
  const { body, error } = useMemo(() => (protocol ? bodyOf(protocol, name.trim(), texts, payload) : {}), [protocol, name, texts, payload]);
  if (protocols.error) return html`<section class="view"><h1>Submit</h1><${ErrorState} error=${protocols.error} retry=${protocols.reload} /></section>`;
  if (!protocols.data) return html`<section class="view"><h1>Submit</h1><${Skeleton} rows=${8} height=${36} /></section>`;
  if (!protocol) return html`<section class="view"><h1>Submit</h1><${EmptyState} title="No protocols"><p>The app has loaded no protocols. An operator must add a protocol.</p><//></section>`;
  const storage = storageOf(newest.data);
  const sample = (file) => setTexts({ ...texts, input_ref: `${storage}/documents/samples/${file}`, output_ref: `${storage}/results` });
  const submit = async (event) => {
    event.preventDefault();
    setState({ busy: true, error: null });
    try {
      const { jobId } = await submitJob({ body });
      go(["jobs", jobId], { tenant: tenant.value && name });
    } catch (refused) {
      setState({ busy: false, error: refused });
    }
  };
  return html`<section class="view" aria-labelledby="title">
    <header class="view-header"><h1 id="title">Submit</h1><${CopyAs} curl=${curlOf(submitJob, { body })} lucius=${commands.submit(body)} /></header>
    <div class="split">
      <form class="card form" id="request" onSubmit=${submit}>
        <label class="field">Job type<select value=${protocol.request_type} onChange=${(event) => (setPayload({}), setQuery({ type: event.target.value }))}>${list.map((each) => html`<option key=${each.request_type} value=${each.request_type}>${each.request_type}</option>`)}</select><small>${protocol.description}</small></label>
        <label class="field">Tenant *<input value=${name} required readonly=${Boolean(ownTenant.value)} onInput=${(event) => setName(event.target.value)} /></label>
        ${onLaptop && html`<div class="buttons"><span class="muted small">Samples:</span>${SAMPLES.map((each) => html`<button type="button" key=${each} class="button small" onClick=${() => sample(each)}>${each}</button>`)}</div>`}
        <${SchemaForm} schema=${REQUIRED} texts=${texts} onTexts=${setTexts} />
        ${protocol.steps.filter((step) => step.payload_schema?.properties).map((step) => html`<fieldset key=${step.step_id}><legend>${step.step_id}</legend>
          <${SchemaForm} schema=${step.payload_schema} texts=${payload[step.step_id] ?? {}} onTexts=${(next) => setPayload({ ...payload, [step.step_id]: next })} /></fieldset>`)}
        <details><summary>Priority, document id, mode, idempotency key, labels</summary><${SchemaForm} schema=${OPTIONAL} texts=${texts} onTexts=${setTexts} /></details>
      </form>
      <div class="stack"><section class="card" aria-live="polite"><header><h2>Preview</h2><button class="button primary" form="request" disabled=${state.busy || Boolean(error)}>${state.busy ? "Working…" : "Submit the job"}</button></header>
          ${state.error && html`<${ErrorState} error=${state.error} compact />`}
          <${Answer} body=${body} error=${error}><${Lane} key="lane" name=${name.trim()} doc=${body.doc_id} mode=${body.mode} /><//></section>
        <section class="card"><header><h2>Request</h2></header><pre class="mono">${JSON.stringify(body, null, 2)}</pre></section></div>
    </div>
  </section>`;
}
