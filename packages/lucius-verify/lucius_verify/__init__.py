"""Verifies the histories of LUCIUS jobs without LUCIUS: `verify(path)` reads a bundle and returns a `Report`."""

from lucius_verify.report import Report, Verdict
from lucius_verify.verification import verify

__all__ = ["Report", "Verdict", "verify"]
