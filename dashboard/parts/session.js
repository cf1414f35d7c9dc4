// The caller: a token in memory, and what its scopes allow. Without a token the app decides (on a laptop: everything).
import { computed, signal } from "./html.js";

export const token = signal("");

/** Whether a request was refused because it had no valid token. */
export const refused = signal(false);

const claims = computed(() => {
  try {
    const part = token.value.split(".")[1].replace(/-/g, "+").replace(/_/g, "/");
    return JSON.parse(new TextDecoder().decode(Uint8Array.from(atob(part), (each) => each.charCodeAt(0))));
  } catch {
    return {};
  }
});

const granted = computed(() => {
  const { scp, scope, roles } = claims.value;
  return new Set([scp, scope].flatMap((each) => String(each ?? "").split(" ")).concat(roles ?? []));
});

/** Whether to show an action: the app checks each request in any case. */
export const may = (scope) => !token.value || granted.value.has(scope) || granted.value.has("orch:admin");

/** The tenant that the token is bound to; "" for a caller of all tenants. */
export const ownTenant = computed(() => {
  const all = !token.value || granted.value.has("orch:all-tenants");
  return all ? "" : String(claims.value.tenant ?? claims.value.tenant_id ?? claims.value.lucius_tenant ?? "");
});

export const subject = computed(() => claims.value.preferred_username ?? claims.value.azp ?? claims.value.sub ?? "");

export function signIn(given) {
  token.value = given.trim().replace(/^Bearer\s+/i, "");
  refused.value = false;
}
