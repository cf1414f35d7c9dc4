// The URL has the view with its parameters and the tenant, for example `#/jobs/{id}?tab=events&tenant=demo`.
import { computed, signal } from "./html.js";

function parse() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { path: path.split("/").filter(Boolean).map(decodeURIComponent), query: new URLSearchParams(query) };
}

export const route = signal(parse());
addEventListener("hashchange", () => (route.value = parse()));

/** The tenant of the shown data, or "" for all tenants that the caller can see. `link` adds the tenant. */
export const tenant = computed(() => route.value.query.get("tenant") ?? "");

/** Returns the link to a path, with the selected tenant, without values that are null or "". */
export function link(path, query = {}) {
  const all = { tenant: tenant.value, ...query };
  const given = Object.entries(all).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const text = new URLSearchParams(given).toString();
  return `#/${path.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

export function go(path, query) {
  location.hash = link(path, query);
}

/** Changes parameters of the current URL. Adds an entry to the history if `push` is true, and else replaces the current entry. */
export function setQuery(changes, { push = false } = {}) {
  const query = Object.fromEntries(route.value.query);
  const target = link(route.value.path, { ...query, ...changes });
  if (push) location.hash = target;
  else {
    history.replaceState(null, "", target);
    route.value = parse();
  }
}
