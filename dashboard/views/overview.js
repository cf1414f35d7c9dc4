// The overview of problems and counts. The page sends one request every five seconds.
import { html } from "../parts/html.js";
import { getMetrics } from "../api.js";
import Chart from "../parts/chart.js";
import * as commands from "../parts/commands.js";
import { CopyAs, CopyButton, curlOf } from "../parts/copy.js";
import { EmptyState, ErrorState, Skeleton, useLoad } from "../parts/load.js";
import { Meter } from "../parts/meter.js";
import { link, tenant } from "../parts/route.js";
import { colorOf, Shape, State } from "../parts/state.js";
import { duration, now, Time } from "../parts/time.js";

const TILES = [["WAITING_FOR_JOBS"], ["THROTTLED"], ["QUEUED"], ["IN_PROGRESS"], ["PAUSED", "PAUSING"], ["CANCELLING"]];
const COLORS = { ok: "good", warning: "stopped", critical: "bad" };
const TARGETS = {
  // one problem can have several incidents
  incident: (id) => link(id ? ["incidents", id] : ["incidents"]),
  quota: (id) => link(["quotas"], { quota: id }),
  service: (id) => link(["overview"], { at: `service-${id}` }),
  rejected: () => link(["incidents"], { tab: "rejected" }),
  webhook: (id) => link(["incidents"], { tab: "webhooks", tenant: id }),
  failures: () => link(["jobs"], { filter: "status=FAILED_FINAL" }),
};
const jobsOf = (...states) => link(["jobs"], { filter: `status=${states.join(",")}` });
const milliseconds = (value) => (value === null || value === undefined ? "–" : duration(value / 1000));

/** Shows a problem with its text, time, consequence and next command. */
function Problem({ problem, first = false }) {
  const { level, sentence, since, subject, command, consequence } = problem;
  const color = COLORS[level];
  return html`<article class=${`problem ${color}${first ? " first" : ""}`}>
    <${Shape} color=${level === "warning" ? level : color} />
    <div><p class=${first ? "problem-title" : ""}>${sentence}</p>
      <p class="muted small">${since && html`Began <${Time} at=${since} />. `}${consequence}</p>
      ${command && html`<p class="command"><code class="mono break">${command}</code> <${CopyButton} small text=${command}>copy<//></p>`}</div>
    <div class="buttons">${subject?.kind === "service" && html`<a class="button" href=${jobsOf("QUEUED", "IN_PROGRESS")}>Active jobs</a>`}
      ${TARGETS[subject?.kind] && subject.kind !== "service" && html`<a class="button" href=${TARGETS[subject.kind](subject.id)}>Show</a>`}</div>
  </article>`;
}

function LastHour({ minutes, at }) {
  if (!minutes.length) return html`<${EmptyState} title="No records yet"><p>The sweeper writes one record a minute.</p><//>`;
  const times = minutes.map((each) => Date.parse(each.minute) / 1000);
  const ended = (state) => minutes.map((each) => each.ended[state] ?? 0);
  const reasons = {};
  for (const { reasons: found } of minutes) for (const [name, count] of Object.entries(found)) reasons[name] = (reasons[name] ?? 0) + count;
  const list = Object.entries(reasons).sort(([, one], [, other]) => other - one);
  return html`<${Chart} label="Jobs that ended in the last hour" times=${times} until=${Date.parse(at) / 1000} bars=${60} series=${[
    { name: "failed", color: "bad", values: ended("FAILED_FINAL") },
    { name: "cancelled", color: "stopped", values: ended("CANCELLED") },
    { name: "succeeded", color: "good", values: ended("SUCCEEDED") },
  ]} />
  ${list.length > 0 && html`<h3>Most frequent reasons of failed and cancelled jobs</h3><ul class="bars">${list.slice(0, 6).map(([name, count]) => html`<li key=${name}>
    <span class="mono clip">${name}</span><i class="bar"><i style=${{ width: `${(100 * count) / list[0][1]}%` }} /></i><b class="tabular">${count}</b></li>`)}</ul>`}`;
}

function Lanes({ lanes }) {
  const most = Math.max(1, ...lanes.map((each) => each.waiting));
  const oldest = Math.max(0, ...lanes.map((each) => each.oldest_seconds));
  return html`<div class="lanes" role="list">${lanes.map((each) => {
    const text = `lane ${each.lane}: ${each.waiting} waiting, oldest ${duration(each.oldest_seconds)}${Object.entries(each.services).map(([name, count]) => `, ${name} ${count}`).join("")}`;
    return html`<div key=${each.lane} role="listitem" class="lane" title=${`${each.topic}: ${text}`} aria-label=${text}>
      <i aria-hidden="true" style=${{ opacity: each.waiting ? 0.2 + (0.8 * each.waiting) / most : 0 }} /><span class="muted">${each.lane}</span><b class="tabular">${each.waiting || ""}</b></div>`;
  })}</div><p class="muted small">Number of directives without an ACK, by lane.${oldest > 0 ? ` The oldest directive has waited for ${duration(oldest)}.` : ""}</p>`;
}

const Services = ({ services }) => html`<div class="scroll" role="region" tabindex="0" aria-label="Table"><table class="table"><thead><tr><th>Service</th><th>Last reply</th><th>Waiting</th><th>In flight</th><th>ACK p95</th><th>RESULT p95</th></tr></thead><tbody>
  ${services.map((each) => html`<tr key=${each.service} id=${`service-${each.service}`}>
    <td><span class=${`state ${each.silent_since ? "bad" : each.answered_at ? "good" : "idle"}`}><${Shape} color=${each.silent_since ? "bad" : each.answered_at ? "good" : "idle"} />${each.service}</span></td>
    <td>${each.silent_since ? html`silent, detected <${Time} at=${each.silent_since} />` : html`<${Time} at=${each.answered_at} />`}</td>
    <td class="tabular">${each.waiting ?? "–"}${each.oldest_seconds ? html`<br /><span class="muted nowrap">oldest ${duration(each.oldest_seconds)}</span>` : ""}</td>
    <td class="tabular">${each.in_flight ?? "–"}</td><td class="tabular">${milliseconds(each.ack?.p95_ms)}</td><td class="tabular">${milliseconds(each.result?.p95_ms)}</td></tr>`)}
</tbody></table></div>`;

const Quotas = ({ quotas }) => html`<ul class="rows tight">${quotas.map((each) => html`<li key=${each.id}>
  <a class="clip" href=${link(["quotas"], { quota: each.id })}>${each.name}</a><${Meter} value=${each.active} most=${each.max_active} />
  <span class="muted small">${[each.held && "held", each.throttled && "throttled", each.breaker && `breaker ${each.breaker}`, each.waiting > 0 && `${each.waiting} waiting`, each.oldest_wait_seconds && `oldest ${duration(each.oldest_wait_seconds)}`].filter(Boolean).map((text, index) => html`${index ? ", " : ""}<span class="nowrap">${text}</span>`)}</span></li>`)}</ul>`;

const Health = ({ name, ok, children }) => html`<li><span class=${`state ${ok ? "good" : "bad"}`}><${Shape} color=${ok ? "good" : "bad"} />${name}</span><span class="muted clip">${children}</span></li>`;

const Platform = ({ sweeper, dependencies }) => html`<ul class="rows">
  <${Health} name="sweeper" ok=${!sweeper.late}>last sweep <${Time} at=${sweeper.last_pass_at} /><//>
  ${Object.entries(dependencies).map(([name, each]) => html`<${Health} key=${name} name=${name} ok=${each.status === "ok"}>${each.reason ?? each.status}<//>`)}
</ul>`;

const Card = ({ title, href, children }) => html`<section class="card"><header><h2>${title}</h2>${href && html`<a class="small" href=${href}>All</a>`}</header>${children}</section>`;

export default function Overview() {
  const key = tenant.value;
  const found = useLoad((options) => getMetrics({ tenant: key }, options), `metrics:${key}`, { every: 5000 });
  const header = html`<header class="view-header"><h1 id="title">Overview</h1><${CopyAs} curl=${curlOf(getMetrics, { tenant: key })} lucius=${commands.status(key)} /></header>`;
  const { data } = found;
  if (!data) return html`<section class="view" aria-labelledby="title">${header}${found.error ? html`<${ErrorState} error=${found.error} retry=${found.reload} />` : html`<${Skeleton} rows=${2} height=${56} /><${Skeleton} rows=${4} height=${96} />`}</section>`;
  const { active, at_least: atLeast } = data.jobs;
  const others = data.problems.filter((each) => each.sentence !== data.health.sentence);
  const first = data.problems.find((each) => each.sentence === data.health.sentence) ?? data.health;
  return html`<section class="view" aria-labelledby="title">${header}
    ${found.error && html`<${ErrorState} error=${found.error} retry=${found.reload} compact />`}
    <${Problem} problem=${first} first />
    ${others.map((each) => html`<${Problem} key=${each.sentence} problem=${each} />`)}
    <div class="tiles">${TILES.map(([state, ...others]) => html`<a key=${state} class=${`tile ${colorOf(state)}`} href=${jobsOf(state, ...others)}>
      <b class="tabular">${[state, ...others].reduce((sum, each) => sum + (active[each] ?? 0), 0)}${atLeast ? "+" : ""}</b><${State} status=${state} /></a>`)}</div>
    <div class="cards wide">
      <div class="stack">
        <${Card} title="Jobs that ended in the last hour" href=${link(["jobs"], { filter: "status=SUCCEEDED,FAILED_FINAL,CANCELLED" })}><${LastHour} minutes=${data.last_hour} at=${data.at} /><//>
        ${data.lanes && html`<${Card} title="Lanes"><${Lanes} lanes=${data.lanes} /><//>`}
        <${Card} title="Open incidents" href=${link(["incidents"])}><p class="big"><b class="tabular">${data.incidents.open}${data.incidents.at_least ? "+" : ""}</b></p>
          ${data.incidents.newest && html`<p><a href=${link(["incidents", data.incidents.newest.incidentId])}>${data.incidents.newest.code}</a> <span class="muted"><${Time} at=${data.incidents.newest.opened_at} /></span></p><p class="muted small clip-lines">${data.incidents.newest.detail}</p>`}<//>
      </div>
      <div class="stack">
        <${Card} title="Services"><${Services} services=${data.services} /><//>
        <${Card} title="Quotas that need attention" href=${link(["quotas"])}>${data.quotas.length ? html`<${Quotas} quotas=${data.quotas} />` : html`<p class="muted">No quota is held or throttled, has an open or half-open breaker, or uses at least 90% of its limit of active jobs.</p>`}<//>
        <${Card} title="Platform"><${Platform} sweeper=${data.sweeper} dependencies=${data.dependencies} /><//>
      </div>
    </div>
    <p class="muted small">Data is from ${duration(Math.max(0, Math.round((now.value - Date.parse(data.at)) / 1000)))} ago.</p>
  </section>`;
}
