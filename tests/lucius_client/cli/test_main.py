"""`lucius` as a whole: completion, help, health, protocols, error messages and exit codes."""

from __future__ import annotations

import json
import shutil
import subprocess

import httpx
import pytest

from emulator.up.ports import find_free
from tests.lucius_client.cli.command import INVOICE, run_main, run_on, run_program, stdout_of
from tests.running_stack import RunningStack


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_names_the_program(shell: str) -> None:
    """Each shell has a script, and bash can parse its own."""
    script = run_main("completion", shell)
    assert script.returncode == 0
    assert "lucius" in script.stdout
    if shell == "bash":
        assert shutil.which("bash")
        subprocess.run(["bash", "-n"], input=script.stdout, text=True, check=True)


def test_commands_are_completed() -> None:
    """The program completes a word when bash calls it for that."""
    completed = run_program(_LUCIUS_COMPLETE="complete_bash", COMP_WORDS="lucius job e", COMP_CWORD="2")
    assert completed.stdout.split() == ["events", "explain"]


def test_help_has_a_short_form() -> None:
    """Every command accepts -h."""
    for words in ((), ("job",), ("job", "show"), ("submit",)):
        completed = run_main(*words, "-h")
        assert completed.returncode == 0
        assert "Usage: lucius" in completed.stdout


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("job", "shw"), "no such command 'shw'; did you mean 'show'? (see lucius job --help)"),
        (("event", "add"), "no such command 'add'; commands: list (see lucius event --help)"),
        (("job", "show"), "missing argument 'ID' (see lucius job show --help)"),
        (("health", "--zzz"), "no such option: --zzz (see lucius health --help)"),
    ],
)
def test_wrong_usage_is_one_line(words: tuple[str, ...], line: str) -> None:
    """As every other error, with the help that has the right words; exit code 2."""
    completed = run_main(*words)
    assert (completed.returncode, completed.stdout, completed.stderr) == (2, "", f"lucius: {line}\n")


def test_protocols_are_listed(stack: RunningStack) -> None:
    """`lucius protocols` lists request types and steps."""
    assert "OCR_EMBEDDING_SIS" in stdout_of(stack, "protocols", "-o", "ids").split()
    assert "ocr > embedding > sis" in stdout_of(stack, "protocols")


def test_health_protocols_and_rejected_messages(stack: RunningStack) -> None:
    """health names each dependency, protocol show prints one protocol, rejected list prints the ids of the API."""
    readiness = json.loads(stdout_of(stack, "health", "--json"))
    assert readiness["status"] == "ready"
    table = stdout_of(stack, "health")
    assert all(name in table for name in readiness["dependencies"])
    assert json.loads(stdout_of(stack, "protocol", "show", "OCR"))["request_type"] == "OCR"
    rejected = httpx.get(f"{stack.api}/v1/rejected").json()["rejected"]
    ids = stdout_of(stack, "rejected", "list", "-o", "ids").split()
    assert {each["id"] for each in rejected} <= set(ids)
    assert run_on(stack, "rejected", "redrive", "nobody").returncode == 3


@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        (("job", "show", "nobody"), 3, "lucius: job not found: nobody; check the id and the tenant (JOB_NOT_FOUND)\n"),
        (("job", "show", ""), 2, "lucius: '' is not an id or a name"),
        (("protocol", "show", ".."), 2, "lucius: '..' is not an id or a name"),
        (("submit", INVOICE, "-p", "NOPE"), 3, "lucius: unknown protocol NOPE; known: "),
        (
            ("submit", INVOICE, "-p", "OCR", "--payload", '{"dpi": 1}', "--again"),
            3,
            "lucius: a value of the job request is missing or not allowed",
        ),
        (("submit", "nowhere.pdf", "-p", "OCR"), 2, "lucius: no such file: nowhere.pdf"),
        (("submit", INVOICE, "-p", "OCR", "--ask", "Who?"), 2, "lucius: --ask needs a protocol with a SIS step"),
        (("jobs", "--api", "ftp://127.0.0.1"), 2, "lucius: --api ftp://127.0.0.1: "),
    ],
)
def test_errors_are_lines_and_codes(stack: RunningStack, words: tuple[str, ...], code: int, line: str) -> None:
    """Every error is a line on stderr and an exit code of its kind, with nothing on stdout."""
    failed = run_on(stack, *words)
    assert (failed.returncode, failed.stdout) == (code, "")
    assert failed.stderr.startswith(line)
    assert "Traceback" not in failed.stderr


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("submit",), "lucius: name either documents to submit, or a file of job requests with --ndjson FILE"),
        (("submit", INVOICE), "lucius: --protocol must name a protocol; see `lucius protocol list`"),
        (("submit", INVOICE, "-p", "OCR", "--label", "red"), "lucius: --label red: must be KEY:VALUE"),
        (("jobs", "--since", "yesterday"), "lucius: --since yesterday: must be a timestamp like "),
        (("rejected", "list", "--date", "today"), "lucius: --date today: must be a day like "),
        (("audit", "verify", "nowhere.json"), "lucius: cannot read nowhere.json"),
    ],
)
def test_wrong_usage_is_a_line_and_exit_code_2(stack: RunningStack, words: tuple[str, ...], line: str) -> None:
    """Wrong options are refused before any request."""
    failed = run_on(stack, *words)
    assert (failed.returncode, failed.stdout) == (2, "")
    assert failed.stderr.startswith(line)


def test_no_api_is_exit_code_4() -> None:
    """Without an API the line has the URL."""
    port = find_free()
    failed = run_program("jobs", "--api", f"http://127.0.0.1:{port}")
    assert failed.returncode == 4
    assert failed.stderr.startswith(f"lucius: no API responds at http://127.0.0.1:{port} ")
