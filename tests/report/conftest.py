"""The claims and scenarios that reports are about, and a browser that shows them."""

import shutil

import pytest
from playwright import sync_api
from starts import starts_process

from conformance import claims, scenario


@pytest.fixture(scope="session")
def catalogue():
    return claims.load()


@pytest.fixture(scope="session")
def scenarios(catalogue):
    return scenario.load(catalogue)


@pytest.fixture(scope="module")
@starts_process
def browser():
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not on PATH (Debian: apt-get install chromium)")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield started
        started.close()
