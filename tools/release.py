"""Make a release in dist/: `python -m tools.release [--draft]`, or `just release`.

The wheel is built twice and must be the same. It is installed alone in an empty environment. There each command that
writes a page is run in an empty folder, without a Java on the machine. Beside the wheel stand a bill of materials
(CycloneDX), the changes of this version, what an audit of its packages and of the locks said, and the checksums. With a
known vulnerability there is no release. Nothing leaves this machine but the names of the audited packages, with their
versions: publishing is up to you.

`--draft` takes the changes that are not released yet, if there are any; else CHANGELOG.md must have a section of the
version. It prints a line for each step, and exits with 0, or says what failed.
"""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import venv

import conformance
from conformance import paths

DIST = pathlib.Path("dist")
_SCENARIO = "broker-killed-while-publishing"
_CLAIM = f"--claims AMQP-DUR-01 --scenario {_SCENARIO} --seed 1"
PAGES = {
    "run": (f"--adapter reference {_CLAIM} --out out", "out/report.html"),
    "judge": ("out", "out/report.html"),
    "report": ("out --out site", "site/index.html"),
    "diff": ("out out --html diff.html", "diff.html"),
    "bundle": ("out#broker-killed-while-publishing.subject.1 --out bug.zip", "bug.zip"),
    "upgrade": (
        f"--from reference --to reference --to-set journal_buffer_ms=5 --baseline out {_CLAIM} --out upgrade",
        "upgrade/report.html",
    ),
    "explore": ("--adapter reference --seed 131 --trials 1 --out looked", "looked/explored.html"),
    "selftest": ("--liar loses-the-oldest --rounds 0 --out selftest", "selftest/selftest.html"),
}
"""The commands that write a page: what is typed after each, and its page. Later ones read what `run` has recorded."""

_EPOCH = "1577836800"
"""The time of each file in the wheel: 2020-01-01. With the time of the build no two wheels would be the same."""


def changes(text: str, version: str) -> str:
    """Return the section of a version of CHANGELOG.md, without its title; empty if there is none."""
    found = re.search(rf"^## \[{re.escape(version)}\].*?\n(.*?)(?=^## \[|\Z)", text, re.DOTALL | re.MULTILINE)
    return found[1].strip() if found else ""


def build(folder: pathlib.Path) -> pathlib.Path:
    """Build the wheel twice, with the locked tools that are installed here, and return it; exit if the two differ."""
    made: list[pathlib.Path] = []
    for place in (folder / "one", folder / "two"):
        words = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir"]
        subprocess.run([*words, place, paths.root()], check=True, env={**os.environ, "SOURCE_DATE_EPOCH": _EPOCH})
        made += place.glob("ack_conformance-*.whl")
    first, second = made
    if first.read_bytes() != second.read_bytes():
        sys.exit(f"{first.name}: two builds of it differ")
    return first


def install(wheel: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """Install the wheel alone, without a pip beside it; return the folder of the commands."""
    venv.create(folder / "env")
    binaries = folder / "env" / "bin"
    words = [sys.executable, "-m", "pip", "--python", str(binaries / "python"), "install", "--quiet", str(wheel)]
    subprocess.run(words, check=True)
    return binaries


def audit(*options: str | pathlib.Path) -> str:
    """Ask pip-audit for known vulnerabilities; exit if there is one. Return why this was no audit; empty if it was one.

    pip-audit ends with 0 even if its service knows no package: it skips them. So its list of packages decides.
    """
    tool = shutil.which("pip-audit")
    if tool is None:
        return "pip-audit is not installed"
    words = [tool, "--progress-spinner", "off", "--format", "json", *options]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    try:
        packages = json.loads(done.stdout)["dependencies"]
    except json.JSONDecodeError:
        return (done.stderr.strip() or f"pip-audit ended with {done.returncode}").splitlines()[-1]
    if found := [f"{each['name']}: {one['id']}" for each in packages for one in each.get("vulns", ())]:
        sys.exit(f"known vulnerabilities: {', '.join(found)}")
    skipped = [each["name"] for each in packages if "skip_reason" in each and each["name"] != paths.PROJECT]
    if skipped or not packages:
        return f"{len(skipped)} of {len(packages)} packages were skipped: {', '.join(skipped[:5])}"
    return ""


def audited(binaries: pathlib.Path) -> str:
    """Audit what was installed with the wheel, and what is locked; return what a release says of it."""
    (installed,) = (binaries.parent / "lib").glob("*/site-packages")
    locks = [f"--requirement={paths.root()}/requirements/{name}.txt" for name in ("build", "dev")]
    why = {audit("--path", installed), audit("--require-hashes", "--disable-pip", *locks)} - {""}
    return f"NOT AUDITED: {'; '.join(sorted(why))}" if why else "audited: no known vulnerability"


def write_pages(binaries: pathlib.Path, folder: pathlib.Path) -> None:
    """Run the commands of `PAGES` in an empty folder, without a system Java; exit if one fails or writes no page."""
    folder.mkdir()
    environment = {"PATH": str(binaries), "HOME": str(folder.parent), "LANG": "C.UTF-8"}  # has no Java
    for command, (words, page) in PAGES.items():
        typed = [str(binaries / "conformance"), command, *words.split()]
        done = subprocess.run(typed, cwd=folder, env=environment, check=False)
        if done.returncode or not (folder / page).is_file():
            there = "wrote" if (folder / page).is_file() else "did not write"
            sys.exit(f"conformance {command} of the installed wheel ended with {done.returncode} and {there} {page}")


def try_alone(binaries: pathlib.Path, folder: pathlib.Path) -> None:
    """Write every page with the installed wheel; exit unless AMQP-DUR-01 HOLDS for the bundled broker."""
    write_pages(binaries, folder / "empty")
    report = json.loads((folder / "empty" / "out" / "report.json").read_text())
    (row,) = [row for row in report["verdicts"] if (row["claim"], row["scenario"]) == ("AMQP-DUR-01", _SCENARIO)]
    if row["verdict"] != "HOLDS":
        sys.exit(f"the installed wheel says {row['verdict']}: {row['reason']}")
    print(f"installed alone, without a system Java: AMQP-DUR-01 HOLDS; pages of {', '.join(PAGES)}")


def main() -> None:
    version = conformance.__version__
    log = (paths.root() / "CHANGELOG.md").read_text()
    text = ("--draft" in sys.argv and changes(log, "Unreleased")) or changes(log, version)
    if not text:
        sys.exit(f"CHANGELOG.md has no changes of {version}: give [Unreleased] that name and a date, or use --draft")
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        wheel = build(folder)
        print(f"{wheel.name}: built twice, the same")
        binaries = install(wheel, folder)
        shutil.copy(wheel, DIST)
        (DIST / "CHANGES.md").write_text(f"{text}\n")
        bill = DIST / f"{wheel.stem}.cdx.json"
        words = [sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible", "--output-file"]
        subprocess.run([*words, bill, binaries / "python"], check=True)
        print(f"{bill.name}: {len(json.loads(bill.read_text())['components'])} components")
        says = audited(binaries)
        (DIST / "AUDIT.txt").write_text(f"{says}\n")
        try_alone(binaries, folder)
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in sorted(DIST.iterdir())]
    (DIST / "SHA256SUMS").write_text("\n".join(sums) + "\n")
    print(f"{DIST}: {', '.join(path.name for path in sorted(DIST.iterdir()))}")
    print(says)


if __name__ == "__main__":
    main()
