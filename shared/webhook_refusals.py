"""Errors of requests about webhooks and their deliveries, like those of `shared.refusals`."""

from __future__ import annotations

from shared.refusals import Refused


class HookUrlRefused(Refused):
    """The URL of a webhook, or of `callback_urls`, is not allowed. See `errors`."""

    def __init__(self, why: str, path: str = "url") -> None:
        """Sets the reason. The reason must not repeat the URL, which can contain a secret."""
        super().__init__(f"URL not allowed: {path}; see errors")
        self.why = why
        self.errors = ((path, why),)


class HookKeyGone(Refused, status=409):
    """The signing key of this webhook is no longer configured. Rotate the secret."""

    def __init__(self, hook_id: str) -> None:
        super().__init__(
            f"the signing key of webhook {hook_id} is no longer configured; rotate the secret of the webhook"
        )


class WebhooksOff(Refused, status=404):
    """Webhooks are disabled: `LUCIUS_WEBHOOK_KEYS` is empty, or `LUCIUS_EVENTS` is `off`. An operator must set
    the keys, and `LUCIUS_EVENTS=feed` or `topic`.
    """

    text = (
        "webhooks are disabled in this deployment: LUCIUS_WEBHOOK_KEYS is empty, or LUCIUS_EVENTS=off; an operator "
        "must set the keys, and LUCIUS_EVENTS=feed or topic"
    )


class HookNotFound(Refused, status=404):
    """Webhook not found, or the webhook belongs to another tenant. Check the id and the tenant."""

    def __init__(self, hook_id: str) -> None:
        super().__init__(f"webhook not found: {hook_id[:128]}; check the id and the tenant")


class DeliveryNotFound(Refused, status=404):
    """Delivery not found, or the event of the delivery has expired. List the deliveries of the webhook."""

    def __init__(self, hook_id: str, number: int) -> None:
        super().__init__(
            f"delivery not found, or its event has expired: {number} of webhook {hook_id[:128]}; list the "
            "deliveries of the webhook"
        )


class HookLimit(Refused, status=409):
    """The tenant has 20 webhooks, the maximum. Delete a webhook first."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the tenant has {limit} webhooks, the maximum; delete a webhook first")


class HookKeyConflict(Refused, status=409, code="IDEMPOTENCY_CONFLICT"):
    """The idempotency key was used for a webhook with another body, or before a caller changed, rotated or deleted the
    webhook. Use a new key.
    """

    def __init__(self, hook_id: str) -> None:
        super().__init__(
            f"Idempotency-Key already used for webhook {hook_id}, with another body or before the webhook was changed, "
            "rotated or deleted; use a new key"
        )


class DefaultHook(Refused, status=409):
    """The webhook `default` has no URL, so a caller cannot change, delete, test or resume this
    webhook. Create another webhook.
    """

    text = "cannot change, delete, test or resume the webhook `default`, which has no URL; create another webhook"
