// Each state of jobs and steps has a shape, a text and one of five colors: idle, active, good, bad, stopped.
import { html } from "./html.js";

const STATES = {
  WAITING_FOR_JOBS: ["idle", "Waiting for jobs", "waits for other jobs"],
  THROTTLED: ["idle", "Throttled", "waits for a quota"],
  QUEUED: ["idle", "Queued", "waits for the first ACK"],
  IN_PROGRESS: ["active", "In progress", "in progress"],
  PAUSING: ["stopped", "Pausing", "waits for attempts in flight"],
  PAUSED: ["stopped", "Paused", "waits for a resume"],
  CANCELLING: ["stopped", "Cancelling", "waits for attempts in flight"],
  SUCCEEDED: ["good", "Succeeded", ""],
  FAILED_FINAL: ["bad", "Failed", ""],
  CANCELLED: ["stopped", "Cancelled", ""],
  PENDING: ["idle", "Pending", ""],
  INITIATED: ["active", "Sent", "waits for the ACK"],
  PROCESSING: ["active", "Processing", ""],
  FAILED_RETRY: ["bad", "Waiting for retry", "waits for its next attempt"],
};
export const JOB_STATES = Object.keys(STATES).slice(0, 10);
const ENDED = ["SUCCEEDED", "FAILED_FINAL", "CANCELLED"];

export const hasEnded = (status) => ENDED.includes(status);
export const colorOf = (status) => STATES[status]?.[0] ?? "idle";
export const nameOf = (status) => STATES[status]?.[1] ?? status;
export const reasonOf = (status) => STATES[status]?.[2] ?? "";

// each color has its own shape, so that users need not see the color
const SHAPES = {
  idle: html`<circle cx="8" cy="8" r="5" fill="none" stroke="currentColor" stroke-width="2" stroke-dasharray="3.2 2" />`,
  active: html`<circle cx="8" cy="8" r="5.5" fill="none" stroke="currentColor" stroke-width="2" /><circle cx="8" cy="8" r="2.5" fill="currentColor" />`,
  good: html`<circle cx="8" cy="8" r="6.5" fill="currentColor" /><path d="M5 8.2l2.1 2.1L11.2 6" fill="none" stroke="var(--surface)" stroke-width="1.8" />`,
  bad: html`<rect x="2.6" y="2.6" width="10.8" height="10.8" rx="2" transform="rotate(45 8 8)" fill="currentColor" /><path d="M8 4.8v4M8 10.4v1.4" stroke="var(--surface)" stroke-width="1.8" />`,
  warning: html`<path d="M8 2.2L14.6 13.6H1.4z" fill="currentColor" stroke="currentColor" stroke-width="1.6" stroke-linejoin="round" /><path d="M8 6v3.6M8 11v1.4" fill="none" stroke="var(--surface)" stroke-width="1.8" />`,
  stopped: html`<rect x="2" y="2" width="12" height="12" rx="3" fill="currentColor" /><path d="M6.3 5.2v5.6M9.7 5.2v5.6" stroke="var(--surface)" stroke-width="1.8" />`,
};

export const Shape = ({ color }) => html`<svg class="shape" viewBox="0 0 16 16" aria-hidden="true">${SHAPES[color]}</svg>`;

export const State = ({ status, large = false }) =>
  html`<span class=${`state ${colorOf(status)}${large ? " large" : ""}`}><${Shape} color=${colorOf(status)} />${nameOf(status)}</span>`;
