"""Change the Python of the judge in one place at a time, to see whether a test fails: `python -m tools.mutants`.

mutmut makes the changes and runs the tests that reach each of them: `[tool.mutmut]` in pyproject.toml has the modules
and the tests. A change without a failing test is in tests/judge/mutants.toml, with the reason why.

Exit code 0: the list is right; 1: another change has no failing test, or a listed change has one.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator

from conformance import paths

LIST = paths.root() / "tests" / "judge" / "mutants.toml"


def _mutmut(*words: str) -> list[str]:
    """Return the lines that mutmut writes."""
    command = [sys.executable, "-m", "mutmut", *words]
    done = subprocess.run(command, cwd=paths.root(), stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.splitlines()


def survivors() -> Iterator[str]:
    """Yield each change without a failing test: `module.function: line -> changed line`."""
    for line in _mutmut("results"):
        mutant, _, status = line.strip().rpartition(": ")
        if status in ("survived", "no tests"):
            place = re.fullmatch(r"conformance\.(?:judge\.)?([\w.]+)\.x(?:ǁ(\w+)ǁ|_)(\w+)__mutmut_\d+", mutant)
            assert place, mutant
            diff = [line for line in _mutmut("show", mutant) if not line.startswith(("---", "+++"))]
            before, after = (" ".join(line[1:].strip() for line in diff if line[:1] == sign) for sign in "-+")
            yield f"{'.'.join(filter(None, place.groups()))}: {before} -> {after}"


def main() -> int:
    shutil.rmtree(paths.root() / "mutants", ignore_errors=True)  # mutmut does not see that a test was changed
    subprocess.run([sys.executable, "-m", "mutmut", "run", "--max-children", "1"], cwd=paths.root(), check=True)
    listed = {change for changes in tomllib.loads(LIST.read_text()).values() for change in changes}
    found = set(survivors())
    for change in sorted(found - listed):
        print(f"no test fails: {change}")
    for change in sorted(listed - found):
        print(f"a test fails, so remove it from {LIST.name}: {change}")
    return int(found != listed)


if __name__ == "__main__":
    sys.exit(main())
