"""Copies the app's rules (`shared/core` and its imports) into the wheel, from the checkout in which the wheel is
built.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

SHARED = Path(__file__).resolve().parents[2] / "shared"
RULES = ("__init__.py", "errors.py", "refusals.py", "contracts", "core")


class BuildWithRules(build_py):
    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        if not SHARED.is_dir():
            raise SystemExit(f"folder not found: {SHARED}; build lucius-verify in a checkout of LUCIUS")
        carried = Path(self.build_lib) / "lucius_verify" / "carried" / "shared"
        for name in RULES:
            source, target = SHARED / name, carried / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
            else:
                shutil.copy(source, target)


setup(cmdclass={"build_py": BuildWithRules})
