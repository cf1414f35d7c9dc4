"""The host's conversion of a message before Python gets it: `data_type` of each trigger of the app."""

from __future__ import annotations

import base64
from typing import Any

import pytest

#: triggers without a message body
_NO_BODY = {"httpTrigger", "timerTrigger", "orchestrationTrigger", "activityTrigger"}


@pytest.fixture
def webhook_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUCIUS_WEBHOOK_KEYS", f"k1:{base64.b64encode(b'k' * 32).decode()}")


@pytest.fixture
def shared_replies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUCIUS_REPLIES", "shared")


def stated_types(functions: list[Any]) -> dict[str, str | None]:
    triggers = {each.get_function_name(): each.get_trigger().get_dict_repr() for each in functions}
    return {
        name: getattr(trigger.get("dataType"), "name", None)
        for name, trigger in triggers.items()
        if trigger["type"] not in _NO_BODY
    }


def test_one_function_reads_the_replies_of_all_lanes(shared_replies: None, app_functions: list[Any]) -> None:
    """No function listens to a topic that forwards, which the bus refuses."""
    assert stated_types(app_functions) == {"replies": "STRING", "tell": "BINARY", "admission": "BINARY"}


def test_every_trigger_with_a_message_states_its_data_type(webhook_keys: None, app_functions: list[Any]) -> None:
    """Without it a batch is rewritten by the host (azure-functions-python-worker issue 1401).

    Replies are text, since an AMQP value fails as bytes; the app alone writes its own queues, and reads them exactly.
    """
    stated = stated_types(app_functions)
    replies = {f"reply_p{lane}": "STRING" for lane in range(16)}
    assert stated == {**replies, "tell": "BINARY", "admission": "BINARY", "deliver": "BINARY"}
