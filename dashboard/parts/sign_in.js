// Sign-in by authorization code with PKCE (RFC 7636) at the issuer that the page names. The token stays in memory. Values
// for the redirect to the issuer and back, such as the verifier and the state, are in sessionStorage until the return.
import { effect, html, signal, useRef } from "./html.js";
import { reason, refused, signIn } from "./session.js";

const STORED = "lucius.sign-in";
/** Minimum age in ms of a token to renew. The app refused a newer token for another reason, for example a wrong clock. */
const RENEW_AFTER_MS = 60000;
const CLOCK_TOLERANCE_S = 300;

/** {issuer, clientId, scope}, or undefined if the app has no sign-in or accepts requests without tokens. */
const named = document.querySelector('meta[name="sign-in"]')?.dataset;
const redirect = location.origin + location.pathname;

/** True while the browser opens the issuer, or the page exchanges the code. */
export const signingIn = signal(false);
const failure = signal("");
let signedInAt = null;

async function server() {
  const oauth = await import("oauth4webapi");
  const issuer = new URL(named.issuer);
  // the app accepts http URLs on loopback only
  const options = { [oauth.allowInsecureRequests]: issuer.protocol === "http:" };
  const response = await oauth.discoveryRequest(issuer, options);
  return { oauth, options, metadata: await oauth.processDiscoveryResponse(issuer, response) };
}

/** Redirects to the issuer. With `silent` the issuer shows no prompt, and sign-in succeeds only if the user has a session at the issuer. */
async function start({ silent = false } = {}) {
  signingIn.value = true;
  failure.value = "";
  try {
    const { oauth, metadata } = await server();
    const kept = { verifier: oauth.generateRandomCodeVerifier(), state: oauth.generateRandomState(), nonce: oauth.generateRandomNonce(), hash: location.hash, silent };
    const address = new URL(metadata.authorization_endpoint);
    const parameters = {
      client_id: named.clientId, redirect_uri: redirect, response_type: "code", response_mode: "fragment", scope: `openid ${named.scope}`,
      state: kept.state, nonce: kept.nonce, code_challenge: await oauth.calculatePKCECodeChallenge(kept.verifier), code_challenge_method: "S256",
      ...(silent ? { prompt: "none" } : {}),
    };
    Object.entries(parameters).forEach(([name, value]) => address.searchParams.set(name, value));
    sessionStorage.setItem(STORED, JSON.stringify(kept));
    location.assign(address);
  } catch (error) {
    failure.value = words(error);
    signingIn.value = false;
  }
}

/** Returns the parameters of the issuer's redirect, and the stored values. Returns null if no redirect opened the page. */
function takeReturn() {
  if (!named || !/^#(?!\/).*\bstate=/.test(location.hash)) return null;
  const answer = new URLSearchParams(location.hash.slice(1));
  const kept = JSON.parse(sessionStorage.getItem(STORED));
  sessionStorage.removeItem(STORED);
  // runs before the router reads the URL, and also removes the code from the history
  history.replaceState(null, "", `${location.pathname}${location.search}${kept?.hash ?? ""}`);
  return { answer, kept };
}

async function finish({ answer, kept }) {
  signingIn.value = true;
  try {
    if (!kept) throw new Error("This sign-in started in another tab, or its code was used already. Sign in again.");
    const { oauth, options, metadata } = await server();
    const client = { client_id: named.clientId, [oauth.clockTolerance]: CLOCK_TOLERANCE_S };
    const parameters = oauth.validateAuthResponse(metadata, client, answer, kept.state);
    // Entra ID refuses some requests without the scope (AADSTS90009, if client and API are one registration)
    const response = await oauth.authorizationCodeGrantRequest(metadata, client, oauth.None(), parameters, redirect, kept.verifier, {
      ...options, additionalParameters: { scope: `openid ${named.scope}` },
    });
    const tokens = await oauth.processAuthorizationCodeResponse(metadata, client, response, { expectedNonce: kept.nonce, requireIdToken: true });
    signIn(tokens.access_token);
    signedInAt = performance.now();
  } catch (error) {
    failure.value = kept?.silent ? "Your sign-in has expired. Sign in again." : words(error);
    refused.value = true;
  }
  signingIn.value = false;
}

function words(error) {
  const { origin } = new URL(named.issuer);
  if (error.error) return `${origin} refused the sign-in: ${error.error_description ?? error.error}`;
  // `fetch` gives no reason if the server is unreachable, or CORS forbids the response
  if (error.name === "TypeError" && !error.code) return `${origin} does not respond to this page. Check the connection, and register ${redirect} at the issuer as a redirect URI of type SPA.`;
  return `${error.message.replace(/\.$/, "")}. Sign in again.`;
}

if (named) {
  const returned = takeReturn();
  if (returned) finish(returned);
  else refused.value = true;
  // the back-forward cache restores the page in its earlier state
  addEventListener("pageshow", (event) => event.persisted && (signingIn.value = false));
  // the page renews an expired token in the same way, and returns to its URL
  effect(() => {
    if (refused.value && signedInAt !== null && performance.now() - signedInAt > RENEW_AFTER_MS) start({ silent: true });
  });
}

export function SignIn() {
  const input = useRef(null);
  const submit = (event) => (event.preventDefault(), signIn(input.current.value));
  if (signingIn.value) return html`<section class="view narrow" aria-busy="true"><h1>Sign in</h1><p class="muted" role="status">Signing in…</p></section>`;
  return html`<section class="view narrow"><h1>Sign in</h1>
    ${(failure.value || reason.value) && html`<p class="error-state compact clip" role="alert">${failure.value || `The app refused the token: ${reason.value}`}</p>`}
    <p>The app needs an access token. The page keeps the token in memory only, and loses the token when you close or reload the page.</p>
    ${named && html`<div class="buttons"><button class="button primary" onClick=${() => start()}>Sign in</button></div><p class="muted">You can also enter an access token.</p>`}
    <form onSubmit=${submit}><label class="field">Access token
      <input ref=${input} type="password" autocomplete="off" spellcheck="false" required placeholder="eyJ…" /></label>
      <div class="buttons"><button class=${named ? "button" : "button primary"}>Use this token</button></div></form>
    ${!named && html`<p class="muted small">To enable sign-in at the issuer, an operator must set <code class="mono">LUCIUS_DASHBOARD_CLIENT_ID</code>.</p>`}
  </section>`;
}
