"""Write the locks in requirements/: `python -m tools.lock [--upgrade]`.

A lock has the version of each package and the SHA-256 of each of its files, for every Python and processor that the
project supports. What is locked stays as it is while pyproject.toml allows it. Options go to `uv pip compile`.
"""

from __future__ import annotations

import subprocess
import sys

from conformance import paths

_SAME = ("--constraint", "requirements/dev.txt")
LOCKS = {
    "dev": ("pyproject.toml", "--extra", "dev"),
    "image": ("pyproject.toml", "--extra", "pytest", *_SAME),
    "build": ("--group", "build", *_SAME),
}
"""What each lock is made from. The first is that of ./dev; in the others a package has the same version as there."""

_COMPILE = "uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate".split()
_HEADER = ("--custom-compile-command", "python -m tools.lock")


def main() -> None:
    for name, source in LOCKS.items():
        words = [*_COMPILE, *_HEADER, *source, *sys.argv[1:], "--output-file", f"requirements/{name}.txt"]
        subprocess.run([sys.executable, "-m", *words], cwd=paths.root(), check=True)


if __name__ == "__main__":
    main()
