"""The tokens of `lucius login`, by API, in one file that only its owner can read.

The functions raise UsageError if the file cannot be read or written.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import typer

from lucius_client.cli.exits import UsageError

#: seconds before its expiry at which a token is no longer used
_EXPIRY_MARGIN_S = 5.0


def path() -> Path:
    """Returns the path of `tokens.json` in `LUCIUS_CONFIG_DIR`, else in the platform's folder for settings."""
    folder = os.environ.get("LUCIUS_CONFIG_DIR")
    return (Path(folder) if folder else Path(typer.get_app_dir("lucius"))) / "tokens.json"


def access_token(api: str) -> str | None:
    """Returns the token for this API, or None if the API has no login. Raises UsageError if the token has expired."""
    entry = _read().get(_key(api))
    if entry is None:
        return None
    if entry["expires_at"] <= time.time() + _EXPIRY_MARGIN_S:
        raise UsageError(
            f"the token for {_key(api)} has expired; run `lucius login --as {entry['tenant']}`, "
            "or, if the API requires no tokens, run `lucius logout`"
        )
    return str(entry["access_token"])


def tenant(api: str) -> str | None:
    """Returns the tenant of the token for this API, or None if the API has no login."""
    entry = _read().get(_key(api))
    return str(entry["tenant"]) if entry is not None else None


def store(api: str, *, tenant: str, scope: str, access_token: str, expires_in_s: float) -> None:
    """Stores a token for this API, in place of an earlier token."""
    expires_at = time.time() + expires_in_s
    entry = {"tenant": tenant, "scope": scope, "access_token": access_token, "expires_at": expires_at}
    _write({**_read(), _key(api): entry})


def forget(api: str) -> bool:
    """Deletes the token for this API. Returns `True` if there was a token."""
    tokens = _read()
    if tokens.pop(_key(api), None) is None:
        return False
    _write(tokens)
    return True


def _key(api: str) -> str:
    return api.rstrip("/")


def _is_entry(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and {"tenant", "access_token"} <= entry.keys()
        and isinstance(entry.get("expires_at"), int | float)
    )


def _read() -> dict[str, Any]:
    try:
        tokens: dict[str, Any] = json.loads(path().read_text(encoding="utf-8"))
        if not isinstance(tokens, dict) or not all(map(_is_entry, tokens.values())):
            raise ValueError("the content is not an object with an entry for each API")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {path()}: {error}; remove the file, and run `lucius login`") from error
    return tokens


def _write(tokens: dict[str, Any]) -> None:
    """Replaces the file in one step. Other users can never read it, not even during the write."""
    file = path()
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = file.with_name(f"{file.name}.{os.getpid()}")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as out:
            json.dump(tokens, out, indent=2)
        fresh.replace(file)
    except OSError as error:
        raise UsageError(
            f"cannot write {file}: {error.strerror}; name another folder with LUCIUS_CONFIG_DIR"
        ) from error
