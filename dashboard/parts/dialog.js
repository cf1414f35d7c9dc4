// A modal dialog for an action: the effect, a reason if the action records a reason, and the error of the API.
import { html, useEffect, useRef, useState } from "./html.js";
import { ErrorState } from "./load.js";

/** Shows a dialog that awaits `action(reason)`, and closes when the action succeeds. `reason` is "required", "optional" or "none". */
export function ActionDialog({ title, children, verb, danger = false, reason = "optional", ready = true, action, onClose }) {
  const dialog = useRef(null);
  const [text, setText] = useState("");
  const [state, setState] = useState({ busy: false, error: null });
  useEffect(() => dialog.current.showModal(), []);
  const submit = async (event) => {
    event.preventDefault();
    setState({ busy: true, error: null });
    try {
      await action(text.trim());
      dialog.current?.close();
    } catch (error) {
      setState({ busy: false, error });
    }
  };
  const missing = reason === "required" && !text.trim();
  return html`<dialog ref=${dialog} class="dialog" aria-labelledby="dialog-title" onClose=${onClose}>
    <form onSubmit=${submit}>
      <h2 id="dialog-title">${title}</h2>
      <div class="dialog-body">${children}</div>
      ${reason !== "none" && html`<label class="field">Reason ${reason === "optional" && html`<span class="muted">(optional)</span>`}
        <input value=${text} onInput=${(event) => setText(event.target.value)} maxlength="500" autofocus placeholder="Recorded with the action" required=${reason === "required"} /></label>`}
      ${state.error && html`<${ErrorState} error=${state.error} compact />`}
      <div class="dialog-buttons">
        <button type="button" class="button quiet" onClick=${() => dialog.current.close()}>Close</button>
        <button class=${`button ${danger ? "danger" : "primary"}`} disabled=${state.busy || missing || !ready}>${state.busy ? "Working…" : verb}</button>
      </div>
    </form>
  </dialog>`;
}
