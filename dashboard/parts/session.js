// The caller: a token in memory, and the actions that its scopes allow. Without a token the app decides (on a laptop: all).
import { computed, signal } from "./html.js";

export const token = signal("");

/** True after a request was refused because it had no valid token. */
export const refused = signal(false);

/** The reason why the app refused the token; "" if there was no token. */
export const reason = signal("");

const claims = computed(() => {
  try {
    const part = token.value.split(".")[1].replace(/-/g, "+").replace(/_/g, "/");
    return JSON.parse(new TextDecoder().decode(Uint8Array.from(atob(part), (each) => each.charCodeAt(0))));
  } catch {
    return {};
  }
});

const roles = computed(() => new Set([claims.value.roles ?? []].flat()));

/** Scopes of docs/reference/access.md. An administrator assigns `orch:admin` and the roles over all tenants. */
const scopes = computed(() => {
  const { scp, scope } = claims.value;
  const requested = [scp, scope].flatMap((each) => String(each ?? "").split(" ")).filter((each) => each !== "orch:admin");
  return new Set([...requested, ...roles.value]);
});

const overAll = (verb) => roles.value.has("orch:all-tenants") || roles.value.has(`orch:all-tenants:${verb}`);
const tenantOfToken = computed(() => {
  const role = [...roles.value].find((each) => String(each).startsWith("tenant:"));
  return role ? role.slice("tenant:".length) : String(claims.value.tenant ?? claims.value.tenant_id ?? claims.value.lucius_tenant ?? "");
});

/** Returns whether to offer a call of the API, which checks each request in any case. A caller with read access to all tenants acts on none. */
export const may = (call) => !token.value || (scopes.value.has(call.scope) && (!overAll("read") || overAll("operate") || Boolean(tenantOfToken.value)));

/** Returns whether the caller acts on every tenant. */
export const operatesAll = computed(() => !token.value || overAll("operate"));

/** Returns the tenant of the token; "" for a caller of all tenants. */
export const ownTenant = computed(() => (!token.value || overAll("read") ? "" : tenantOfToken.value));

export const subject = computed(() => claims.value.preferred_username ?? claims.value.azp ?? claims.value.sub ?? "");

export function signIn(given) {
  token.value = given.trim().replace(/^Bearer\s+/i, "");
  reason.value = "";
  refused.value = false;
}

/** Handles a 401; `detail` is the problem's. */
export function refuse(detail) {
  reason.value = token.value ? (detail ?? "it is not valid") : "";
  refused.value = true;
}

export function signOut() {
  token.value = "";
  reason.value = "";
  refused.value = true;
}
