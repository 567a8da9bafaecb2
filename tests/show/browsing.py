"""Pages in a headless Chromium, and all that goes wrong in them."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

__all__ = ["Tab", "chromium", "opened"]

FLAGS = [
    "--no-sandbox",  # as root it has none
    # The browser looks for its own updates. Nothing may leave this machine.
    "--no-proxy-server",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
]

WATCH = """
globalThis.violations = [];
addEventListener("securitypolicyviolation", (event) =>
  violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
globalThis.alerted = 0;
globalThis.alert = () => { globalThis.alerted += 1; };
"""


@contextlib.contextmanager
def chromium() -> Iterator[Any]:
    """The browser; skips the test where there is none, or no Playwright."""
    api = pytest.importorskip("playwright.sync_api")
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("there is no chromium")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Tab:
    """A page that is open. ``said`` is what its console told of warnings and errors, ``asked`` all
    that it asked any server for."""

    page: Any
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    @property
    def wrong(self) -> list[str]:
        """All that should not be: errors, refused content, alerts, pages that are too wide."""
        page = self.page
        found = [*self.said, *page.evaluate("violations")]
        if page.evaluate("alerted"):
            found.append("something ran that is text")
        over = page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        return [*found, *([f"{over} pixels too wide"] if over > 0 else [])]

    def scroll_through(self) -> None:
        """So that all is drawn."""
        last = -1
        for top in range(0, 20_000, 600):
            height = self.page.evaluate(f"scrollTo({{top: {top}, behavior: 'instant'}}), scrollY")
            self.page.wait_for_timeout(60)
            if height == last:
                break
            last = height
        self.page.evaluate("scrollTo({top: 0, behavior: 'instant'})")


@contextlib.contextmanager
def opened(
    browser: Any, url: str, *, width: int = 1200, dark: bool = False, scripts: bool = True
) -> Iterator[Tab]:
    scheme = "dark" if dark else "light"
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, java_script_enabled=scripts
    )
    context.set_default_timeout(60_000)
    if scripts:
        context.add_init_script(WATCH)
    tab = Tab(context.new_page())
    tab.page.on(
        "console", lambda one: one.type in ("error", "warning") and tab.said.append(one.text)
    )
    tab.page.on("pageerror", lambda error: tab.said.append(str(error)))
    tab.page.on("request", lambda one: tab.asked.append(one.url))
    tab.page.goto(url)
    try:
        yield tab
    finally:
        context.close()
