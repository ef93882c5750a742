"""`python -m benchmarks [WHAT [OPTION...]]`: print the figures of one benchmark, or of all."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import benchmarks
from conformance.errors import ConformanceError


def main(words: Sequence[str]) -> int:
    """Print each line as it comes; 4, with one line of why, if there is no such benchmark."""
    try:
        for line in benchmarks.run(words[0] if words else "all", words[1:]):
            print(line, flush=True)
    except ConformanceError as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return int(error.exit_code)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
