"""The wheel alone: built, installed in an empty environment, run in an empty folder, without a Java on the machine.

A command (`just package`), not a test: it installs Spark once more. Exits 0 and prints one line, or says what failed.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import venv

ROOT = pathlib.Path(__file__).resolve().parents[1]


def named() -> set[str]:
    """Return the pages of docs/ that the package names, in its messages among others."""
    texts = (path.read_text() for path in (ROOT / "conformance").rglob("*.py"))
    return {page for text in texts for page in re.findall(r"\bdocs/([a-z-]+\.(?:md|json))", text)}


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        wheels = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
        subprocess.run(wheels, check=True)
        (wheel,) = folder.glob("ack_conformance-*.whl")
        venv.create(folder / "env", with_pip=True)
        binaries = folder / "env" / "bin"
        subprocess.run([binaries / "pip", "install", "--quiet", str(wheel)], check=True)
        (docs,) = (folder / "env").glob("lib/*/site-packages/conformance/_data/docs")
        if lost := [page for page in named() if not (docs / page).is_file()]:
            sys.exit(f"messages name pages that the wheel does not have: {lost}")
        empty = folder / "empty"
        empty.mkdir()
        words = ["run", "--adapter", "reference", "--claims", "AMQP-DUR-01", "--seed", "1", "--out", "out"]
        environment = {  # no JAVA_HOME, and a PATH on which no java is
            "PATH": str(binaries),
            "HOME": str(folder),
            "LANG": "C.UTF-8",
        }
        done = subprocess.run([binaries / "conformance", *words], cwd=empty, env=environment, check=False)
        if done.returncode:
            sys.exit(f"the installed wheel ended with {done.returncode}")
        report = json.loads((empty / "out" / "report.json").read_text())
        (row,) = [row for row in report["verdicts"] if row["claim"] == "AMQP-DUR-01"]
        if row["verdict"] != "HOLDS":
            sys.exit(f"the installed wheel says {row['verdict']}: {row['reason']}")
        print(f"{wheel.name}: installed alone, without a system Java: AMQP-DUR-01 {row['verdict']}")


if __name__ == "__main__":
    main()
