"""A page of the dashboard in a browser, signed in with a token of the stack's issuer."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Browser, Page

from tests.api.live import Live

#: maximum on a busy machine
DEADLINE_MS = 120_000
#: the console names each response that is no success; a test that provokes one expects it
_REFUSED = "Failed to load resource"
_GO = """path => {
    for (const each of document.querySelectorAll("dialog[open]")) each.close();
    document.activeElement?.blur();
    location.hash = `#/${path}`;
}"""


def short(job_id: str) -> str:
    """Return an id as the dashboard shows it."""
    return job_id[:12]


def act(page: Page, button: str, confirm: str, reason: str = "a test") -> None:
    page.get_by_role("button", name=button, exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill(reason)
    dialog.get_by_role("button", name=confirm).click()
    dialog.wait_for(state="detached")


class Screens:
    """Opens pages, and collects errors of the browser."""

    def __init__(self, browser: Browser, api: Live) -> None:
        self._browser = browser
        # one context, so that only the first page loads the files
        self._shared = browser.contexts[0] if browser.contexts else browser.new_context()
        self._api = api
        #: signed in, shown to one test after the other
        self._operators: Page | None = None
        self._pages: list[Page] = []
        self.complaints: list[str] = []

    def open(
        self, path: str = "jobs", *, token: str | None = None, fresh: bool = False, width: int = 1280, **context: Any
    ) -> Page:
        """The page at `#/path`. `token`: default one of an operator of all tenants; "": no sign-in.

        Without a token or a context, the page may be that of an earlier test. `fresh`: for a test that replaces
        responses or loads the page again.
        """
        reusable = token is None and not fresh and not context
        if reusable and self._operators is not None:
            self._operators.set_viewport_size({"width": width, "height": 800})
            self._operators.evaluate(_GO, path)
            return self._operators
        page = (
            self._browser.new_page(viewport={"width": width, "height": 800}, **context)
            if context
            else self._shared.new_page()
        )
        page.set_viewport_size({"width": width, "height": 800})
        page.set_default_timeout(DEADLINE_MS)
        page.on("console", lambda line: self._hear(line.text) if line.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        if reusable:
            self._operators = page
        else:
            self._pages.append(page)
        page.goto(f"{self._api.stack.api}/v1/dashboard#/{path}")
        if token != "":
            page.get_by_label("Access token").fill(token or self._api.token(roles="orch:all-tenants"))
            page.get_by_role("button", name="Use this token").click()
            page.get_by_role("heading", level=1).filter(has_not_text="Sign in").wait_for()
        return page

    def _hear(self, text: str) -> None:
        if not text.startswith(_REFUSED):
            self.complaints.append(text)

    def end_test(self) -> None:
        """Closes the pages of the test. A complaint fails it."""
        while self._pages:
            self._pages.pop().close()
        complaints, self.complaints = self.complaints, []
        assert complaints == []
