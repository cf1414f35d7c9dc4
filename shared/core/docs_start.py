"""How to begin, on top of the API's documentation: get a token, submit, watch, be refused."""

from __future__ import annotations

import json
from html import escape

from shared.core.api_examples import ENVELOPE


def commands(server: str) -> list[tuple[str, str]]:
    """(what it is for, the shell command), in order; `jq` is not needed."""
    body = json.dumps({**ENVELOPE, "labels": {}}, ensure_ascii=False)
    bearer = '-H "Authorization: Bearer $TOKEN"'
    return [
        ("Start a stack on this machine, with an issuer of tokens.", "make up AUTH=1"),
        (
            "In another terminal: get a token for a tenant.",
            "TOKEN=$(.venv/bin/lucius login --as tenant_a --scope orch:read --scope orch:operate --print)",
        ),
        (
            "Submit a job. The answer is 202 with its id and `Location`; the same request again is the same job.",
            f"curl -si {bearer} -H 'Content-Type: application/json' -d '{body}' {server}/v1/orchestrate",
        ),
        ("Watch it: put its id in.", f"curl -s {bearer} {server}/v1/jobs/$JOB"),
        ("Ask why it is where it is.", f"curl -s {bearer} {server}/v1/jobs/$JOB/explain"),
        ("Without a token you are refused, with 401 and a problem that says what to do.", f"curl -si {server}/v1/jobs"),
    ]


def started(server: str) -> str:
    """As HTML."""
    lines = "".join(
        f"<li><p>{escape(words).replace('`Location`', '<code>Location</code>')}</p><pre>{escape(command)}</pre></li>"
        for words, command in commands(server)
    )
    return f"<h2 id=start>Begin</h2><ol>{lines}</ol>"
