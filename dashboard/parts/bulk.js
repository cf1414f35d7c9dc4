// Actions on many jobs: one request for each selected job, or one bulk operation for all that match the filter.
import { html, useEffect, useState } from "./html.js";
import { cancelJob, createBulk, getBulk, pauseJob, redriveJob, resumeJob } from "../api.js";
import { CopyButton, curlOf } from "./copy.js";
import { ActionDialog } from "./dialog.js";
import { ErrorState, Skeleton, useLoad } from "./load.js";

const ACTIONS = { cancel: ["Cancel", cancelJob], pause: ["Pause", pauseJob], resume: ["Resume", resumeJob], redrive: ["Redrive", redriveJob] };

function Preview({ body, onReady }) {
  const found = useLoad((options) => createBulk({ ...body, dryRun: true, reason: "dry run" }, options), JSON.stringify(body));
  useEffect(() => onReady(Boolean(found.data?.matched)), [found.data]);
  if (found.error) return html`<${ErrorState} error=${found.error} retry=${found.reload} compact />`;
  if (!found.data) return html`<${Skeleton} rows=${2} />`;
  const { matched, more, first } = found.data;
  return html`<p class="big"><b class="tabular">${matched}${more ? " or more" : ""}</b> ${matched === 1 ? "job matches" : "jobs match"} now.</p>
    <p class="muted">LUCIUS refuses the action for jobs whose state does not allow the action. These jobs do not change.</p>
    ${first.length > 0 && html`<ul class="mono small plain">${first.slice(0, 5).map((each) => html`<li key=${each} class="clip">${each}</li>`)}</ul>`}`;
}

function Progress({ bulk, onDone }) {
  const found = useLoad((options) => getBulk({ bulkId: bulk.bulkId, tenant: bulk.tenant }, options), bulk.bulkId, { every: 1500 });
  const { state, matched, done, refused } = found.data ?? bulk;
  useEffect(() => void (state !== "RUNNING" && onDone()), [state]);
  return html`<span role="status">${state === "RUNNING" ? "Running" : "Ended"}: <b class="tabular">${done}</b> of <b class="tabular">${matched}</b> jobs${refused > 0 ? `, ${refused} refused` : ""}
    <progress value=${done + refused} max=${Math.max(1, matched)} /></span>`;
}

export function BulkBar({ filter, text, marked, jobs, more, onDone }) {
  const [action, setAction] = useState(null);
  const [ready, setReady] = useState(true);
  const [bulk, setBulk] = useState(null);
  const [outcome, setOutcome] = useState(null);
  if (!jobs.length && !bulk) return null;
  const all = marked.size === 0;
  if (all && !text && !bulk && !outcome) return null;
  const given = Object.fromEntries(Object.entries(filter).filter(([, value]) => value));
  const body = { action, filter: given };
  const run = async (reason) => {
    if (all) return setBulk(await createBulk({ ...body, reason }));
    let done = 0;
    const refused = [];
    for (const jobId of marked) {
      setOutcome({ done, total: marked.size, refused });
      await ACTIONS[action][1]({ jobId, reason }).then(() => (done += 1), (error) => refused.push(`${jobId}: ${error.message}`));
    }
    setOutcome({ done, total: marked.size, refused });
    return onDone();
  };
  return html`<div class="bulk-bar">
    <span>${all ? `All matching jobs (${jobs.length}${more ? "+" : ""})` : html`<b class="tabular">${marked.size}</b> selected`}</span>
    ${Object.entries(ACTIONS).map(([name, [verb]]) => html`<button key=${name} class="button small" onClick=${() => (setReady(!all), setAction(name))}>${verb}</button>`)}
    ${bulk && html`<${Progress} bulk=${bulk} onDone=${onDone} />`}
    ${outcome && html`<span role="status" title=${outcome.refused.join("\n")}>${outcome.done} of ${outcome.total} jobs done${outcome.refused.length > 0 ? `, ${outcome.refused.length} with an error` : ""}</span>`}
    ${action && html`<${ActionDialog} title=${`${ACTIONS[action][0]} ${all ? "all matching jobs" : `${marked.size} ${marked.size === 1 ? "job" : "jobs"}`}`} verb=${ACTIONS[action][0]} danger=${action === "cancel"}
      reason="required" ready=${ready} action=${run} onClose=${() => setAction(null)}>
      ${all ? html`<${Preview} body=${body} onReady=${setReady} /><${CopyButton} small text=${curlOf(createBulk, { ...body, reason: "REASON" })}>Copy as curl<//>`
        : html`<p>The page sends the action for each selected job.</p>`}
    <//>`}
  </div>`;
}
