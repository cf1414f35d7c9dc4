"""Sends one signed post to a webhook's endpoint (R85)."""

from __future__ import annotations

from shared.access.webhook_signature import secrets_of, signed_headers
from shared.core.webhooks.webhook_formats import body_of
from shared.core.webhooks.webhooks import Answer, Hook
from shared.operations.process.context import Context
from shared.webhook_refusals import HookKeyGone

#: error class if the key of the webhook's secret is not in the settings
_KEY_GONE = "KEY_GONE"


async def post(context: Context, hook: Hook, url: str, message_id: str, event_text: str) -> Answer:
    """Sends one request and returns the response. A failure is in the result, and is not raised."""
    now, settings = context.clock.now(), context.settings
    content_type, body = body_of(hook.format, event_text)
    try:
        secrets = secrets_of(settings.webhook_keys, hook, now, deployment=settings.environment)
        headers = signed_headers(message_id, body, secrets, now)
    except HookKeyGone:
        return Answer(status=None, error=_KEY_GONE)
    sender = context.require_webhooks().sender
    return await sender.post(url, {**headers, "Content-Type": content_type}, body, tenant=hook.tenant)
