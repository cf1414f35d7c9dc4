// The page of quotas: limits, active jobs, the waiting queue in order, holds, throttles, breakers, the log and the jobs by hour.
import { html, useEffect, useMemo, useState } from "../parts/html.js";
import { changeQuota, getUsage, listQuotaLog, listQuotas, listWaiting } from "../api.js";
import Chart from "../parts/chart.js";
import * as commands from "../parts/commands.js";
import { CopyAs, curlOf } from "../parts/copy.js";
import { EmptyState, ErrorState, Skeleton, useLoad } from "../parts/load.js";
import { Meter } from "../parts/meter.js";
import { link, route, setQuery, tenant } from "../parts/route.js";
import { Shape } from "../parts/state.js";
import { exact, Time } from "../parts/time.js";
import { isDispatchLimit, QuotaActions } from "../parts/quota_actions.js";

/** Returns the text of a quota: "tenant acme, type OCR". */
export function nameOf(quota) {
  if (quota.name) return quota.name;
  const who = quota.tenant === "*" ? "every tenant" : `tenant ${quota.tenant}`;
  return [who, quota.type && `type ${quota.type}`, quota.source && `source ${quota.source}`].filter(Boolean).join(", ");
}

/** Returns the parameters that name a quota. */
export const keyOf = (quota) => (quota.name ? { gate: quota.id, name: quota.name } : { gate: quota.id, tenant: quota.tenant, type: quota.type, source: quota.source });

const WHY = { HELD: "quota held", FULL: "limit of active jobs reached", RATE: "rate of starts reached", BREAKER: "circuit breaker open or half-open", LINE: "earlier jobs in the waiting queue" };

/** Returns the texts of the hold, the throttle, and the open or half-open breaker, each with its color. */
function signs(quota) {
  return [
    quota.hold && ["bad", `held by ${quota.hold.actor ?? "an operator"}${quota.hold.reason ? `: ${quota.hold.reason}` : ""}`],
    quota.throttle && ["stopped", `throttled to ${quota.throttle.max_per_hour} starts per hour`],
    quota.breaker?.state === "OPEN" && ["bad", `breaker open: ${quota.breaker.bad} of ${quota.breaker.calls} jobs failed`],
    quota.breaker?.state === "HALF_OPEN" && ["stopped", "breaker half-open"],
  ].filter(Boolean);
}

function limits(rule, quota) {
  if (!rule) return "no limits";
  const words = { max_active: isDispatchLimit(quota) ? "directives in flight" : "active jobs", burst: "starts at the same time", max_staged: "waiting jobs", emergency_max_active: "active emergency jobs" };
  const given = Object.entries(words).filter(([name]) => rule[name] !== null && rule[name] !== undefined).map(([name, text]) => `${rule[name]} ${text}`);
  const breaker = rule.breaker && `circuit breaker at ${Math.round(100 * rule.breaker.failure_rate)}% failed of at least ${rule.breaker.min_calls} jobs`;
  const rate = rule.max_per_hour && `rate ${rule.max_per_hour} starts per hour`;
  return [given.length ? `at most ${given.join(", ")}` : !rate && !breaker && "no limits", rate, breaker, rule.weight && `weight ${rule.weight}`].filter(Boolean).join(", ");
}

function Waiting({ quota }) {
  const found = useLoad((options) => listWaiting({ ...keyOf(quota), limit: 50 }, options), `waiting:${quota.id}`, { every: 10000 });
  if (found.error) return html`<${ErrorState} error=${found.error} retry=${found.reload} compact />`;
  if (!found.data) return html`<${Skeleton} rows=${4} />`;
  const { waiting, total } = found.data;
  if (!waiting.length) return html`<p class="muted">${isDispatchLimit(quota) ? "LUCIUS does not list the steps that wait for a service or lane." : "No job waits for this quota."}</p>`;
  return html`<div class="scroll" role="region" tabindex="0" aria-label="Table"><table class="table"><thead><tr><th>#</th><th>Job</th><th>Priority</th><th>Reason</th><th>Estimated start</th></tr></thead><tbody>
    ${waiting.map((each) => html`<tr key=${each.jobId}><td class="tabular muted">${each.position}</td><td><a class="mono" href=${link(["jobs", each.jobId])}>${each.jobId.slice(0, 12)}</a></td>
      <td>${each.priority}</td><td class="clip-any" title=${each.waits_for}>${WHY[each.why] ?? each.gate}</td><td>${each.nextEligibleAt ? html`<${Time} at=${each.nextEligibleAt} />` : html`<span class="muted">${each.quota_wait.starts}</span>`}</td></tr>`)}
  </tbody></table></div>${total > waiting.length && html`<p class="muted small">The page shows the first ${waiting.length} of ${total} waiting jobs.</p>`}`;
}

const CHANGES = { RULE_SET: "Limits changed", RULE_DELETED: "Limits deleted", HELD: "Held", THROTTLED: "Throttled", RESUMED: "Resumed", JOB_ADMITTED: "Job admitted past its quotas", BREAKER_OPENED: "Breaker opened", BREAKER_HALF_OPEN: "Breaker half-open", BREAKER_CLOSED: "Breaker closed", BREAKER_RESET: "Breaker reset" };

const SHOWN_CHANGES = 20;

/** Returns at most 20 changes, newest first, and the number of older changes. The API lists the oldest first. */
async function newestChanges(keys, options) {
  let newest = [];
  let older = 0;
  let cursor;
  do {
    const page = await listQuotaLog({ ...keys, limit: 1000, cursor }, options);
    const all = [...newest, ...page.entries];
    newest = all.slice(-SHOWN_CHANGES);
    older += all.length - newest.length;
    cursor = page.next;
  } while (cursor);
  return { entries: newest.reverse(), older };
}

function Log({ quota }) {
  const found = useLoad((options) => newestChanges(keyOf(quota), options), `log:${quota.id}:${quota.etag}`);
  if (found.error) return html`<${ErrorState} error=${found.error} retry=${found.reload} compact />`;
  if (!found.data) return html`<${Skeleton} rows=${3} />`;
  const { entries, older } = found.data;
  if (!entries.length) return html`<p class="muted">The quota has no changes.</p>`;
  return html`<ul class="rows">${entries.map((each) => html`<li key=${each.seq}><span><b title=${each.type}>${CHANGES[each.type] ?? each.type}</b>${each.type === "RULE_SET" ? `, ${limits(each.data.after?.rule, quota)}` : ""}: <span class="clip-any">${each.reason}</span></span><span class="muted small">${each.actor}, <${Time} at=${each.at} /></span></li>`)}</ul>
    ${older > 0 && html`<p class="muted small">The page shows the newest ${entries.length} of ${older + entries.length} changes.</p>`}`;
}

function Usage({ name }) {
  const since = useMemo(() => new Date(Math.floor(Date.now() / 3600e3) * 3600e3 - 23 * 3600e3).toISOString(), []);
  const found = useLoad((options) => getUsage({ tenant: name, since, by: "hour" }, options), `usage:${name}`);
  if (found.error) return html`<${ErrorState} error=${found.error} retry=${found.reload} compact />`;
  if (!found.data) return html`<${Skeleton} rows=${3} height=${40} />`;
  const hours = Object.entries(found.data.groups ?? {}).sort(([one], [other]) => one.localeCompare(other));
  if (!hours.length) return html`<p class="muted">The tenant created no job since ${exact(since, { milliseconds: false })}.</p>`;
  return html`<${Chart} label="Jobs by hour" bar=${3600} bars=${24} until=${Date.parse(since) / 1000 + 23 * 3600} height=${140} times=${hours.map(([hour]) => Date.parse(hour) / 1000)} series=${[
    { name: "waited", color: "stopped", values: hours.map(([, sum]) => sum.staged) },
    { name: "started without waiting", color: "accent", values: hours.map(([, sum]) => sum.created - sum.staged) },
  ]} />`;
}

function Quota({ quota, open, onChange }) {
  const key = keyOf(quota);
  return html`<article class="stack" id=${`quota-${quota.id}`}>
    <button class="quota" aria-expanded=${open} onClick=${() => setQuery({ quota: open ? null : quota.id })}>
      <span class="stack"><b class="clip" title=${nameOf(quota)}>${nameOf(quota)}</b>
        ${signs(quota).map(([color, text]) => html`<span key=${text} class=${`state ${color}`}><${Shape} color=${color} /><span class="clip">${text}</span></span>`)}</span>
      <span class="stack">${quota.active !== null && html`<${Meter} value=${quota.active} most=${quota.in_force?.max_active ?? null} />`}<span class="muted small">${limits(quota.in_force, quota)}</span></span>
      <span class="muted small">${quota.staged === 0 ? "no waiting jobs" : quota.staged && html`<b>${quota.staged}</b> waiting${quota.oldest_wait_at ? html`, oldest <${Time} at=${quota.oldest_wait_at} />` : ""}`}</span>
    </button>
    ${open && html`<div class="split">
      <section class="card"><header><h2>Waiting queue</h2></header><${Waiting} quota=${quota} /></section>
      <section class="card"><header><h2>Limits</h2></header><${QuotaActions} quota=${quota} keys=${key} onDone=${onChange} />
        <p class="muted small">In effect: ${limits(quota.in_force, quota)}${quota.ruled_by && quota.ruled_by !== "own" ? ` (from ${quota.ruled_by === "*" ? "the limits for every tenant" : quota.ruled_by})` : ""}.${quota.next_start_at ? ` The rate allows the next start at ${exact(quota.next_start_at)}.` : ""}</p>
        <h3>Log</h3><${Log} quota=${quota} /></section>
      ${quota.tenant && quota.tenant !== "*" && html`<section class="card"><header><h2>Jobs of the tenant by hour</h2></header><${Usage} name=${quota.tenant} /></section>`}
    </div>`}
  </article>`;
}

export default function Quotas() {
  const filter = { tenant: tenant.value, limit: 200 };
  const found = useLoad((options) => listQuotas(filter, options), `quotas:${tenant.value}`, { every: 10000 });
  const open = route.value.query.get("quota");
  useEffect(() => void (open && document.getElementById(`quota-${open}`)?.scrollIntoView({ block: "nearest" })), [open, Boolean(found.data)]);
  const quotas = found.data?.quotas;
  const shown = quotas?.find((each) => each.id === open);
  const [curl, lucius] = shown ? [curlOf(listWaiting, keyOf(shown)), commands.quota(keyOf(shown))] : [curlOf(listQuotas, filter), commands.quotas(tenant.value)];
  return html`<section class="view" aria-labelledby="title">
    <header class="view-header"><h1 id="title">Quotas</h1><${CopyAs} curl=${curl} lucius=${lucius} /></header>
    ${found.error && html`<${ErrorState} error=${found.error} retry=${found.reload} />`}
    ${!quotas && !found.error && html`<${Skeleton} rows=${5} height=${64} />`}
    ${quotas && !quotas.length && html`<${EmptyState} title="No quotas"><p>A quota limits starts of jobs. Set a quota with <code class="mono">lucius quota set --tenant TENANT --max-active 5 --reason REASON</code>.</p><//>`}
    ${quotas?.map((each) => html`<${Quota} key=${each.id} quota=${each} open=${each.id === open} onChange=${found.reload} />`)}
    ${found.data?.next && html`<p class="muted small">The page shows the first ${quotas.length} quotas.</p>`}
  </section>`;
}
