"""Bodies of webhooks: the event itself, and chat messages in which no text of others becomes markup (R87)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shared.core.webhooks.webhook_formats import body_of
from shared.core.webhooks.webhooks import HookFormat

EVENT: dict[str, Any] = {
    "specversion": "1.0",
    "id": "job_1:4:0",
    "type": "job.failed",
    "subject": "job_1",
    "tenant": "contoso",
    "time": "2026-01-27T10:00:00.000000Z",
    "data": {
        "jobId": "job_1",
        "jobType": "OCR",
        "stepId": "ocr",
        "payload": {
            "status": "FAILED_FINAL",
            "error": {"code": "E_BAD", "message": "<!channel> & [here](https://evil.example)\n*bold* é"},
        },
    },
}


def test_a_cloudevent_goes_out_as_it_stands_in_the_feed() -> None:
    """Byte for byte."""
    text = json.dumps(EVENT, indent=3, ensure_ascii=False)
    assert body_of(HookFormat.CLOUDEVENTS, text) == ("application/cloudevents+json", text.encode())


def test_slack_gets_a_text_without_markup() -> None:
    """Its three characters are escaped, and Markdown is off; a job's id is unchanged."""
    content_type, body = body_of(HookFormat.SLACK, json.dumps(EVENT))
    message = json.loads(body)
    assert content_type == "application/json"
    assert message["mrkdwn"] is False
    assert message["text"].splitlines() == [
        "LUCIUS job.failed",
        "Subject: job_1",
        "Job type: OCR",
        "Step: ocr",
        "Status: FAILED_FINAL",
        "Error: E_BAD: &lt;!channel&gt; &amp; [here](https://evil.example) *bold* é",
        "Tenant: contoso",
        "Time: 2026-01-27T10:00:00.000000Z",
    ]


def test_teams_gets_an_adaptive_card_of_plain_runs() -> None:
    """A message with one card; every text is in a run, in which nothing is Markdown."""
    content_type, body = body_of(HookFormat.TEAMS, json.dumps(EVENT))
    message = json.loads(body)
    assert (content_type, message["type"]) == ("application/json", "message")
    [attachment] = message["attachments"]
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    card = attachment["content"]
    assert (card["type"], card["version"]) == ("AdaptiveCard", "1.4")
    assert {block["type"] for block in card["body"]} == {"RichTextBlock"}
    runs = [run for block in card["body"] for run in block["inlines"]]
    assert {run["type"] for run in runs} == {"TextRun"}
    assert "E_BAD: <!channel> & [here](https://evil.example) *bold* é" in [run["text"] for run in runs]


@pytest.mark.parametrize("format", [HookFormat.SLACK, HookFormat.TEAMS])
@pytest.mark.parametrize(
    "event",
    [
        {},
        {"type": "webhook.test", "subject": "hook_1", "data": None},
        {"type": "quota.changed", "subject": "tenant:contoso", "data": {"payload": "?"}},
        {"type": "x" * 9000, "subject": {"no": "text"}, "data": {"payload": {"error": "text", "status": "<" * 24_000}}},
    ],
)
def test_messages_are_small_whatever_the_event_is(format: HookFormat, event: dict[str, Any]) -> None:
    """Far below the limits of both, also for events that are not a job's."""
    _, body = body_of(format, json.dumps(event))
    assert "LUCIUS" in body.decode()
    assert len(body) < 8 * 1024
