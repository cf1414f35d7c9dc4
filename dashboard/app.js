// The frame of the page: navigation, tenant, search, connection and keyboard, with the view that the URL names.
import { SignIn, signingIn } from "./parts/sign_in.js"; // before the router, because sign-in reads the parameters of the issuer's redirect
import { html, render, useEffect, useRef, useState } from "./parts/html.js";
import { helpOpen, useKeys } from "./parts/keys.js";
import { connection } from "./parts/live.js";
import { go, link, route, setQuery, tenant } from "./parts/route.js";
import { Search } from "./parts/search.js";
import { submitJob } from "./api.js";
import { may, ownTenant, refused, signOut, subject, token } from "./parts/session.js";
import { local } from "./parts/time.js";
import { JobPage } from "./views/job.js";
import { Jobs } from "./views/jobs.js";
import { Later } from "./parts/later.js";

const VIEWS = {
  overview: ["Overview", "M2 9h5V2H2zM9 14h5V7H9zM2 14h5v-3H2zM9 5h5V2H9z"],
  jobs: ["Jobs", "M2 4h12M2 8h12M2 12h8"],
  quotas: ["Quotas", "M2 13a6 6 0 1112 0M8 13l3-5"],
  incidents: ["Incidents", "M8 2l6.5 11.5h-13zM8 6.5v3.2M8 11.4v.6"],
  submit: ["Submit", "M8 11V2M4.5 5.5L8 2l3.5 3.5M2 10v4h12v-4"],
};
const lazy = {
  overview: () => import("./views/overview.js"),
  quotas: () => import("./views/quotas.js"),
  incidents: () => import("./views/incidents.js"),
  submit: () => import("./views/submit.js"),
};

function Navigation({ current }) {
  return html`<nav class="nav" aria-label="Views">
    <a class="brand" href=${link(["overview"])}><svg viewBox="0 0 32 32" aria-hidden="true"><rect width="32" height="32" rx="8" fill="var(--accent)" /><path d="M10 7v18h13" fill="none" stroke="#fff" stroke-width="3.5" stroke-linecap="round" stroke-linejoin="round" /><circle cx="21" cy="12" r="4" fill="#c7d2fe" /></svg><span>LUCIUS</span></a>
    ${Object.entries(VIEWS).filter(([name]) => name !== "submit" || may(submitJob)).map(([name, [title, path]]) => html`<a key=${name} href=${link([name])} aria-current=${current === name ? "page" : undefined}>
      <svg viewBox="0 0 16 16" aria-hidden="true"><path d=${path} fill="none" stroke="currentColor" stroke-width="1.6" stroke-linejoin="round" stroke-linecap="round" /></svg><span>${title}</span></a>`)}
    <a class="nav-foot" href="docs"><svg viewBox="0 0 16 16" aria-hidden="true"><path d="M3 2h10v12H3zM6 5h4M6 8h4" fill="none" stroke="currentColor" stroke-width="1.6" stroke-linejoin="round" stroke-linecap="round" /></svg><span>API</span></a>
  </nav>`;
}

const CONNECTION = { live: "Live", polling: "Polling", ended: "Final", reconnecting: "Reconnecting", paused: "Paused" };

function Tenant() {
  const own = ownTenant.value;
  const [text, setText] = useState(tenant.value);
  useEffect(() => setText(tenant.value), [tenant.value]);
  if (own) return html`<span class="tenant muted">tenant <b class="clip">${own}</b></span>`;
  const choose = () => text !== tenant.value && setQuery({ tenant: text.trim() }, { push: true });
  return html`<form class="tenant" onSubmit=${(event) => (event.preventDefault(), choose())}>
    <label><span class="muted">Tenant</span><input value=${text} placeholder="all" list="tenants" spellcheck="false" autocomplete="off" onInput=${(event) => setText(event.target.value)} onBlur=${choose} /></label>
  </form>`;
}

function Help() {
  const dialog = useRef(null);
  useEffect(() => dialog.current.showModal(), []);
  const keys = { "/": "Search", "j  k": "Next and previous job", Enter: "Open the job", x: "Select the job", "h  l": "Previous and next event of the job", "g o": "Overview", "g j": "Jobs", "g q": "Quotas", "g i": "Incidents", "g s": "Submit", "?": "Show this list" };
  return html`<dialog ref=${dialog} class="dialog" aria-labelledby="keys-title" onClose=${() => (helpOpen.value = false)}><h2 id="keys-title">Keyboard shortcuts</h2>
    <dl class="fact-list">${Object.entries(keys).map(([key, text]) => html`<div key=${key} class="key-row"><dt><kbd>${key}</kbd></dt><dd>${text}</dd></div>`)}</dl>
    <div class="dialog-buttons"><button class="button" onClick=${() => dialog.current.close()}>Close</button></div></dialog>`;
}

function setTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("lucius.theme", root.dataset.theme);
}

function App() {
  const { path } = route.value;
  const view = VIEWS[path[0]] ? path[0] : path.length ? path[0] : "jobs";
  const main = useRef(null);
  const second = useRef(false);
  const to = (name) => () => second.current && go([name]);
  useKeys({
    "?": () => (helpOpen.value = true),
    g: () => ((second.current = true), setTimeout(() => (second.current = false), 1000)),
    ...Object.fromEntries(Object.keys(VIEWS).map((name) => [name[0], () => (second.current ? to(name)() : false)])),
  });
  useEffect(() => {
    const title = VIEWS[view]?.[0] ?? "LUCIUS";
    document.title = path[1] ? `${path[1].slice(0, 12)} · LUCIUS` : `${title} · LUCIUS`;
  }, [view, path[1]]);
  let shown;
  if (refused.value || signingIn.value) shown = html`<${SignIn} />`;
  else if (view === "jobs" && path[1]) shown = html`<${JobPage} key=${path[1]} jobId=${path[1]} />`;
  else if (view === "jobs") shown = html`<${Jobs} />`;
  else if (lazy[view]) shown = html`<${Later} key=${view} load=${lazy[view]} path=${path} />`;
  else shown = html`<section class="view"><div class="empty-state"><h1>Page not found</h1><p class="muted">Go to <a href=${link(["jobs"])}>the list of jobs</a>.</p></div></section>`;
  return html`<a class="skip" href="#main" onClick=${(event) => (event.preventDefault(), main.current.focus())}>Skip to the content</a>
    <${Navigation} current=${view} />
    <header class="top">
      <${Search} /><${Tenant} />
      <span class=${`connection ${connection.value}`} role="status"><i aria-hidden="true" />${CONNECTION[connection.value]}</span>
      <button class="icon-button" title="Show times in UTC or local time" onClick=${() => (local.value = !local.value)}>${local.value ? "Local" : "UTC"}</button>
      <button class="icon-button" aria-label="Switch between light and dark theme" title="Switch between light and dark theme" onClick=${setTheme}>◐</button>
      <button class="icon-button shortcuts" aria-label="Keyboard shortcuts" title="Keyboard shortcuts" onClick=${() => (helpOpen.value = true)}>?</button>
      ${token.value && html`<button class="icon-button" title=${`Signed in as ${subject.value}`} onClick=${signOut}>Sign out</button>`}
    </header>
    <main id="main" ref=${main} tabindex="-1">${shown}</main>
    ${helpOpen.value && html`<${Help} />`}`;
}

const theme = localStorage.getItem("lucius.theme");
if (theme) document.documentElement.dataset.theme = theme;
render(html`<${App} />`, document.body);
