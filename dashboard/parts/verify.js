// The check of an audit bundle in the browser: the digest of the bundle, and in each further event the hash of the previous event.

/** Returns the canonical JSON of a value (RFC 8785). JSON.stringify writes numbers and strings as the RFC requires. */
function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const members = Object.keys(value).sort().map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`);
  return `{${members.join(",")}}`;
}

async function sha256(text) {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Returns {ok, text}. `ok` is true if the digest matches the bundle, and each event after the first has the hash of the previous event. */
export async function verifyChain(bundle) {
  const { digest, ...rest } = bundle;
  const found = await sha256(canonical(rest));
  if (digest.replace(/^sha256:/, "") !== found) return { ok: false, text: `The computed digest of the bundle is ${found}, not ${digest}.` };
  let before = "";
  for (const [index, event] of bundle.events.entries()) {
    if (event.seq !== undefined && Number(event.seq) !== index + 1) return { ok: false, text: `Event ${index + 1} is missing or not in order.` };
    if (event.prev_hash !== before) return { ok: false, text: index ? `The prev_hash of event ${index + 1} is not the hash of the previous event.` : "The prev_hash of the first event is not empty." };
    before = event.hash;
  }
  return { ok: true, text: `The digest matches the bundle. Each event after the first has the hash of the previous event. Number of events: ${bundle.events.length}.` };
}
