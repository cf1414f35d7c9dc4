"""The body of a webhook delivery: the event itself, or a short chat message about the event (R87).

A message has a title and bounded lines of names and values. Text of services and callers is plain text. The text cannot
become a mention, markup, or a link whose text differs from its URL. An app of Slack or Teams may still turn a URL in
plain text into a link, which a message cannot prevent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from shared.core.webhooks.webhooks import HookFormat

_CLOUDEVENTS = "application/cloudevents+json"
_JSON = "application/json"
#: maximum length of a value in a message; the message then is far below the limits of Slack (40,000 characters) and
#: Teams (28 KB)
_MAX_VALUE = 300

#: the three characters with a meaning in Slack (https://docs.slack.dev/messaging/formatting-message-text)
_SLACK_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def body_of(format: HookFormat, event_text: str) -> tuple[str, bytes]:
    """Returns content type and body of a delivery. `event_text` is the CloudEvent as stored in the feed."""
    match format:
        case HookFormat.CLOUDEVENTS:
            return _CLOUDEVENTS, event_text.encode()
        case HookFormat.SLACK:
            return _JSON, _encode_json(_make_slack(*_make_message(json.loads(event_text))))
        case HookFormat.TEAMS:
            return _JSON, _encode_json(_make_teams(*_make_message(json.loads(event_text))))


def _make_message(event: Mapping[str, Any]) -> tuple[str, list[tuple[str, str]]]:
    """Returns the title, and the facts to show: the job, the change and its reason."""
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
    return title[:_MAX_VALUE], [(name, _shorten(value)) for name, value in lines.items() if _is_text(value)]


def _make_slack(title: str, lines: list[tuple[str, str]]) -> dict[str, Any]:
    """Returns the body for an incoming webhook of Slack
    (https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks).
    """
    text = "\n".join([title, *(f"{name}: {value}" for name, value in lines)])
    return {"text": text.translate(_SLACK_ESCAPES), "mrkdwn": False, "unfurl_links": False, "unfurl_media": False}


def _make_teams(title: str, lines: list[tuple[str, str]]) -> dict[str, Any]:
    """Returns a message with one adaptive card for the Teams trigger "When a Teams webhook request is received".

    The texts of the card are runs of a rich text block, which have no Markdown
    (https://adaptivecards.io/explorer/TextRun.html).
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


def _encode_json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _is_text(value: object) -> bool:
    return isinstance(value, str | int | float) and value != ""


def _shorten(value: object) -> str:
    """Returns the value on one line, cut to `_MAX_VALUE` characters."""
    text = " ".join(str(value).split())
    return text if len(text) <= _MAX_VALUE else f"{text[: _MAX_VALUE - 3]}..."
