"""Every HTTP trigger of the app, and what each declares."""

from __future__ import annotations

import azure.durable_functions as df

from shared.wiring import Wiring
from triggers import (
    callbacks_http,
    controls_http,
    dead_letters_http,
    documents_http,
    health_http,
    history_http,
    jobs_http,
    options_http,
    orchestrate_http,
    protocols_http,
    receipts_http,
    reconcile_http,
    redrive_http,
    rejected_http,
)
from triggers.http.routes import Route

_MODULES = (
    orchestrate_http,
    jobs_http,
    history_http,
    receipts_http,
    controls_http,
    redrive_http,
    dead_letters_http,
    protocols_http,
    rejected_http,
    reconcile_http,
    callbacks_http,
    health_http,
    documents_http,
)

#: what is served, in the order of the documentation
ROUTES: tuple[Route, ...] = tuple(route for module in _MODULES for route in module.ROUTES)


def blueprints(wiring: Wiring) -> list[df.Blueprint]:
    """One a noun, over the app's own wiring."""
    return [*(module.blueprint(wiring) for module in _MODULES), options_http.blueprint(ROUTES)]
