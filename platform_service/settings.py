"""Settings of the reference services, in addition to the settings of the service SDK."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lucius_service.settings import SettingsError, whole_number
from platform_service.packs.privileges import missing


@dataclass(frozen=True)
class ModelEndpoint:
    """An OpenAI-compatible endpoint that formulates the answers of SIS."""

    #: URL before `/chat/completions`, for example `http://127.0.0.1:11434/v1`
    base_url: str
    model: str
    #: API key, never logged; empty: no Authorization header
    api_key: str = field(default="", repr=False)


@dataclass(frozen=True)
class PackLimits:
    """Limits of one run of a pack."""

    #: maximum seconds of a run
    seconds: int
    #: maximum CPU seconds of all processes of a run together
    cpu_s: int
    #: maximum memory of each process, and of all processes together
    memory_mib: int
    #: maximum size of all files of a run together
    disk_mib: int
    #: maximum processes at the same time
    processes: int
    #: maximum size of an attempt's log, which is cut at this size
    log_mib: int


def read_pack_limits(environ: Mapping[str, str]) -> PackLimits:
    """Reads the limits of the runs of PACK. Raises SettingsError."""
    return PackLimits(
        seconds=whole_number(environ, "LUCIUS_PACK_SECONDS", 3600, 1, 86_399),
        cpu_s=whole_number(environ, "LUCIUS_PACK_CPU_SECONDS", 3600, 1, 2**20),
        memory_mib=whole_number(environ, "LUCIUS_PACK_MEMORY_MIB", 1024, 64, 2**20),
        disk_mib=whole_number(environ, "LUCIUS_PACK_DISK_MIB", 1024, 1, 2**20),
        processes=whole_number(environ, "LUCIUS_PACK_PROCESSES", 64, 1, 10_000),
        log_mib=whole_number(environ, "LUCIUS_PACK_LOG_MIB", 64, 1, 1024),
    )


def read_pack_python(environ: Mapping[str, str]) -> str:
    """Returns the Python that runs packs: `LUCIUS_PACK_PYTHON`, else the runner's own Python, else the system's Python.

    If each run has its own user, that user must be able to execute the Python. A Python in a private home folder is not
    possible then. Raises SettingsError if `LUCIUS_PACK_PYTHON` is not an executable file.
    """
    named = environ.get("LUCIUS_PACK_PYTHON", "").strip()
    if named and not os.access(named, os.X_OK):
        raise SettingsError(f"LUCIUS_PACK_PYTHON={named!r} must be a Python that the users of runs can execute")
    for python in [named] if named else [sys.executable, "/usr/local/bin/python3", "/usr/bin/python3"]:
        if os.access(python, os.X_OK) and (missing() or _anybody_executes(Path(python))):
            return python
    # none can be executed: each run reports it
    return named or sys.executable


def _anybody_executes(path: Path) -> bool:
    places = {place for each in (path, path.resolve()) for place in (each, *each.parents)}
    return all(place.stat().st_mode & stat.S_IXOTH for place in places)


def read_pack_folders(environ: Mapping[str, str]) -> list[Path]:
    """Reads the folders with further packs, separated by colons. Raises SettingsError if a folder does not exist."""
    folders = [Path(each) for each in environ.get("LUCIUS_PACKS_PATH", "").split(os.pathsep) if each.strip()]
    for folder in folders:
        if not folder.is_dir():
            raise SettingsError(
                f"LUCIUS_PACKS_PATH: {folder} is not a folder; create the folder, or correct the setting"
            )
    return folders


def read_ocr_threads(environ: Mapping[str, str]) -> int:
    """Reads the number of pages of a document that are recognised concurrently. Raises SettingsError."""
    return whole_number(environ, "LUCIUS_OCR_THREADS", 1, 1, 64)


def read_model(environ: Mapping[str, str]) -> ModelEndpoint | None:
    """Returns the endpoint that formulates the answers of SIS, or None if `LUCIUS_SIS_OPENAI_BASE_URL` is unset. SIS
    then quotes the text. Raises SettingsError.
    """
    base_url = environ.get("LUCIUS_SIS_OPENAI_BASE_URL", "").strip().rstrip("/")
    if not base_url:
        return None
    if not base_url.startswith(("http://", "https://")):
        raise SettingsError(f"LUCIUS_SIS_OPENAI_BASE_URL={base_url!r} must begin with http:// or https://")
    model = environ.get("LUCIUS_SIS_OPENAI_MODEL", "").strip()
    if not model:
        raise SettingsError(
            "LUCIUS_SIS_OPENAI_MODEL is not set; set it to the name of the model, or remove LUCIUS_SIS_OPENAI_BASE_URL"
        )
    return ModelEndpoint(base_url, model, environ.get("LUCIUS_SIS_OPENAI_API_KEY", "").strip())
