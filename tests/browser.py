"""A headless Chromium without network, for the tests of the page."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


def chromium() -> tuple[str, str]:
    """Paths of browser and driver; skips, saying why, where one is missing."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        pytest.skip("needs Chromium and its driver: apt-get install chromium chromium-driver")
    pytest.importorskip("selenium", reason="needs selenium")
    return browser, driver


@contextmanager
def opened(phone: bool = False) -> Iterator[Any]:
    """A driver whose browser can reach nothing but this machine."""
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    browser, driver = chromium()
    width, height = (390, 844) if phone else (1280, 900)
    options = Options()
    options.binary_location = browser
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--use-angle=swiftshader",  # WebGL without a graphics card
        "--enable-unsafe-swiftshader",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        f"--window-size={width},{height}",
        "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    if phone:
        metrics = {"width": width, "height": height, "pixelRatio": 2.0, "touch": True}
        options.add_experimental_option("mobileEmulation", {"deviceMetrics": metrics})
    page = webdriver.Chrome(service=Service(driver), options=options)
    # Against hanging: axe takes a minute on a busy machine
    page.set_script_timeout(600)
    try:
        yield page
    finally:
        page.quit()


def requests(page: Any) -> list[str]:
    """Every address that the browser asked for since the last call."""
    found = []
    for entry in page.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            found.append(message["params"]["request"]["url"])
    return found


def complaints(page: Any) -> list[str]:
    """Errors and warnings of the console since the last call."""
    return [entry["message"] for entry in page.get_log("browser") if entry["level"] != "INFO"]
