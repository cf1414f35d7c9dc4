// A platform service in Node on @azure/service-bus, written from docs/guides/platform-services.md without the kit: each message
// is one attempt, its record is a blob. FAULT names one rule that it then breaks; without it, it keeps them all.
import { createHash, createHmac } from "node:crypto";
import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";

const require = createRequire(process.env.NODE_SERVICE_MODULES);
const { ServiceBusClient } = require("@azure/service-bus");

const FAULT = process.env.FAULT ?? "";
const STEP_TYPE = "NODE";
const HEARTBEAT_MS = 300;
const BOOT = String(process.pid);
const known = new Set(
  ("type jobId tenant_id stepId protocol_id step_type attempt_no lease_id input_ref workspace_ref output_ref final payload " +
    "mode lane routing_key_used correlation_id traceparent callback_urls").split(" "),
);
const sha256 = (data) => createHash("sha256").update(data).digest("hex");

// Blobs, by the REST API with a shared key

const account = Object.fromEntries(
  process.env.LUCIUS_BLOB_CONNECTION.split(";").filter(Boolean).map((part) => [
    part.slice(0, part.indexOf("=")),
    part.slice(part.indexOf("=") + 1),
  ]),
);

async function request(method, uri, { body, type = "", onlyNew = false, parameters = "" } = {}) {
  if (!uri.startsWith(account.BlobEndpoint.replace(/\/$/, "") + "/")) throw new Error(`not of this account: ${uri}`);
  const headers = { "x-ms-date": new Date().toUTCString(), "x-ms-version": "2021-08-06" };
  if (body !== undefined && !parameters) headers["x-ms-blob-type"] = "BlockBlob";
  const named = Object.keys(headers).sort().map((name) => `${name}:${headers[name]}\n`).join("");
  const query = parameters ? `\n${parameters.replace("=", ":")}` : "";
  const path = `/${account.AccountName}${new URL(uri).pathname}${query}`;
  const length = body?.length ? String(body.length) : "";
  const text = `${method}\n\n\n${length}\n\n${type}\n\n\n\n${onlyNew ? "*" : ""}\n\n\n${named}${path}`;
  const signature = createHmac("sha256", Buffer.from(account.AccountKey, "base64")).update(text).digest("base64");
  headers.authorization = `SharedKey ${account.AccountName}:${signature}`;
  if (type) headers["content-type"] = type;
  if (onlyNew) headers["if-none-match"] = "*";
  return await fetch(uri + (parameters ? `?${parameters}` : ""), { method, headers, body });
}

async function write(uri, body, type = "application/json") {
  const response = await request("PUT", uri, { body: Buffer.from(body), type });
  if (!response.ok) throw new Error(`${uri}: ${response.status}`);
  return uri;
}

async function read(uri) {
  const response = await request("GET", uri);
  if (response.status === 404) return null;
  if (!response.ok) throw new Error(`${uri}: ${response.status}`);
  return Buffer.from(await response.arrayBuffer());
}

// Replies

const client = new ServiceBusClient(process.env.LUCIUS_SERVICEBUS_CONNECTION);
const LANES = [0, 1];
const senders = LANES.map((lane) => client.createSender(`global-bus-replies-p${lane}`));

async function reply(directive, type, more = {}) {
  const body = { type, timestamp: new Date().toISOString(), ...more };
  for (const name of ["jobId", "stepId", "tenant_id", "attempt_no", "lease_id", "correlation_id", "traceparent"]) {
    body[name] = directive[name];
  }
  if (FAULT === "identity") body.tenant_id = "another";
  if (FAULT === "trace") body.correlation_id = "another";
  await senders[FAULT === "lanes" ? 0 : directive.lane].sendMessages({ body, contentType: "application/json" });
}

// Attempts

const inFlight = new Map(); // by key: a promise of the end
const newest = new Map(); // by job and step: the highest attempt number
const memory = new Map(); // results of this process
const reference = (value) => (typeof value === "string" ? value : value?.uri);

async function work(directive, state) {
  const source = await read(reference(directive.input_ref));
  if (source === null) throw Object.assign(new Error("no input"), { code: "INPUT_NOT_FOUND" });
  const until = Date.now() + 1000 * (directive.payload?.work_s ?? 0);
  while (Date.now() < until && !state.superseded) await sleep(20);
  const workspace = reference(directive.workspace_ref);
  const result = JSON.stringify({ bytes: source.length });
  const folder = FAULT === "places" ? workspace.replace(/[^/]+\/$/, "elsewhere/") : workspace;
  const at = await write(`${folder}node/result.json`, result);
  const table = await write(`${workspace}node/table.csv`, "a,b", "text/csv");
  if (FAULT === "stray_blobs") await write(at.replace(/\/workspace\/.*/, `/documents/latest-${directive.jobId}`), result);
  const digest = FAULT === "artifacts" ? sha256("other") : sha256("a,b");
  const done = {
    status: "SUCCEEDED",
    result_ref: { uri: at },
    artifacts: [{ name: "table.csv", uri: table, media_type: "text/csv", size: 3, sha256: digest }],
  };
  if (directive.final) {
    const output = reference(directive.output_ref);
    const blob = output.split("/").at(-1).includes(".");
    const below = FAULT === "final_result" ? output : `${output}/${directive.jobId}`;
    try {
      done.output_ref = { uri: await write(blob ? output : `${below}/node/result.json`, result) };
    } catch (error) {
      if (FAULT !== "unwritable_output") throw Object.assign(error, { code: "OUTPUT" });
    }
  }
  return done;
}

async function attempt(directive, state) {
  const key = sha256([directive.jobId, directive.stepId, directive.attempt_no, directive.lease_id].join("\0"));
  const place = `${reference(directive.workspace_ref)}.attempt/${key}.json`;
  const forgets = FAULT === "duplicate_after_restart";
  let stored = forgets ? memory.get(key) : JSON.parse((await read(place)) ?? "null");
  if (FAULT === "duplicate_later" && stored?.boot === BOOT) stored = null;
  if (!stored) {
    const beat = setInterval(() => {
      if (FAULT !== "heartbeats") reply(directive, "HEARTBEAT", { progress: 0.5 }).catch(() => {});
    }, HEARTBEAT_MS);
    let result;
    try {
      result = await work(directive, state);
    } catch (error) {
      result = { status: "FAILED_FINAL", error: { code: error.code ?? "NODE_FAULT", message: String(error.message) } };
    } finally {
      clearInterval(beat);
    }
    stored = { result: { ...result, timestamp: new Date().toISOString() }, boot: BOOT };
    if (forgets) memory.set(key, stored);
    else await request("PUT", place, { body: Buffer.from(JSON.stringify(stored)), type: "application/json", onlyNew: true });
  }
  if (state.superseded) return;
  if (FAULT === "acknowledges") await reply(directive, "ACK");
  await reply(directive, "RESULT", stored.result);
  if (FAULT === "one_result") await reply(directive, "RESULT", stored.result);
  if (FAULT === "heartbeats_end") {
    setInterval(() => reply(directive, "HEARTBEAT", { progress: 1 }).catch(() => {}), 1000).unref();
  }
}

// One settlement after the other: rhea (3.0.5, lib/session.js, write_dispositions) sends two that follow one another in
// one turn as one, with the outcome of the first, so a dead letter after a completion would be completed too.
let settling = Promise.resolve();
function settle(settlement) {
  const done = settling.then(settlement);
  settling = done.catch(() => {});
  return done;
}
const complete = (message, receiver) => settle(() => receiver.completeMessage(message));

function refusal(body) {
  if (body === null || typeof body !== "object" || Array.isArray(body)) return ["DirectiveMalformed", "no JSON object"];
  for (const name of ["jobId", "stepId", "tenant_id", "lease_id", "step_type"]) {
    if (typeof body[name] !== "string" || !body[name]) return ["DirectiveMalformed", name];
  }
  if (!Number.isInteger(body.attempt_no)) return ["DirectiveMalformed", "attempt_no"];
  if (body.step_type !== STEP_TYPE) return ["DirectiveMisrouted", `step_type is ${body.step_type}`];
  const unknown = Object.keys(body).filter((name) => !known.has(name));
  if (FAULT === "unknown_fields" && unknown.length) return ["DirectiveMalformed", unknown.join()];
  return null;
}

async function take(message, receiver) {
  let body = message.body;
  try {
    if (Buffer.isBuffer(body)) body = JSON.parse(body.toString());
  } catch {
    body = null;
  }
  const refused = refusal(body);
  if (refused) {
    const [reason, description] = refused;
    if (FAULT === (reason === "DirectiveMisrouted" ? "misrouted" : "malformed")) return complete(message, receiver);
    return settle(() =>
      receiver.deadLetterMessage(message, { deadLetterReason: reason, deadLetterErrorDescription: description }),
    );
  }
  const step = `${body.jobId} ${body.stepId}`;
  const key = `${step} ${body.attempt_no} ${body.lease_id}`;
  if (FAULT === "newer_attempt" && [...inFlight.keys()].some((each) => each.startsWith(step) && each !== key)) {
    return complete(message, receiver);
  }
  if (body.attempt_no < (newest.get(step)?.attempt_no ?? 0) && FAULT !== "stale_attempt") {
    return complete(message, receiver);
  }
  if (FAULT === "killed") await complete(message, receiver);
  if (FAULT !== "acknowledges") await reply(body, "ACK");
  let state = inFlight.get(key);
  if (!state || FAULT === "duplicate_at_once") {
    const older = newest.get(step);
    if (older && older.attempt_no < body.attempt_no) older.superseded = true;
    state = { attempt_no: body.attempt_no, superseded: false };
    if (body.attempt_no >= (older?.attempt_no ?? 0)) newest.set(step, state);
    state.end = attempt(body, state).finally(() => inFlight.delete(key));
    inFlight.set(key, state);
  }
  await state.end;
  if (FAULT !== "killed") await complete(message, receiver);
}

const receivers = LANES.map((lane) => client.createReceiver(`global-bus-p${lane}`, "node", { skipParsingBodyAsJson: true }));
const taking = new Set();
const subscriptions = receivers.map((receiver) =>
  receiver.subscribe(
    {
      processMessage: async (message) => {
        // the SDK renews the lock until this returns
        const end = take(message, receiver).catch((error) => console.error(error));
        taking.add(end);
        await end;
        taking.delete(end);
      },
      processError: async ({ error }) => console.error(error.message),
    },
    { autoCompleteMessages: false, maxConcurrentCalls: 20 },
  ),
);
process.on("SIGTERM", async () => {
  if (FAULT === "drained") process.exit(143);
  await Promise.all([...taking]);
  await Promise.all(subscriptions.map((subscription) => subscription.close()));
  await client.close();
  process.exit(0);
});
