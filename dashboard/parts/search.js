// The search of the header. An id or its first characters open the job. An idempotency key, a correlation id, a label or a filter lists jobs.
import { html, useEffect, useRef, useState } from "./html.js";
import { listJobs } from "../api.js";
import { filterText, JOB_KEYS } from "./filter.js";
import { useKeys } from "./keys.js";
import { go, route, tenant } from "./route.js";

const WHOLE_ID = /^job_[0-9a-f]{32}$/;
/** Matches the start of an id, with at least four characters after the `_`. The search covers the newest 1,000 jobs. */
const FIRST_CHARACTERS = /^job_[0-9a-f]{4,31}$/;
const MAX_JOBS = 1000;
const MAX_NAMED = 4;

/** Returns no jobs for a text that the API refuses, because no job has such a text. */
const none = (error) => {
  if (error.status === 400) return { jobs: [] };
  throw error;
};

/** Returns the arguments of `go` for a text. Raises Error with the next step if no job has the text, or ApiError. */
async function targetOf(text) {
  if (WHOLE_ID.test(text)) return [["jobs", text]];
  if (FIRST_CHARACTERS.test(text)) {
    const { jobs, next } = await listJobs({ tenant_id: tenant.value, limit: MAX_JOBS });
    const found = jobs.map((job) => job.jobId).filter((id) => id.startsWith(text));
    if (found.length === 1) return [["jobs", found[0]]];
    if (found.length) throw new Error(`The ids of ${found.length} jobs begin with ${text}: ${found.slice(0, MAX_NAMED).join(", ")}. Enter more characters.`);
    throw new Error(`No id of the ${next ? "newest 1,000 " : ""}jobs begins with ${text}. Enter the whole id.`);
  }
  if (JOB_KEYS[text.split("=")[0]]) return [["jobs"], { filter: text }];
  const names = ["idempotency_key", "correlation_id", ...(text.includes(":") ? ["label"] : [])];
  const pages = await Promise.all(names.map((name) => listJobs({ tenant_id: tenant.value, [name]: text, limit: 1 }).catch(none)));
  const name = names.find((_, index) => pages[index].jobs.length);
  if (name) return [["jobs"], { filter: filterText(name, text) }];
  throw new Error(`No job has the idempotency key, correlation id or label “${text}”. The search covers no archived jobs. Write a label as key:value, and an id as job_ with at least four more characters.`);
}

export function Search() {
  const input = useRef(null);
  const [state, setState] = useState({ busy: false, fault: "" });
  const number = useRef(0);
  const clear = () => {
    number.current += 1;
    setState({ busy: false, fault: "" });
  };
  useKeys({ "/": () => input.current.focus() });
  // a running search does not replace a view that the user opened meanwhile
  useEffect(clear, [route.value]);
  const submit = async (event) => {
    event.preventDefault();
    const text = input.current.value.trim();
    if (!text || state.busy) return;
    const own = (number.current += 1);
    setState({ busy: true, fault: "" });
    try {
      const target = await targetOf(text);
      if (own !== number.current) return;
      go(...target);
      input.current.value = "";
      input.current.blur();
      clear();
    } catch (error) {
      if (own === number.current) setState({ busy: false, fault: error.message });
    }
  };
  return html`<form class="search" role="search" aria-busy=${state.busy} onSubmit=${submit}>
    <svg viewBox="0 0 16 16" aria-hidden="true"><circle cx="7" cy="7" r="4.5" fill="none" stroke="currentColor" stroke-width="1.6" /><path d="M10.5 10.5L14 14" stroke="currentColor" stroke-width="1.6" stroke-linecap="round" /></svg>
    <input ref=${input} aria-label="Search" aria-invalid=${Boolean(state.fault)} placeholder="Job id, idempotency key, correlation id, label" spellcheck="false" autocomplete="off"
      onInput=${() => state.fault && clear()} onKeyDown=${(event) => event.key === "Escape" && clear()} /><kbd>/</kbd>
    ${state.fault && html`<p class="search-fault break" role="alert">${state.fault}</p>`}
  </form>`;
}
