"""`lucius webhook listen`: posts a tenant's events to a program on this machine, signed as webhooks are."""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import secrets
import time
from typing import Annotated

import httpx
import typer

from lucius_client.cli import rendering
from lucius_client.cli.events import take
from lucius_client.cli.exits import UsageError
from lucius_client.cli.options import OneTenant
from lucius_client.cli.rendering import Json
from lucius_client.cli.session import WATCH_RETRIES, Session, with_session
from lucius_client.feed import Which

#: seconds between the tries of one event; after the last try, the next event follows
_AGAIN_S = (1.0, 5.0)
_TRY_S = 10.0
_PREFIX = "whsec_"


@with_session
def listen(
    session: Session,
    forward: Annotated[
        str, typer.Option(metavar="URL", help="URL that receives the events, such as http://127.0.0.1:3000/hooks.")
    ],
    type_: Annotated[
        str | None,
        typer.Option("--type", help="Only events of these types, separated by commas, such as job.completed."),
    ] = None,
    secret: Annotated[
        str | None,
        typer.Option(
            envvar="LUCIUS_WEBHOOK_SECRET",
            help="Secret that signs the events: `whsec_` and base64. Default: a new secret, printed on stderr.",
        ),
    ] = None,
    tenant: OneTenant = None,
) -> None:
    """Send new events to a local program, until interrupted.

    The command creates no webhook. The command tries to send each event up to 3
    times.
    """
    text = secret if secret is not None else f"{_PREFIX}{base64.b64encode(secrets.token_bytes(32)).decode()}"
    key, url = _key(text), _address(forward)
    if secret is None:
        rendering.write(f"secret: {text}", stderr=True)
    which: Which = {"after": "latest", "tenant_id": tenant, "types": type_.split(",") if type_ else None}
    # the user names the endpoint, for which a proxy of the environment is not intended
    with httpx.Client(timeout=_TRY_S, trust_env=False) as http:
        take(session.connect(WATCH_RETRIES), which, lambda event: _forward(http, url, key, event.plain()))


def _forward(http: httpx.Client, url: httpx.URL, key: bytes, event: Json) -> None:
    body = json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode()
    line = f"{event['time']}  {event['type']}  {event['subject']}"
    for wait_s in (*_AGAIN_S, None):
        answer = _posted(http, url, key, f"{event['id']}:listen", body)
        rendering.write(f"{line}  {answer}")
        if isinstance(answer, int) and 200 <= answer < 300:
            return
        if wait_s is not None:
            time.sleep(wait_s)


def _posted(http: httpx.Client, url: httpx.URL, key: bytes, message_id: str, body: bytes) -> int | str:
    """Posts an event. Returns the status, or the reason for a missing status."""
    try:
        headers = {"Content-Type": "application/cloudevents+json", **signed(message_id, body, key, time.time())}
        # only the status counts; the rest of the response may have no end
        with http.stream("POST", url, content=body, headers=headers) as answer:
            return answer.status_code
    except httpx.TransportError as error:
        return type(error).__name__


def signed(message_id: str, body: bytes, key: bytes, now: float) -> dict[str, str]:
    """Returns the headers that sign `body` by Standard Webhooks. `now` is the time of sending in Unix seconds."""
    timestamp = str(int(now))
    mac = hmac.digest(key, b".".join((message_id.encode(), timestamp.encode(), body)), "sha256")
    return {
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": f"v1,{base64.b64encode(mac).decode()}",
    }


def _address(forward: str) -> httpx.URL:
    """Checks the URL at the start, since the first event may be hours away. Raises UsageError."""
    try:
        url = httpx.URL(forward)
    except httpx.InvalidURL as error:
        raise UsageError(f"--forward {forward}: {error}; give a URL like http://127.0.0.1:3000/hooks") from error
    if url.scheme not in ("http", "https") or not url.host or (url.port or 1) > 65_535:
        raise UsageError(f"--forward {forward}: must be a URL like http://127.0.0.1:3000/hooks")
    return url


def _key(secret: str) -> bytes:
    """Decodes the secret. Raises UsageError without the secret in its message."""
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except binascii.Error:
        key = b""
    if not key:
        raise UsageError("--secret: must be `whsec_` followed by base64, as `lucius webhook secret` prints it")
    return key
