"""The settings of the reference services beyond those of the kit."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lucius_service.settings import SettingsError
from platform_service.settings import read_model
from tests.lucius_service.service_process import ROOT


def test_a_model_endpoint_is_read_and_hides_its_key() -> None:
    """The base URL has no slash at its end, and the API key is not in the log."""
    endpoint = read_model(
        {
            "LUCIUS_SIS_OPENAI_BASE_URL": "http://m/v1/",
            "LUCIUS_SIS_OPENAI_MODEL": "m",
            "LUCIUS_SIS_OPENAI_API_KEY": "k3y",
        }
    )
    assert endpoint is not None
    assert (endpoint.base_url, endpoint.api_key) == ("http://m/v1", "k3y")
    assert "k3y" not in repr(endpoint)


def test_a_wrong_model_endpoint_is_named() -> None:
    """A setting that only SIS reads is checked when SIS reads it."""
    with pytest.raises(SettingsError, match="LUCIUS_SIS_OPENAI_BASE_URL"):
        read_model({"LUCIUS_SIS_OPENAI_BASE_URL": "ftp://m"})


def test_the_services_import_nothing_of_the_control_plane() -> None:
    """They need the kit and their own libraries only."""
    script = (
        "import pkgutil, importlib, sys, platform_service\n"
        "for m in pkgutil.walk_packages(platform_service.__path__, 'platform_service.'):\n"
        "    m.name.endswith('__main__') or importlib.import_module(m.name)\n"
        "print([n for n in sys.modules if n.split('.')[0] in ('shared', 'triggers', 'emulator', 'lucius_client',"
        " 'servicebus_emulator', 'functions_emulator')])"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
