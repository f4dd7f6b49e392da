"""A headless Chromium that is installed on this machine, and what a page did in it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.end_to_end.conftest import PATIENCE

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
WIDTHS = (1280, 390)  # pixels: a desk and a phone


@contextmanager
def headless() -> Iterator[Any]:
    """Start the browser; skip the test where there is none."""
    api = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"needs a browser: none of {', '.join(NAMES)} is installed")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


class Visit:
    """A page, what it wrote to the console, and whom it asked."""

    def __init__(self, browser: Any, url: str, *, width: int = WIDTHS[0], scheme: str = "light") -> None:
        self.url = url
        self.page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(url)

    @property
    def overflow(self) -> int:
        """Pixels by which the page is wider than its window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))

    @property
    def asked_elsewhere(self) -> list[str]:
        """Requests that left the page's own host."""
        return [url for url in self.asked if urlsplit(url)[:2] != urlsplit(self.url)[:2]]

    def waits_for(self, selector: str, text: str) -> None:
        """Return when an element holds a text."""
        from playwright.sync_api import expect

        expect(self.page.locator(selector)).to_contain_text(text, timeout=PATIENCE * 1000)

    def assert_calm(self) -> None:
        assert self.said == []
        assert self.asked_elsewhere == []
        assert self.overflow <= 0
