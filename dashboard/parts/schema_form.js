// Fields of a form from a JSON Schema: texts, numbers, choices, switches and lists of texts. Other values are JSON.
import { html } from "./html.js";

/** Returns the value of a field's text, or undefined if the text is empty. Throws if the schema needs JSON and the text is not JSON. */
function read(schema, text) {
  if (text === "") return undefined;
  const type = [schema.type].flat().find((each) => each !== "null");
  if (type === "integer" || type === "number") return Number(text);
  if (type === "boolean") return text === "true";
  if (type === "string" || schema.enum) return text;
  if (type === "array" && schema.items?.type === "string") return text.split("\n").map((each) => each.trim()).filter(Boolean);
  return JSON.parse(text);
}

/** Returns {values, error} of the texts of a form by field name. */
export function readForm(schema, texts) {
  const values = {};
  for (const [name, field] of Object.entries(schema?.properties ?? {})) {
    try {
      const value = read(field, texts[name] ?? "");
      if (value !== undefined) values[name] = value;
    } catch {
      return { values, error: `${name} is not valid JSON` };
    }
  }
  const missing = (schema?.required ?? []).find((name) => values[name] === undefined);
  return { values, error: missing ? `${missing} is required` : null };
}

function Field({ name, schema, required, text, onText }) {
  const type = [schema.type].flat().find((each) => each !== "null");
  const choices = schema.enum ?? (type === "boolean" ? ["true", "false"] : null);
  const shared = { name, value: text, required, onInput: (event) => onText(event.target.value) };
  let input = html`<input ...${shared} placeholder=${schema.default ?? schema.examples?.[0] ?? ""} />`;
  if (choices) input = html`<select ...${shared} onChange=${shared.onInput}><option value="">${schema.default !== undefined ? `default: ${schema.default}` : "default"}</option>${choices.map((each) => html`<option key=${each} value=${each}>${each}</option>`)}</select>`;
  else if (type === "integer" || type === "number") input = html`<input ...${shared} type="number" step=${type === "integer" ? 1 : "any"} min=${schema.minimum} max=${schema.maximum} placeholder=${schema.default ?? ""} />`;
  else if (type === "array" || type === "object") input = html`<textarea ...${shared} rows="3" placeholder=${schema.items?.type === "string" ? "one per line" : "JSON"} />`;
  return html`<label class="field">${name}${required ? " *" : ""}${input}<small>${schema.description}</small></label>`;
}

export const SchemaForm = ({ schema, texts, onTexts }) => Object.entries(schema?.properties ?? {}).map(([name, field]) => html`<${Field} key=${name} name=${name} schema=${field}
  required=${(schema.required ?? []).includes(name)} text=${texts[name] ?? ""} onText=${(text) => onTexts({ ...texts, [name]: text })} />`);
