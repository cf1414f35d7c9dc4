"""Webhooks: the part of the synchronous client for URLs that receive events."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from lucius_client import webhook_calls
from lucius_client.calls import Call
from lucius_client.models import (
    DefaultSecret,
    Delivery,
    Hook,
    HookDetail,
    HookLogEntry,
    HookSecret,
    HookTest,
)
from lucius_client.retry import Retries
from lucius_client.series import Series
from lucius_client.webhook_calls import webhook_filter

T = TypeVar("T")


class Webhooks(ABC):
    """The methods of `lucius_client.client.Client` for webhooks."""

    _retries: Retries

    @abstractmethod
    def _call(self, call: Call[T]) -> T: ...

    @abstractmethod
    def _iterate(self, source: Series[T]) -> Iterator[T]: ...

    def create_webhook(
        self,
        url: str,
        *,
        format: str = "cloudevents",
        types: Iterable[str] | None = None,
        job_types: Iterable[str] | None = None,
        labels: Mapping[str, str] | None = None,
        description: str = "",
        after: int | None = None,
        tenant: str | None = None,
        key: str | None = None,
    ) -> HookSecret:
        """Creates a webhook for a tenant's events. The result has the secret that signs the events. `webhook` does not
        return the secret.

        `format` is `cloudevents`, `slack` or `teams`. An event must match `types` (such as `job.completed`),
        `job_types` and `labels`, if given. A webhook never gets events of webhooks.

        `after` is the `sequence` of the last event to skip. If `after` is None, the webhook gets only new events.

        Only callers of all tenants can name another `tenant`, here and in the other methods of webhooks. The same `key`
        with the same arguments returns the same webhook with its secret, until the webhook is changed, rotated or
        deleted. If `key` is None, the client sends a random key, for retries within this call.
        """
        lets_in = webhook_filter(types, job_types, labels)
        members = {"url": url, "format": format, "description": description, "filter": lets_in, "after": after}
        return self._call(webhook_calls.create(members, tenant, key))

    def webhooks(self, *, tenant: str | None = None) -> list[Hook]:
        """Lists the webhooks of a tenant except `default`, oldest first."""
        return self._call(webhook_calls.webhooks(tenant))

    def webhook(self, hook_id: str, *, tenant: str | None = None) -> HookDetail:
        """Returns a webhook and the state of its deliveries. The id `default` is the webhook of the callback URLs of
        jobs.
        """
        return self._call(webhook_calls.webhook(hook_id, tenant))

    def change_webhook(self, hook_id: str, changes: Mapping[str, Any], *, tenant: str | None = None) -> HookDetail:
        """Changes `url`, `format`, `filter`, `description` or `enabled`. Other fields keep their values.

        `filter` has `types`, `job_types` and `labels`, and replaces the whole filter. If `filter` is None, every
        event matches except events of webhooks.
        """
        return self._call(webhook_calls.change(hook_id, changes, tenant))

    def remove_webhook(self, hook_id: str, *, tenant: str | None = None) -> None:
        """Deletes a webhook and its waiting deliveries."""
        self._call(webhook_calls.remove(hook_id, tenant))

    def test_webhook(self, hook_id: str, *, tenant: str | None = None) -> HookTest:
        """Sends a test event now. Returns the endpoint's response, or the error if the endpoint does not respond."""
        return self._call(webhook_calls.test(hook_id, tenant))

    def rotate_webhook(self, hook_id: str, *, tenant: str | None = None) -> HookSecret:
        """Creates a new secret. The old secret also signs for a day.

        The client does not retry this request. After a lost response, rotate the secret again.
        """
        return self._call(webhook_calls.rotate(hook_id, tenant))

    def resume_webhook(self, hook_id: str, *, tenant: str | None = None) -> HookDetail:
        """Enables a suspended or disabled webhook, and sends its waiting deliveries now, oldest first."""
        return self._call(webhook_calls.resume(hook_id, tenant))

    def callback_secret(self, *, tenant: str | None = None) -> DefaultSecret:
        """Returns the secret that signs requests to the callback URLs of a tenant's jobs. For a day after a rotation,
        also returns the previous secret.
        """
        return self._call(webhook_calls.default_secret(tenant))

    def deliveries(
        self, hook_id: str, *, state: str | None = None, tenant: str | None = None, limit: int | None = None
    ) -> Iterator[Delivery]:
        """Lists the deliveries of a webhook. Waiting deliveries come first, by the oldest event. Ended deliveries
        follow, newest first.

        `state` is PENDING, DELIVERED or DEAD.
        """
        return self._iterate(webhook_calls.deliveries(hook_id, state, tenant, limit, self._retries))

    def redeliver(self, hook_id: str, number: int, *, name: str | None = None, tenant: str | None = None) -> Delivery:
        """Sends an event again now. The attempt waits while the webhook is disabled, suspended or waits for a probe.
        For a delivery to a callback URL, `name` is the name of the URL.
        """
        return self._call(webhook_calls.redeliver(hook_id, number, name, tenant))

    def webhook_log(self, hook_id: str, *, tenant: str | None = None) -> list[HookLogEntry]:
        """Lists the last 1,000 changes of a webhook, in order. For a deleted webhook, lists its first 1,000 changes."""
        return (self._call(webhook_calls.log(hook_id, tenant))).entries
