// "Copy as curl" and "Copy as lucius command", with which a script reads the data of the page, or does its action.
import { html, useState } from "./html.js";
import { token } from "./session.js";

const quoted = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replace(/'/g, `'\\''`)}'`);
export const shell = (words) => words.filter((word) => word !== "" && word !== null && word !== undefined).map((word) => quoted(String(word))).join(" ");

/** Returns the request of an API function as a curl command. The command has `$TOKEN` in place of the token. */
export function curlOf(send, values, headers = {}) {
  const { url, init } = send.request(values, { headers });
  const parts = [shell(["curl", "-s", ...(init.method === "GET" ? [] : ["-X", init.method]), url])];
  for (const [name, value] of Object.entries(init.headers)) parts.push(shell(["-H", `${name}: ${value}`]));
  if (init.body) parts.push(shell(["-d", init.body]));
  if (token.value) parts.push(`-H "Authorization: Bearer $TOKEN"`);
  return parts.join(" ");
}

export function CopyButton({ text, children, small = false }) {
  const [done, setDone] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setDone("Copied");
    } catch {
      setDone("Could not copy; allow clipboard access, or use https");
    }
    setTimeout(() => setDone(""), 1500);
  };
  return html`<button class=${small ? "link small" : "button quiet"} title=${text} onClick=${copy}><span aria-live="polite">${done || children}</span></button>`;
}

export const CopyAs = ({ curl, lucius }) => html`<div class="copy-as">
  <${CopyButton} text=${curl}>Copy as curl<//>
  ${lucius && html`<${CopyButton} text=${lucius}>Copy as lucius command<//>`}
</div>`;
