"""A browser for the tests: the system's own Chromium, which shows pages of one address alone."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page


def program() -> str | None:
    """Return the browser's program, or None where there is none."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


@contextmanager
def opened(program: str, address: str = "") -> Iterator["Page"]:
    """Open an empty page; whatever asks for another address than this one is as if offline.

    Without an address nothing is intercepted: playwright answers preflight requests itself if so.
    """
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        # Chromium refuses to run as root inside of its own sandbox
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1300, "height": 1000})
        page.set_default_timeout(30_000)
        if address:
            page.route(lambda url: not url.startswith(address), lambda route: route.abort())
        yield page
        browser.close()
