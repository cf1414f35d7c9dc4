"""The job request of `lucius submit`, from the options of the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lucius_client.cli.exits import UsageError

Json = dict[str, Any]


def payload_for(protocol: Json, text: str | None, questions: list[Any]) -> Json:
    """Returns the payload of a job request, with one key for each step of `protocol`.

    `text` is JSON or `@FILE`. For a protocol with one step, the JSON can omit the key of the step. `questions` become
    the prompt set of each SIS step. Raises UsageError if the options do not fit the protocol.
    """
    payload = _parse(text) if text else {}
    steps = protocol["steps"]
    if len(steps) == 1 and steps[0]["step_id"] not in payload:
        payload = {steps[0]["step_id"]: payload}
    payload = {**{step["step_id"]: {} for step in steps}, **payload}
    if questions:
        sis_steps = [step["step_id"] for step in steps if step["step_type"] == "SIS"]
        if not sis_steps:
            raise UsageError(f"--ask needs a protocol with a SIS step; {protocol['request_type']} has no SIS step")
        for step_id in sis_steps:
            if not isinstance(payload[step_id], dict):
                raise UsageError(f"--payload: {step_id} must be a JSON object")
            payload[step_id] = {**payload[step_id], "prompt_set": questions}
    return payload


def envelope(
    tenant: str,
    protocol: Json,
    input_uri: str,
    output_uri: str,
    payload: Json,
    key: str | None,
) -> Json:
    """Returns the body of `POST /v1/orchestrate`. `key` is the idempotency key. None means a hash of the
    compared fields.
    """
    return {
        "schema_version": "1.0",
        "tenant_id": tenant,
        "request_type": protocol["request_type"],
        "input_ref": {"uri": input_uri},
        "output_ref": {"uri": output_uri},
        "payload": payload,
        "source": "lucius-cli",
        "idempotency_key": key,
    }


def _parse(text: str) -> Json:
    content = text
    if text.startswith("@"):
        try:
            content = Path(text[1:]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"--payload {text}: {error}") from error
    try:
        payload = json.loads(content)
    except ValueError as error:
        raise UsageError(f"--payload is not JSON: {error}; correct the JSON, or name a file with @FILE") from error
    if not isinstance(payload, dict):
        raise UsageError("--payload must be a JSON object with a key for each step")
    return payload
