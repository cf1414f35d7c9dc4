import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from playwright.sync_api import sync_playwright

from shared.contracts.envelope import Envelope
from shared.core.jobs.states import JobStatus
from shared.core.jobs.transitions import JOB_CREATION, JOB_TABLE
from shared.settings import SETTINGS
from tests import machine

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
    """The table has each name that `settings.py` reads, with its meaning."""

    read = set(re.findall(r'"(LUCIUS_[A-Z_]+)"', (ROOT / "shared" / "settings.py").read_text()))
    assert read - {setting.name for setting in SETTINGS} == set()


def test_the_picture_of_a_job_has_every_state_and_every_transition() -> None:
    """Also in words, for readers who cannot see it; a trigger that keeps the state has no arrow."""
    picture = ElementTree.parse(ROOT / "docs" / "images" / "job-life.svg").getroot()
    texts = [element.text or "" for element in picture.iter("{http://www.w3.org/2000/svg}text")]
    description = picture.findtext("{http://www.w3.org/2000/svg}desc") or ""
    assert set(JobStatus) <= set(texts)
    expected = {
        (state, trigger) for state, rows in JOB_TABLE.items() for trigger, row in rows.items() if row.to != state
    }
    drawn = [trigger for text in texts for trigger in text.split(", ")]
    for state, trigger in expected:
        assert re.search(rf"\b{state} to \w+: [^.]*\b{trigger}\b", description), (state, trigger)
    assert len(drawn) == len(JobStatus) + len(JOB_CREATION) + len(expected)


def test_the_guide_has_every_field_of_a_job_request() -> None:
    """And no other."""
    text = (ROOT / "docs" / "guides" / "submit-and-track.md").read_text(encoding="utf-8")
    table = text.partition("| field | type |")[2].partition("\n\n")[0]
    assert set(re.findall(r"(?m)^\| `(\w+)` \|", table)) == set(Envelope.model_fields)


@pytest.mark.needs("browser")
def test_mermaid_draws_every_diagram() -> None:
    """With the script of the site. MkDocs does not read diagrams, so `--strict` accepts a broken one."""
    script = ROOT / "node_modules" / "@mermaid-js" / "tiny" / "dist" / "mermaid.tiny.js"
    pages = ["README.md", *(str(page.relative_to(ROOT)) for page in sorted((ROOT / "docs").rglob("*.md")))]
    diagrams = {
        f"{name} {number}": diagram
        for name in pages
        for number, diagram in enumerate(
            re.findall(r"(?ms)^```mermaid\n(.*?)^```", (ROOT / name).read_text(encoding="utf-8"))
        )
    }
    assert len(diagrams) >= 4
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=machine.path_of("browser"), timeout=120_000)
        page = browser.new_page()
        page.add_script_tag(path=script)
        parse = "text => mermaid.parse(text).then(() => '', error => String(error))"
        broken = {name: error for name, text in diagrams.items() if (error := page.evaluate(parse, text))}
        browser.close()
    assert broken == {}


def test_every_path_that_leads_developers_exists() -> None:
    """Files and folders that these documents name."""
    pages = ("docs/explanation/architecture.md", "docs/contributing/where-to-look.md")
    for name in ("CONTRIBUTING.md", "SECURITY.md", *pages, "docs/contributing/compatible-changes.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        paths = re.findall(r"`((?:[a-z_.-]+/)+[\w.-]*|\w+\.(?:py|toml|json))`", text)
        assert [path for path in paths if "NAME" not in path and not (ROOT / path).exists()] == [], name


def test_each_file_of_the_root_has_a_reason() -> None:
    """CONTRIBUTING.md lists the files that git has there, and no others."""
    listed = subprocess.run(["git", "ls-files", ":(glob)*"], cwd=ROOT, capture_output=True, text=True, check=True)
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.partition("## Files in the repository root")[2].partition("\n## ")[0]
    named = [name for row in re.findall(r"(?m)^\| (`[^|]+) \|", table) for name in re.findall("`([^`]+)`", row)]
    assert sorted(named) == sorted(listed.stdout.split())
