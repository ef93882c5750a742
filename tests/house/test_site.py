"""The site of docs/: built strictly, without a network, and refused with a broken link."""

import re
import shutil
import subprocess
import sys
import tomllib

import pytest
from typed_lines import ROOT

CONFIG = ROOT / "zensical.toml"


@pytest.fixture
def build(tmp_path):
    """Build a copy of the site, strictly, and return the completed process."""
    pytest.importorskip("zensical", reason="zensical is not installed: the extra docs")
    shutil.copy(CONFIG, tmp_path)
    shutil.copytree(ROOT / "docs", tmp_path / "docs")

    def run():
        words = [sys.executable, "-m", "zensical", "build", "--strict"]
        return subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)

    return run


@pytest.mark.process
def test_the_site_is_built_and_loads_nothing_from_elsewhere(build, tmp_path):
    done = build()
    pages = list((tmp_path / "site").rglob("*.html"))
    loaded = [
        found for page in pages for found in re.findall(r'<(?:script|link|img)[^>]*"https?:[^>]*>', page.read_text())
    ]

    assert 0 == done.returncode, done.stdout + done.stderr
    assert len(pages) >= len(list((ROOT / "docs").rglob("*.md")))
    assert loaded == []


@pytest.mark.process
def test_broken_links_are_refused(build, tmp_path):
    """To a page, and to a heading of one."""
    with (tmp_path / "docs" / "tutorial.md").open("a") as page:
        page.write("\n[a page](nowhere.md) and [a heading](explanation/power.md#nowhere)\n")
    done = build()

    assert 0 != done.returncode
    assert ["page does not exist", "anchor does not exist"] == [
        text for text in ("page does not exist", "anchor does not exist") if text in done.stdout + done.stderr
    ]


def test_every_page_is_in_the_menu():
    named = re.findall(r'"([\w/-]+\.md)"', CONFIG.read_text())

    assert tomllib.loads(CONFIG.read_text())["project"]["nav"]
    assert sorted(named) == sorted(str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md"))
