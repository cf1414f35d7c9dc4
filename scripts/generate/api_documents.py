"""The documents of the API as `make up` serves them, with the protocols of this checkout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from shared.adapters.protocol_files import load_registry
from shared.apidocs import asyncapi
from shared.apidocs.openapi import document
from triggers import graphql_http
from triggers.registered import ROUTES

ROOT = Path(__file__).resolve().parents[2]


def openapi() -> dict[str, Any]:
    registry = load_registry(ROOT / "protocols", ROOT / "infra" / "bicep" / "topology.json")
    return document(ROUTES, registry, ("https", "s3", "abfss", "http"), server="http://127.0.0.1:7071")


def files() -> dict[str, str]:
    """Returns the committed copies, by name."""
    documents = {"openapi.json": openapi(), "asyncapi.json": asyncapi.document(asyncapi.BusNames())}
    texts = {name: json.dumps(whole, indent=1, ensure_ascii=False) + "\n" for name, whole in documents.items()}
    return texts | {"schema.graphql": graphql_http.schema()}
