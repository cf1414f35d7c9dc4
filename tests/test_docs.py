import re
import subprocess
import sys
from pathlib import Path

from shared.settings import SETTINGS

ROOT = Path(__file__).resolve().parent.parent


def test_generated_parts_of_the_docs_are_up_to_date() -> None:
    """Diagrams, rules and settings in the docs match the code."""
    check = subprocess.run(
        [sys.executable, "-m", "scripts.generate", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert check.returncode == 0, check.stderr


def test_every_setting_that_is_read_is_in_the_table() -> None:
    """A name that `settings.py` reads stands in the table with its meaning."""

    read = set(re.findall(r'"(LUCIUS_[A-Z_]+)"', (ROOT / "shared" / "settings.py").read_text()))
    assert read - {setting.name for setting in SETTINGS} == set()
