"""Builds the adapters, with `shared.store_wiring`. Clients are created on the running loop, once per process."""

from __future__ import annotations

import asyncio
import random
import secrets
import time
import uuid
from collections.abc import Callable
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from azure.servicebus.aio import ServiceBusClient

from shared.access.caller import Caller
from shared.access.tenants import TenantRules
from shared.adapters.blob_runs import BlobRuns
from shared.adapters.blobs import CONTAINER, BlobTexts
from shared.adapters.callers import AnonymousCallers, JwtCallers
from shared.adapters.durable_orchestrations import DurableOrchestrations
from shared.adapters.jwt_keys import JwtKeys
from shared.adapters.protocol_files import load_registry, load_schemas, load_services
from shared.adapters.scoped.stores import (
    TenantAdmissions,
    TenantBulks,
    TenantFeed,
    TenantHeads,
    TenantHooks,
    TenantIncidents,
    TenantIndex,
    TenantLedger,
    TenantRejected,
    TenantRuns,
    TenantUsage,
)
from shared.adapters.servicebus.counts import ServiceBusCounts
from shared.adapters.servicebus.lanes import ServiceBusLanes
from shared.adapters.servicebus.links import bus_client
from shared.adapters.servicebus.publisher import ServiceBusPublisher
from shared.adapters.servicebus.receivers import ServiceBusDeadReplies
from shared.adapters.servicebus.reply_entities import ReplyEntities
from shared.adapters.servicebus.senders import (
    ServiceBusAdmissionCalls,
    ServiceBusDeliveries,
    ServiceBusEvents,
    ServiceBusHints,
)
from shared.core.jobs import durable_names
from shared.operations.events.feed_first import FeedFirst
from shared.operations.jobs.ending import follow_end
from shared.operations.process.context import Context, Stores
from shared.operations.process.hinting import Hinting
from shared.operations.process.known_feeds import KnownFeeds
from shared.operations.process.minute_buffer import MinuteBuffer
from shared.operations.process.parts import Audit, Bus, Events, Process, Webhooks
from shared.operations.process.readiness import Dependency, Readiness
from shared.operations.process.topic_relay import TopicRelay
from shared.operations.protocols.catalog import Catalog
from shared.operations.protocols.overrides import CatalogState
from shared.ports.durable import Orchestrations
from shared.ports.environment import Callers, Clock
from shared.ports.feed import EventTopic
from shared.ports.protocol_versions import ProtocolVersions
from shared.ports.runs import RunFiles
from shared.settings import Settings
from shared.store_wiring import EveryStore, blobs_of, credential_of, every_store, identity, kept_files
from shared.time_limits import PROBE

if TYPE_CHECKING:
    from shared.adapters.app_configuration import AppConfigurationStore


class SystemClock:
    """The time of the machine, in UTC."""

    def now(self) -> datetime:
        return datetime.now(UTC)


class Wiring:
    """The context of the app, built once, when a function first needs it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        #: loaded early, so that an invalid protocol file stops the start
        self._packaged = CatalogState(load_registry(settings.protocols_path, settings.topology_path))
        self._context: Context | None = None
        self._catalog: Catalog | None = None
        self._protocol_versions: ProtocolVersions | None = None
        self._blob_probe: BlobTexts | None = None
        self._callers = _callers(settings)
        self.reply_entities = ReplyEntities(
            settings.reply_prefix,
            settings.reply_subscription,
            settings.reply_queue,
            are_shared=settings.replies == "shared",
        )
        #: state of the dependencies as this process sees them
        self.readiness = Readiness(SystemClock())

    def context(self) -> Context:
        """Returns the context of the process. Must be called on the loop of the functions."""
        if self._context is None:
            asyncio.get_running_loop()
            self._context = self._build()
        return self._context

    def catalog(self) -> Catalog:
        """Returns the protocols and modes of this process. Must be called on the loop of the functions."""
        if self._catalog is None:
            settings = self.settings
            self._catalog = Catalog(
                _configuration_store(settings),
                self._packaged,
                schemas=load_schemas(settings.protocols_path),
                services=load_services(settings.topology_path),
                clock=SystemClock(),
                refresh_s=settings.appconfig_refresh_s,
                versions=self.protocol_versions(),
            )
        return self._catalog

    def protocol_versions(self) -> ProtocolVersions:
        """Returns the store of protocol versions. Must be called on the loop of the functions."""
        self.context()
        assert self._protocol_versions is not None
        return self._protocol_versions

    async def fresh_context(self) -> Context:
        """Returns the context with the current protocols, modes and allowed hosts. `context` returns only the packaged
        protocols.
        """
        catalog = self.catalog()
        configured = await catalog.refresh()
        return replace(
            self.context(),
            registry=configured.registry,
            modes=configured.modes,
            ref_hosts=configured.ref_hosts if catalog.is_known else None,
        )

    def orchestrations(self, client: Any) -> Orchestrations:
        """Wraps the durable client that the host binds to an invocation."""
        return DurableOrchestrations(client, durable_names.JOB)

    def callers(self) -> Callers:
        """Returns the port that identifies the caller of a request."""
        return self._callers

    def blob_probe(self) -> BlobTexts | None:
        """Returns the probe of the blobs, or None if no blobs are used. Must be called on the loop of the functions."""
        settings = self.settings
        if self._blob_probe is None and settings.storage_backend != "memory":
            self._blob_probe = blobs_of(settings, CONTAINER, PROBE)
        return self._blob_probe

    async def look(self, orchestrations: Orchestrations) -> list[Dependency]:
        """Returns the state of each dependency, at most two seconds old. Raises no error of a dependency."""
        probe = self.blob_probe()
        blob = probe.check if probe is not None else None
        return await self.readiness.look(self.context(), orchestrations, marks=self.context().sweep_marks, blob=blob)

    def _build(self) -> Context:
        settings = self.settings
        stores = every_store(settings, SystemClock().now)
        self._protocol_versions = stores.protocol_versions
        publisher = ServiceBusPublisher.connect(
            connection=settings.servicebus_connection,
            namespace=settings.servicebus_namespace,
            credential=credential_of(settings.servicebus_connection),
        )
        lanes = ServiceBusLanes(publisher.client, self.reply_entities, SystemClock())
        dead_replies = ServiceBusDeadReplies(publisher.client, self.reply_entities)
        counts = ServiceBusCounts(
            connection=settings.servicebus_connection,
            namespace=settings.servicebus_namespace,
            credential=credential_of(settings.servicebus_connection),
            url=settings.servicebus_admin_url,
        )
        clock = SystemClock()
        return Context(
            settings=settings,
            registry=self._packaged.registry,
            **{each.name: getattr(stores, each.name) for each in fields(Stores)},
            process=Process(minute_buffer=MinuteBuffer(asyncio.sleep)),
            bus=Bus(
                publisher=publisher,
                lanes=lanes,
                admission_calls=ServiceBusAdmissionCalls(publisher.client),
                dead_replies=dead_replies,
                counts=counts,
            ),
            events=_events(settings, stores, publisher.client, clock, self.context),
            exports=stores.exports,
            webhooks=_webhooks(settings, publisher.client),
            runs=_runs(settings, clock),
            audit=_audit(settings, stores),
            follow_end=follow_end,
            clock=clock,
            sleep=asyncio.sleep,
            random=random.random,
            new_job_id=lambda: f"job_{uuid.uuid4().hex}",
            new_lease=lambda: secrets.token_hex(16),
            new_salt=lambda: secrets.token_hex(16),
        )


def seen_by(caller: Caller, context: Context, *, moving: bool) -> Context:
    """Returns the context that has only the jobs which the caller can see or, with `moving`, can change (R24)."""
    if caller.sees_all and caller.moves_all:
        return context
    return replace(
        context,
        unscoped=context.of_all_tenants,
        ledger=TenantLedger(context.ledger, caller, moving=moving),
        index=TenantIndex(context.index, caller, moving=moving),
        admissions=TenantAdmissions(context.admissions, caller, moving=moving),
        usage=TenantUsage(context.usage, caller, moving=moving),
        bulks=TenantBulks(context.bulks, caller, moving=moving),
        incidents=TenantIncidents(context.incidents, caller, moving=moving),
        rejected=TenantRejected(context.rejected, caller, moving=moving),
        events=replace(
            context.events,
            feed=TenantFeed(context.events.feed, caller),
            hooks=TenantHooks(context.events.hooks, caller, moving=moving),
        )
        if context.events is not None
        else None,
        runs=TenantRuns(context.runs, caller) if context.runs is not None else None,
        audit=replace(context.audit, heads=TenantHeads(context.audit.heads, caller, moving=moving))
        if context.audit is not None
        else None,
    )


def _events(
    settings: Settings, stores: EveryStore, bus: ServiceBusClient, clock: Clock, context: Callable[[], Context]
) -> Events | None:
    """Returns the feeds. `context` returns the context of all tenants, after that context is created."""
    if settings.events == "off":
        return None
    known_feeds = KnownFeeds()
    topic = _events_topic(settings, bus) if settings.events == "topic" else None
    # several processes that send to the topic would repeat each other's events
    write_feeds = FeedFirst(context).write if topic is None else None
    return Events(
        feed=stores.feed,
        hooks=stores.hooks,
        hinting=Hinting(ServiceBusHints(bus), clock, has_heads=settings.audit_key is not None, write_feeds=write_feeds),
        known_feeds=known_feeds,
        relay=TopicRelay(topic, stores.feed, known_feeds, clock) if topic is not None else None,
    )


def _events_topic(settings: Settings, bus: ServiceBusClient) -> EventTopic:
    if settings.events_connection is None and settings.events_namespace is None:
        return ServiceBusEvents(bus)
    client = bus_client(
        connection=settings.events_connection,
        namespace=settings.events_namespace,
        credential=credential_of(settings.events_connection),
    )
    return ServiceBusEvents(client)


def _callers(settings: Settings) -> Callers:
    if settings.auth_mode == "none":
        return AnonymousCallers()
    return JwtCallers(
        JwtKeys(settings.auth_jwks_url, time.monotonic),
        issuer=settings.auth_issuer,
        audiences=settings.auth_audiences,
        tenants=TenantRules(claim=settings.auth_tenant_claim, mapped=settings.auth_tenants),
        all_tenants_role=settings.auth_all_tenants_role,
        source_claim=settings.auth_source_claim,
    )


def _configuration_store(settings: Settings) -> AppConfigurationStore | None:
    if settings.appconfig_connection is None and settings.appconfig_endpoint is None:
        return None
    # imported late: only apps with a configuration store need it
    from shared.adapters.app_configuration import AppConfigurationStore

    return AppConfigurationStore.connect(
        connection=settings.appconfig_connection,
        endpoint=settings.appconfig_endpoint,
        credential=credential_of(settings.appconfig_connection),
    )


def _webhooks(settings: Settings, bus: ServiceBusClient) -> Webhooks | None:
    if not settings.sends_webhooks:
        return None
    # imported late: only apps with webhooks need it
    from shared.adapters.webhook_http import HttpWebhookSender

    return Webhooks(sender=HttpWebhookSender(settings.webhook_hosts), deliveries=ServiceBusDeliveries(bus))


def _runs(settings: Settings, clock: Clock) -> RunFiles | None:
    """Returns the store of runs, which is in the workspace's account."""
    if settings.storage_backend == "memory":
        return None
    return BlobRuns.connect(
        connection=settings.blob_connection,
        endpoint=settings.workspace_uri.rpartition("/")[0],
        credential=credential_of(settings.blob_connection),
        now=clock.now,
    )


def _audit(settings: Settings, stores: EveryStore) -> Audit | None:
    if settings.events == "off" or settings.audit_key is None:
        return None
    # imported late: it takes a tenth of a second, and only signing needs it
    from shared.adapters.signing import signer_of

    signer, kept = signer_of(settings.audit_key, identity), kept_files(settings)
    return Audit(heads=stores.heads, signer=signer, kept=kept)
