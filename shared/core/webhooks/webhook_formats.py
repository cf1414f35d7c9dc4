"""What the body of a webhook is: the event itself, or a short message of it for a chat (R87).

A message has a title and lines of names and values, all of them bounded. What services and callers wrote stands in it
as plain text: nothing of it becomes a mention, markup or a link with another text than its address. An app of Slack or
Teams may still turn an address in plain text into a link; a message cannot switch that off.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from shared.core.webhooks.webhooks import HookFormat

_CLOUDEVENTS = "application/cloudevents+json"
_JSON = "application/json"
#: characters of a value in a message; so a message is far below what Slack (40,000 characters) and Teams (28 KB) take
_MAX_VALUE = 300

#: the three characters that begin something in Slack (https://docs.slack.dev/messaging/formatting-message-text)
_SLACK_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def body_of(format: HookFormat, event_text: str) -> tuple[str, bytes]:
    """Returns content type and body of a delivery. `event_text`: the CloudEvent as the feed has it."""
    match format:
        case HookFormat.CLOUDEVENTS:
            return _CLOUDEVENTS, event_text.encode()
        case HookFormat.SLACK:
            return _JSON, _json(_slack(*_message(json.loads(event_text))))
        case HookFormat.TEAMS:
            return _JSON, _json(_teams(*_message(json.loads(event_text))))


def _message(event: Mapping[str, Any]) -> tuple[str, list[tuple[str, str]]]:
    """The title, and what a person asks first: which job, what of it, why."""
    data = _mapping(event.get("data"))
    payload = _mapping(data.get("payload"))
    error = _mapping(payload.get("error"))
    lines = {
        "Subject": event.get("subject"),
        "Job type": data.get("jobType"),
        "Step": data.get("stepId"),
        "Attempt": data.get("attemptNo"),
        "Status": payload.get("status"),
        "Error": ": ".join(str(each) for each in (error.get("code"), error.get("message")) if each),
        "Reason": payload.get("reason"),
        "Correlation": data.get("correlationId"),
        "Tenant": event.get("tenant"),
        "Time": event.get("time"),
    }
    title = f"LUCIUS {event.get('type', '')}"
    return title[:_MAX_VALUE], [(name, _short(value)) for name, value in lines.items() if _is_text(value)]


def _slack(title: str, lines: list[tuple[str, str]]) -> dict[str, Any]:
    """Of an incoming webhook (https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks)."""
    text = "\n".join([title, *(f"{name}: {value}" for name, value in lines)])
    return {"text": text.translate(_SLACK_ESCAPES), "mrkdwn": False, "unfurl_links": False, "unfurl_media": False}


def _teams(title: str, lines: list[tuple[str, str]]) -> dict[str, Any]:
    """A message with one adaptive card, as the trigger "When a Teams webhook request is received" takes it.

    Its texts are runs of a rich text block, in which nothing is Markdown (https://adaptivecards.io/explorer/TextRun.html).
    """
    rows = [[_run(title, weight="Bolder", size="Medium")]]
    rows += [[_run(f"{name}: ", weight="Bolder"), _run(value)] for name, value in lines]
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [{"type": "RichTextBlock", "inlines": row} for row in rows],
    }
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card}
    return {"type": "message", "attachments": [attachment]}


def _run(text: str, **style: str) -> dict[str, str]:
    return {"type": "TextRun", "text": text, **style}


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _is_text(value: object) -> bool:
    return isinstance(value, str | int | float) and value != ""


def _short(value: object) -> str:
    """On one line."""
    text = " ".join(str(value).split())
    return text if len(text) <= _MAX_VALUE else f"{text[: _MAX_VALUE - 3]}..."
