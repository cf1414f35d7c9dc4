"""The page at /emulator."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from tests.functions_emulator.host.process import Host, eventually

_VOID = {"meta", "input", "br", "link"}
_OPTIONAL_END = {"th", "td", "tr", "li", "p"}


class Balanced(HTMLParser):
    """Fails on an end tag without its start tag."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open[-1] != tag and self.open[-1] in _OPTIONAL_END:
            self.open.pop()
        assert self.open, f"</{tag}> without its beginning"
        assert self.open.pop() == tag


def page(host: Host, path: str) -> str:
    response = host.get(path)
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/html")
    Balanced().feed(response.text)
    return response.text


def test_functions_and_orchestrations_are_listed(host: Host) -> None:
    """The overview shows every function, and instances by status with their waits."""
    host.start("approval", 600, "listed-waits")
    host.wait_for(host.start("chain", "x", "listed-done"))
    host.wait_for("listed-waits", "Running")
    text = page(host, "/emulator?prefix=listed-")
    assert "echo/{word}/{number:int?}" in text
    assert "listed-done" in text
    assert "event approve, timer 0" in text
    only = page(host, "/emulator?status=Running&prefix=listed-")
    assert "listed-waits" in only
    assert "listed-done" not in only


def test_an_instance_can_be_controlled(host: Host) -> None:
    """Suspend, resume and raise an event by the forms of the page, which then shows the history."""
    instance_id = host.start("approval", 600, "listed-controlled")
    host.wait_for(instance_id, "Running")
    path = f"/emulator/instances/{instance_id}"
    for operation, status in (("suspend", "Suspended"), ("resume", "Running")):
        assert f'action="{path}/{operation}"' in page(host, path)
        assert host.post(f"{path}/{operation}").status_code == 303
        host.wait_for(instance_id, status)
    assert host.post(f"{path}/raise", data={"name": "approve", "data": "{"}).status_code == 400
    assert host.post(f"{path}/raise", data={"name": "approve", "data": '{"ok": 1}'}).status_code == 303
    eventually(lambda: "ExecutionCompleted" in page(host, path))
    kinds = re.findall(r"</span> (\w+)<?", page(host, path).split("History")[1])
    assert kinds[0] == "ExecutionStarted"
    assert "EventRaised" in kinds


def test_texts_are_escaped(host: Host) -> None:
    """Inputs and names of users cannot become markup."""
    instance_id = host.start("approval", "<script>alert(1)</script>")
    host.wait_for(instance_id)
    assert "<script>" not in page(host, f"/emulator/instances/{instance_id}")


def test_an_unknown_instance_is_404(host: Host) -> None:
    """Its page is not there either."""
    assert host.get("/emulator/instances/nobody").status_code == 404
