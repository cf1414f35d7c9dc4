// One function for each API call that the page makes. A test compares the table with docs/openapi.json.
import { refuse, token } from "./parts/session.js";

/** The base URL of the API, also behind a path of a proxy: this file is `{base}/v1/dashboard/assets/api-{hash}.js`. */
export const BASE = new URL("../../..", import.meta.url).href.replace(/\/$/, "");

/** The error of a request. `status` is the HTTP code, or 0 if there is no response. */
export class ApiError extends Error {
  constructor(status, problem = {}, retryAfter = null) {
    super(problem.detail ?? "");
    this.status = status;
    this.code = problem.code ?? (status ? `HTTP_${status}` : "NO_CONNECTION");
    this.errors = problem.errors ?? [];
    this.correlationId = problem.correlation_id ?? null;
    this.retryAfter = retryAfter;
  }
}

const words = (text) => text.split(" ").filter(Boolean);

function call(method, path, query = "", body = "", scope = method === "GET" ? "orch:read" : "orch:operate") {
  const inQuery = words(query);
  const inBody = words(body);
  const send = async (values = {}, options = {}) => {
    const { url, init } = send.request(values, options);
    return (await exchange(url, init)).body;
  };
  /** Returns the request of these values for `fetch` and for "Copy as curl". */
  send.request = (values = {}, { signal, headers = {} } = {}) => {
    const filled = path.replace(/{(\w+)}/g, (_, name) => encodeURIComponent(values[name]));
    const given = (names) => names.filter((name) => ![undefined, null, ""].includes(values[name]));
    const search = new URLSearchParams(given(inQuery).map((name) => [name, values[name]])).toString();
    const init = { method, headers: { ...headers }, signal };
    if (body === "*") init.body = JSON.stringify(values.body);
    else if (inBody.length) init.body = JSON.stringify(Object.fromEntries(given(inBody).map((name) => [name, values[name]])));
    if (init.body) init.headers["Content-Type"] = "application/json";
    return { url: `${BASE}${filled}${search ? `?${search}` : ""}`, init };
  };
  /** The scope that a token needs for this call. */
  send.scope = scope;
  return send;
}

/** Sends a request with the token. Raises ApiError, or the error of an aborted `fetch`. */
export async function exchange(url, init) {
  const headers = { ...init.headers, ...(token.value ? { Authorization: `Bearer ${token.value}` } : {}) };
  let response;
  try {
    response = await fetch(url, { ...init, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, { detail: "The app does not respond. Check your connection, and check that the app runs." });
  }
  if (response.ok) {
    const isJson = (response.headers.get("Content-Type") ?? "").includes("json");
    return { response, body: response.status === 204 ? null : isJson ? await response.json() : await response.text() };
  }
  const problem = await response.json().catch(() => ({}));
  if (response.status === 401) refuse(problem.detail);
  const wait = Number(response.headers.get("Retry-After"));
  throw new ApiError(response.status, problem, wait > 0 ? wait : null);
}

const FILTER = "tenant_id status request_type since until label idempotency_key correlation_id archived";

export const submitJob = call("POST", "/v1/orchestrate", "dryRun", "*");
export const listJobs = call("GET", "/v1/jobs", `${FILTER} limit cursor`);
export const getJob = call("GET", "/v1/jobs/{jobId}", "asOf");
export const listJobEvents = call("GET", "/v1/jobs/{jobId}/events", "limit cursor");
export const explainJob = call("GET", "/v1/jobs/{jobId}/explain");
export const getReceipt = call("GET", "/v1/jobs/{jobId}/receipt");
export const getAudit = call("GET", "/v1/jobs/{jobId}/audit");
export const getRunLog = call("GET", "/v1/runs/{jobId}/logs", "after");
export const listRunArtifacts = call("GET", "/v1/runs/{jobId}/artifacts", "attempt");
export const getRunArtifact = call("GET", "/v1/runs/{jobId}/artifacts/{name}", "attempt");
export const listDependencies = call("GET", "/v1/jobs/{jobId}/dependencies", "limit cursor");
export const cancelJob = call("POST", "/v1/jobs/{jobId}:cancel", "", "reason");
export const pauseJob = call("POST", "/v1/jobs/{jobId}:pause", "", "reason");
export const resumeJob = call("POST", "/v1/jobs/{jobId}:resume", "", "reason");
export const redriveJob = call("POST", "/v1/jobs/{jobId}:redrive", "", "reason ignoreDependencies withDependants");
export const replayJob = call("POST", "/v1/jobs/{jobId}:replay", "", "reason mode priority");
export const admitJob = call("POST", "/v1/jobs/{jobId}:admit", "", "reason", "orch:quota");
export const changePriority = call("PATCH", "/v1/jobs/{jobId}", "", "priority reason");
export const createBulk = call("POST", "/v1/bulk", "", "action filter reason dryRun");
export const getBulk = call("GET", "/v1/bulk/{bulkId}", "tenant");
export const streamEvents = call("GET", "/v1/dashboard/events", "after types jobId tenant_id");
export const getMetrics = call("GET", "/v1/dashboard/metrics", "tenant");
export const getRouting = call("GET", "/v1/routing", "tenant doc_id mode");
export const listQuotas = call("GET", "/v1/quotas", "tenant type source name limit cursor");
export const listWaiting = call("GET", "/v1/quotas/{gate}/waiting", "tenant type source name limit cursor");
export const listQuotaLog = call("GET", "/v1/quotas/{gate}/log", "tenant type source name limit cursor");
export const changeQuota = call("PATCH", "/v1/quotas/{gate}", "tenant type source name dryRun", "*", "orch:quota");
export const resetBreaker = call("POST", "/v1/quotas/{gate}:reset", "tenant type source name", "*", "orch:quota");
export const holdQuota = call("POST", "/v1/limits/pause", "", "*", "orch:quota");
export const throttleQuota = call("POST", "/v1/limits/throttle", "", "*", "orch:quota");
export const resumeQuota = call("POST", "/v1/limits/resume", "", "*", "orch:quota");
export const getUsage = call("GET", "/v1/usage", "tenant since by");
export const listIncidents = call("GET", "/v1/incidents", "tenant_id state kind request_type since until limit cursor");
export const getIncident = call("GET", "/v1/incidents/{incidentId}");
export const listDeadLetters = call("GET", "/v1/deadletters", `${FILTER} limit cursor`);
export const resolveIncident = call("POST", "/v1/incidents/{incidentId}:resolve", "", "reason");
export const retryIncident = call("POST", "/v1/incidents/{incidentId}:retry", "", "reason");
export const dismissIncident = call("POST", "/v1/incidents/{incidentId}:dismiss", "", "reason");
export const dismissDeadLetter = call("POST", "/v1/deadletters/{jobId}:dismiss", "", "reason");
export const getRejected = call("GET", "/v1/rejected/{rejectedId}", "", "", "orch:admin");
export const redriveRejected = call("POST", "/v1/rejected/{rejectedId}:redrive", "", "", "orch:admin");
export const listWebhooks = call("GET", "/v1/webhooks", "tenant_id", "", "orch:admin");
export const listDeliveries = call("GET", "/v1/webhooks/{hookId}/deliveries", "tenant_id state limit cursor", "", "orch:admin");
export const testWebhook = call("POST", "/v1/webhooks/{hookId}:test", "tenant_id", "", "orch:admin");
export const resumeWebhook = call("POST", "/v1/webhooks/{hookId}:resume", "tenant_id", "", "orch:admin");
export const redeliver = call("POST", "/v1/webhooks/{hookId}/deliveries/{number}:redeliver", "tenant_id name", "", "orch:admin");
export const listRejected = call("GET", "/v1/rejected", "tenant date limit cursor", "", "orch:admin");
export const listProtocols = call("GET", "/v1/protocols");
export const getProtocol = call("GET", "/v1/protocols/{protocolId}");
export const getSchema = call("GET", "/v1/schemas/{name}");
