// The actions on one job that the page offers for its state and the caller's scopes.
import { html, useState } from "./html.js";
import { admitJob, cancelJob, changePriority, pauseJob, redriveJob, replayJob, resumeJob } from "../api.js";
import { CopyButton, curlOf } from "./copy.js";
import { ActionDialog } from "./dialog.js";
import { go } from "./route.js";
import { may, operatesAll } from "./session.js";

const WAITING = ["THROTTLED", "WAITING_FOR_JOBS"];
const RUNNING = ["QUEUED", "IN_PROGRESS"];
const ACTIONS = [
  { name: "pause", verb: "Pause", states: RUNNING, send: pauseJob, text: "The job starts no further attempt. Attempts in flight finish." },
  { name: "resume", verb: "Resume", states: ["PAUSED", "PAUSING"], send: resumeJob, text: "The job continues with its next attempt or step. A job that was not admitted yet waits for its quotas or other jobs again." },
  { name: "admit", verb: "Admit", states: ["THROTTLED"], send: admitJob, reason: "required", text: "The job starts now, even if a quota of the job is held, has reached a limit, or has an open circuit breaker." },
  { name: "priority", verb: "Priority", states: ["THROTTLED"], send: changePriority, reason: "required", text: "The job moves to the position of its new priority in the waiting queue." },
  { name: "redrive", verb: "Redrive", states: ["FAILED_FINAL", "CANCELLED"], send: redriveJob, text: "A new job runs the steps that have not succeeded, and keeps the results of the other steps. If all steps succeeded, the new job runs the last step again." },
  { name: "replay", verb: "Replay", states: ["SUCCEEDED", "FAILED_FINAL", "CANCELLED"], send: replayJob, reason: "required", text: "A new job runs every step again. The output of the new job stays in the workspace." },
  { name: "cancel", verb: "Cancel", states: [...WAITING, ...RUNNING, "PAUSED", "PAUSING"], send: cancelJob, danger: true, text: "The job ends as CANCELLED after its attempts in flight have ended." },
];
const PRIORITIES = ["low", "normal", "high", "emergency"];

export function Controls({ job, onDone }) {
  const [open, setOpen] = useState(null);
  const [priority, setPriority] = useState(job.priority);
  const possible = ACTIONS.filter((each) => may(each.send) && (each.name !== "admit" || operatesAll.value) && each.states.includes(job.status) && !(each.name === "redrive" && (job.redriven_by || job.archived_at)) && !(["redrive", "replay"].includes(each.name) && job.error_code === "WITHDRAWN"));
  const values = { jobId: job.jobId, ...(open?.name === "priority" ? { priority } : {}) };
  const run = async (reason) => {
    const done = await open.send({ ...values, reason });
    await onDone();
    if (["redrive", "replay"].includes(open.name) && done.jobId) go(["jobs", done.jobId]);
  };
  return html`<div class="buttons">
    ${possible.map((each) => html`<button key=${each.name} class=${`button ${each.danger ? "danger" : ""}`} onClick=${() => setOpen(each)}>${each.verb}</button>`)}
    ${open && html`<${ActionDialog} title=${`${open.verb === "Priority" ? "Change the priority of" : open.verb} this job`} verb=${open.verb === "Priority" ? "Change priority" : `${open.verb} job`} danger=${open.danger} reason=${open.reason ?? "optional"} action=${run} onClose=${() => setOpen(null)}>
      <p>${open.text}</p>
      ${open.name === "priority" && html`<label class="field">Priority <select value=${priority} onChange=${(event) => setPriority(event.target.value)}>
        ${PRIORITIES.map((each) => html`<option key=${each} selected=${each === priority}>${each}</option>`)}</select></label>`}
      <${CopyButton} small text=${curlOf(open.send, { ...values, reason: "REASON" })}>Copy as curl<//>
    <//>`}
  </div>`;
}
