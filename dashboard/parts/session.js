// The caller: a token in memory, and the actions that the token's scopes allow. Without a token the app decides. With `LUCIUS_AUTH_MODE=none` the app allows all actions.
import { computed, signal } from "./html.js";

export const token = signal("");

/** True if the page shows the sign-in: after a 401 response, after a sign-out, and until a sign-in that the app requires. */
export const refused = signal(false);

/** The reason of the app's refusal, or "" if no token was refused. */
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

/** Returns true if the page offers a call of the API. The API checks each request in any case. A caller that only reads all tenants gets no actions. */
export const may = (call) => !token.value || (scopes.value.has(call.scope) && (!overAll("read") || overAll("operate") || Boolean(tenantOfToken.value)));

/** Returns true if the caller can change the objects of every tenant. */
export const operatesAll = computed(() => !token.value || overAll("operate"));

/** Returns the tenant of the token, or "" for a caller of all tenants or without a token. */
export const ownTenant = computed(() => (!token.value || overAll("read") ? "" : tenantOfToken.value));

export const subject = computed(() => claims.value.preferred_username ?? claims.value.azp ?? claims.value.sub ?? "");

export function signIn(given) {
  token.value = given.trim().replace(/^Bearer\s+/i, "");
  reason.value = "";
  refused.value = false;
}

/** Requires a new sign-in after a 401 response, and shows the problem's `detail` as the reason. */
export function refuse(detail) {
  reason.value = token.value ? (detail ?? "invalid token") : "";
  refused.value = true;
}

export function signOut() {
  token.value = "";
  reason.value = "";
  refused.value = true;
}
