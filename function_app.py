"""The Azure Functions app: builds it and registers the blueprints, nothing else."""

from __future__ import annotations

import azure.durable_functions as df
import azure.functions as func

from activities import steps
from orchestrations import job
from shared import settings
from shared.wiring import Wiring
from triggers import (
    callbacks_http,
    controls_http,
    dead_letters_http,
    health_http,
    history_http,
    jobs_http,
    orchestrate_http,
    protocols_http,
    redrive_http,
    rejected_http,
    replies_bus,
    sweeper,
)


def build() -> df.DFApp:
    """The whole app, as the environment configures it. Raises SettingsError or ProtocolError, naming what is wrong."""
    wiring = Wiring(settings.load())
    built = df.DFApp(http_auth_level=func.AuthLevel.ANONYMOUS)
    built.register_functions(job.bp)
    for blueprint in (
        steps,
        orchestrate_http,
        jobs_http,
        history_http,
        controls_http,
        dead_letters_http,
        protocols_http,
        redrive_http,
        rejected_http,
        replies_bus,
        callbacks_http,
        sweeper,
        health_http,
    ):
        built.register_functions(blueprint.blueprint(wiring))
    return built


app = build()
