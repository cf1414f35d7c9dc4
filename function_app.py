"""Builds the Azure Functions app, and registers its blueprints."""

from __future__ import annotations

import gc
import logging
import os

import azure.durable_functions as df
import azure.functions as func

from activities import steps
from orchestrations import job
from shared import settings, telemetry
from shared.build import VERSION
from shared.telemetry import exporting
from shared.wiring import Wiring
from triggers import admission_bus, hints_bus, prune_timer, registered, replies_bus, sweeper_timer, webhooks_bus


def build() -> df.DFApp:
    """Builds the whole app from the environment.

    Raises SettingsError or ProtocolError with the invalid setting or file.
    """
    # the SDKs log every request and every state of a link as INFO, which Azure stores and bills as the app's own
    # records
    logging.getLogger("azure").setLevel(logging.WARNING)
    wiring = Wiring(settings.load())
    exporting.configure(os.environ, version=VERSION, trace_ratio=wiring.settings.trace_ratio)
    if wiring.settings.auth_mode == "none":
        telemetry.warn("AUTH_NONE")
    if wiring.settings.not_read:
        telemetry.warn("SETTINGS_NOT_READ", replaced_by=dict(wiring.settings.not_read))
    built = df.DFApp(http_auth_level=func.AuthLevel.ANONYMOUS)
    built.register_functions(job.bp)
    for module in (steps, replies_bus, admission_bus, hints_bus, webhooks_bus, sweeper_timer, prune_timer):
        built.register_functions(module.blueprint(wiring))
    for blueprint in registered.blueprints(wiring):
        built.register_functions(blueprint)
    return built


app = build()
# Modules, settings and protocols live as long as the process: no garbage collection visits them again. By the default
# thresholds a collection runs after 700 new objects, which a few requests create, most of them without cycles.
gc.collect()
gc.freeze()
gc.set_threshold(20_000, 50, 50)
