"""`python -m tests.reference.crashes --kills 200 --powers 20`: the whole series, from the root of a checkout.

Ends with 1 where the broker did anything wrong. Power losses need root and loop devices.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import tempfile

from .blackbox.series import Series


def main() -> int:
    """Play what was asked for, and tell it."""
    parser = argparse.ArgumentParser(description="Crashes of the bundled broker under load over both protocols.")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--powers", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--liar", help="a broker that is wrong in one way")
    typed = parser.parse_args()
    words = (f"--liar={typed.liar}",) if typed.liar else ()
    wrong = False
    for count, powers in ((typed.kills, False), (typed.powers, True)):
        if count:
            with tempfile.TemporaryDirectory(prefix="conformance-crashes-") as folder:
                series = Series(pathlib.Path(folder), count, typed.seed, powers, words)
                series.run()
                print(*series.told(), sep="\n", flush=True)
                wrong = wrong or bool(series.accounts.faults)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
