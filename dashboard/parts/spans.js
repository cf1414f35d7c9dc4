// The time of a job by use, computed from the job's events by the rules of the receipt (`shared/api/receipt.py`).
import { secondsBetween } from "./time.js";

/** Names and texts of the uses of time, in the order of the legend. */
export const USES = {
  dependent: "other jobs",
  gated: "quota or dispatch limit",
  queue: "queue",
  ack: "ACK",
  service: "service",
  backoff: "backoff",
  backlog: "backlog",
  paused: "paused",
};
const ATTEMPT_ENDS = { RESULT: "", ACK_TIMEOUT: "no ACK in time", LEASE_EXPIRED: "lease expired", TIME_EXCEEDED: "time limit exceeded" };

/** Returns the uses of [start, end] by a step in this state, as a list of [use, from, to]. */
function usesOf(job, step, start, end) {
  const waited = step.due_at ? Math.min(Math.max(new Date(step.due_at).getTime(), start), end) : start;
  if (job.status === "PAUSED") return [["paused", start, end]];
  if (job.status === "THROTTLED" || step.gated_since) return [["gated", start, end]];
  if (job.status === "WAITING_FOR_JOBS") return [["dependent", start, end]];
  if (["INITIATED", "PROCESSING"].includes(step.status) && step.backlog_since) return [["backlog", start, end]];
  const after = { PENDING: "queue", INITIATED: "ack", PROCESSING: "service", FAILED_RETRY: "queue" }[step.status];
  if (!after) return [];
  const backoff = ["INITIATED", "FAILED_RETRY"].includes(step.status) ? waited : start;
  return [["backoff", start, backoff], [after, backoff, end]];
}

/**
 * Computes the rows of a timeline from the `steps` and `events` of a job, oldest event first, up to the time `until`.
 * Returns {start, end, rows, replies}. A row is {label, attempt, spans: [{use, from, to}], end: {at, text, bad}, carried},
 * with `from`, `to` and `at` in seconds after the start.
 *
 * `replies` are the ignored replies: {at, event}.
 */
export function timelineOf(steps, events, until) {
  const start = new Date(events[0].at).getTime();
  const end = Math.max(start, new Date(until).getTime(), new Date(events.at(-1).at).getTime());
  const job = { status: events[0].job_to, index: 0 };
  const states = new Map(steps.map((step) => [step.stepId, { status: step.carried ? "SUCCEEDED" : "PENDING", step }]));
  const rows = [];
  const waiting = { label: "before start", attempt: null, spans: [], end: null };
  const replies = [];
  const rowOf = (state) => (state.row ??= rows[rows.push({ label: state.step.stepId, attempt: 1, spans: [], end: null }) - 1]);
  const add = (row, use, from, to) => {
    if (to <= from) return;
    const last = row.spans.at(-1);
    const span = { use, from: (from - start) / 1000, to: (to - start) / 1000 };
    if (last?.use === use && Math.abs(last.to - span.from) < 1e-6) last.to = span.to;
    else row.spans.push(span);
  };
  const current = () => {
    const at = steps[job.index];
    return steps.filter((step) => (at?.group === null ? step === at : step.group === at?.group));
  };
  events.forEach((event, position) => {
    const changes = event.data?.changes ?? {};
    job.status = event.job_to ?? job.status;
    job.index = changes.job?.current_step_index ?? job.index;
    for (const [id, columns] of Object.entries(changes.steps ?? {})) Object.assign(states.get(id) ?? {}, columns);
    const own = states.get(event.stepId);
    if (own && event.to_status) own.status = event.to_status;
    if (event.type === "ATTEMPT_RECORDED" && own) {
      // the time before a further attempt belongs to the row of that attempt
      if (event.attempt_no > 1 || !own.row) own.row = rows[rows.push({ label: own.step.stepId, attempt: event.attempt_no, spans: own.pending ?? [], end: null }) - 1];
      own.row.attempt = event.attempt_no;
      own.pending = null;
    } else if (own?.row && event.type in ATTEMPT_ENDS) {
      const good = own.status === "SUCCEEDED";
      const text = good ? "succeeded" : ATTEMPT_ENDS[event.type] || own.last_error_code || "failed";
      own.row.end = { at: secondsBetween(events[0].at, event.at), text, bad: !good };
      if (!good) own.pending = [];
    } else if (event.type === "REPLY_IGNORED") {
      replies.push({ at: secondsBetween(events[0].at, event.at), event });
    }
    const next = events[position + 1] ? new Date(events[position + 1].at).getTime() : end;
    const from = new Date(event.at).getTime();
    if (["SUCCEEDED", "FAILED_FINAL", "CANCELLED"].includes(job.status)) return;
    if (["THROTTLED", "WAITING_FOR_JOBS"].includes(job.status)) {
      for (const use of usesOf(job, {}, from, next)) add(waiting, ...use);
      return;
    }
    for (const step of current()) {
      const state = states.get(step.stepId);
      for (const use of usesOf(job, state, from, next)) add(state.pending ? { spans: state.pending } : rowOf(state), ...use);
    }
  });
  for (const state of states.values()) {
    if (state.pending?.length) rows.push({ label: state.step.stepId, attempt: "next", spans: state.pending, end: null });
    if (!state.row && !state.step.carried) rows.push({ label: state.step.stepId, attempt: null, spans: [], end: null });
    if (state.step.carried) rows.unshift({ label: state.step.stepId, attempt: null, spans: [], end: null, carried: true });
  }
  if (waiting.spans.length) rows.unshift(waiting);
  return { start, end, rows, replies };
}

/** Returns at most seven round numbers as the ticks of an axis over `seconds`. */
export function ticksOf(seconds) {
  const steps = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800];
  const step = steps.find((each) => seconds / each <= 6) ?? seconds / 6;
  return Array.from({ length: Math.floor(seconds / step + 1e-9) + 1 }, (_, index) => index * step);
}
