// The commands of "Copy as lucius command". A test passes their arguments to the CLI.
import { BASE } from "../api.js";
import { shell } from "./copy.js";

const lucius = (...words) => shell(["lucius", ...words, ...(BASE.endsWith("//127.0.0.1:7071") ? [] : ["--api", BASE])]);
/** Returns `--name value` for each value that is set. */
const options = (values) => Object.entries(values).flatMap(([name, value]) => (value ? [`--${name}`, value] : []));

export const status = (tenant) => lucius("status", ...options({ tenant }));
export const jobs = (tenant, { request_type: type, idempotency_key: key, correlation_id: correlation, ...filter }) =>
  lucius("job", "list", ...options({ tenant, type, "idempotency-key": key, "correlation-id": correlation, ...filter }));
export const job = (jobId, asOf) => lucius("job", "show", jobId, ...options({ "as-of": asOf }));
export const audit = (jobId) => `${lucius("job", "audit", jobId)} | lucius audit verify -`;
export const runLog = (jobId) => lucius("run", "logs", jobId, "--follow");
export const submit = (body) => `printf '%s\\n' ${shell([JSON.stringify(body)])} | ${lucius("submit", "--ndjson", "-", "--tenant", body.tenant_id || "TENANT")}`;
export const quotas = (tenant) => lucius("quota", "list", ...options({ tenant }));
/** `name`: name of a quota over all tenants. */
export const quota = ({ name, tenant, type, source }) => lucius("quota", "show", ...options({ gate: name, tenant, type, source }));
export const incidents = (tenant) => lucius("incident", "list", ...options({ tenant }));
export const incident = (id) => lucius("incident", "show", id);
export const deadletters = (tenant) => lucius("deadletter", "list", ...options({ tenant }));
export const rejected = (tenant) => lucius("rejected", "list", ...options({ tenant }));
export const webhooks = (tenant) => lucius("webhook", "list", ...options({ tenant }));
