"""The OpenAPI document as one page of plain HTML: no scripts, nothing fetched."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape
from typing import Any

from shared.apidocs.json_schema import JsonObject
from shared.apidocs.schema_html import anchor, example, prose, table, type_of

#: what the page needs of a browser, for its Content-Security-Policy
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

_STYLE = """
:root { color-scheme: light dark; --line: light-dark(#d8dce2, #3a3f47); --soft: light-dark(#5b6470, #9aa3af);
  --card: light-dark(#f6f7f9, #1d2025); --link: light-dark(#0b57d0, #8ab4f8); --get: light-dark(#1b7f3b, #7ddc9a);
  --post: light-dark(#8a4b00, #f2b866); }
body { font: 15px/1.55 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto 6rem; padding: 0 1rem; }
a { color: var(--link); } h1 { line-height: 1.2; } h2 { margin-top: 3rem; } h3 { margin: 0; font-size: 1rem; }
code, pre { font: 13px/1.45 ui-monospace, monospace; overflow-wrap: anywhere; } .soft { color: var(--soft); }
pre { background: var(--card); padding: .7rem; overflow: auto; max-height: 28rem; white-space: pre-wrap; }
table { border-collapse: collapse; width: 100%; display: block; overflow-x: auto; } th { color: var(--soft); }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 500; } td:first-child { white-space: nowrap; }
nav ul { columns: 2; padding-left: 1rem; } nav li { break-inside: avoid; }
section { border-top: 1px solid var(--line); padding: 1.2rem 0 .4rem; scroll-margin-top: 1rem; }
details { margin: .5rem 0; } summary { cursor: pointer; } .method { font-weight: 700; } .GET { color: var(--get); }
.POST, .PATCH, .DELETE { color: var(--post); } h4 { margin: 1rem 0 .2rem; }
@media (max-width: 40rem) { nav ul { columns: 1; } }
"""


def page(document: JsonObject, started: str) -> str:
    """The whole page; `started` is the HTML of the first commands."""
    info = document["info"]
    sections = "".join(_tag(document, tag) for tag in document["tags"])
    schemas = "".join(
        f'<section id="{anchor(name)}"><h3>{escape(name)}</h3><p>{prose(schema.get("description", ""))}</p>'
        f"{table(schema)}</section>"
        for name, schema in document["components"]["schemas"].items()
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(info['title'])}</title><style>{_STYLE}</style></head><body>"
        f"<h1>{escape(info['title'])} <small class=soft>{escape(info['version'])}</small></h1>"
        f"<p>{prose(info['description'])}</p>"
        '<p>For programs: <a href="/v1/openapi.json">OpenAPI</a>, <a href="/v1/asyncapi.json">AsyncAPI</a> of the bus, '
        '<a href="/v1/schemas">JSON Schemas</a>.</p>'
        f"{started}<h2 id=operations>Operations</h2>{_index(document)}{sections}<h2 id=schemas>Schemas</h2>{schemas}"
        "</body></html>"
    )


def operations(document: JsonObject) -> Iterator[tuple[str, str, JsonObject]]:
    """(method, path, operation) of each."""
    for path, item in document["paths"].items():
        for method in ("get", "post", "put", "patch", "delete"):
            if method in item:
                yield method.upper(), path, item[method]


def _index(document: JsonObject) -> str:
    lines = "".join(
        f'<li><a href="#{escape(operation["operationId"])}">{_name(method, path)}</a></li>'
        for method, path, operation in operations(document)
    )
    return f"<nav><ul>{lines}</ul></nav>"


def _tag(document: JsonObject, tag: JsonObject) -> str:
    text = "".join(
        _operation(document, method, path, operation)
        for method, path, operation in operations(document)
        if tag["name"] in operation["tags"]
    )
    return f"<h2>{escape(tag['name'].capitalize())}</h2><p>{prose(tag.get('description', ''))}</p>{text}"


def _name(method: str, path: str) -> str:
    return f'<span class="method {method}">{method}</span> <code>{escape(path)}</code>'


def _operation(document: JsonObject, method: str, path: str, operation: JsonObject) -> str:
    parts = [
        f'<section id="{escape(operation["operationId"])}"><h3>{_name(method, path)}</h3>',
        f"<p>{prose(operation['summary'])}</p>",
    ]
    if "description" in operation:
        parts.append(f"<p>{prose(operation['description'])}</p>")
    if operation.get("deprecated"):
        return "".join([*parts, "</section>"])
    parts.append(f"<p class=soft>{_scopes(operation)}</p>{example(_curl(document, method, path, operation))}")
    parts += [_parameters(document, operation), _body(operation), _answers(document, operation), "</section>"]
    return "".join(parts)


def _scopes(operation: JsonObject) -> str:
    needs = [f"<code>{escape(scope)}</code>" for each in operation["security"] for scope in each.get("bearer", ())]
    if needs:
        return f"Needs the scope {', '.join(needs)}."
    return "Needs the token of a directive." if any(operation["security"]) else "Needs no token."


def _curl(document: JsonObject, method: str, path: str, operation: JsonObject) -> str:
    """A command that works once `TOKEN`, the ids and, where the document names no server, `API` are put in."""
    words = ["curl -s"]
    if method != "GET":
        words.append(f"-X {method}")
    if any(operation["security"]):
        words.append('-H "Authorization: Bearer $TOKEN"')
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    if examples := body.get("examples"):
        example = json.dumps(next(iter(examples.values()))["value"], ensure_ascii=False)
        words += ["-H 'Content-Type: application/json'", f"-d '{example}'"]
    shown = path.replace("{", "$").replace("}", "")
    server = document["servers"][0]["url"].rstrip("/") or "$API"
    return f'{" ".join(words)} "{server}{shown}"'


def _parameters(document: JsonObject, operation: JsonObject) -> str:
    given = [_resolved(document, each) for each in operation.get("parameters", ())]
    rows = "".join(
        f"<tr><td><code>{escape(each['name'])}</code>{' *' if each.get('required') else ''}<td>{escape(each['in'])}"
        f"<td>{type_of(each['schema'])}<td>{prose(each.get('description', ''))}</tr>"
        for each in given
    )
    if not rows:
        return ""
    return f"<h4>Parameters</h4><table><thead><tr><th>name<th>in<th>type<th></tr></thead><tbody>{rows}</tbody></table>"


def _body(operation: JsonObject) -> str:
    if "requestBody" not in operation:
        return ""
    text = "" if operation["requestBody"].get("required") else " <span class=soft>(may be left out)</span>"
    parts = [f"<h4>Body{text}</h4>"]
    for media_type, content in operation["requestBody"]["content"].items():
        schema = content["schema"]
        text = type_of(schema) if media_type == "application/json" else prose(schema["description"])
        parts.append(f"<p><code>{escape(media_type)}</code>: {text}</p>")
        parts += [_example(name, each["value"]) for name, each in content.get("examples", {}).items()]
    return "".join(parts)


def _answers(document: JsonObject, operation: JsonObject) -> str:
    """What is answered if all is well; what is refused, to be folded out."""
    given = {status: _resolved(document, each) for status, each in operation["responses"].items()}
    good = {status: answer for status, answer in given.items() if status < "400"}
    refused = {status: answer for status, answer in given.items() if status >= "400"}
    return (
        f"<h4>Answers</h4>{_table(good)}{_examples(good)}"
        f"<details><summary>Refusals: {', '.join(refused)}</summary>{_table(refused)}{_examples(refused)}</details>"
    )


def _table(answers: JsonObject) -> str:
    rows = ""
    for status, answer in answers.items():
        # the codes of a problem stand in its description, with their meanings
        types = [type_of(each["schema"]) for each in answer.get("content", {}).values() if status < "400"]
        headers = " ".join(f"<code>{escape(name)}</code>" for name in answer.get("headers", {}))
        text = prose(answer["description"]).replace("</p><p>", "<br>")
        rows += f"<tr><td>{status}<td>{' '.join(types)} {text}<td>{headers}</tr>"
    return f"<table><thead><tr><th>status<th>body<th>headers</tr></thead><tbody>{rows}</tbody></table>"


def _examples(answers: JsonObject) -> str:
    return "".join(
        _example(f"{status} {name}", each["value"])
        for status, answer in answers.items()
        for content in answer.get("content", {}).values()
        for name, each in content.get("examples", {}).items()
    )


def _example(name: str, value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
    return f"<details><summary>Example: {escape(name)}</summary>{example(text)}</details>"


def _resolved(document: JsonObject, given: JsonObject) -> JsonObject:
    node: Any = given
    if isinstance(ref := given.get("$ref"), str):
        node = document
        for part in ref.removeprefix("#/").split("/"):
            node = node[part]
    found: JsonObject = node
    return found
