"""Compare two runs by what they decided and what they planned, not by wording: `python -m tools.compare_runs OLD NEW`.

OLD and NEW are `report.json` files or run folders. With `--verdicts`, rows are compared by verdict alone: for two
recordings of one broker, whose counts differ by chance. Without it, counts, exposure, control, bound and q must be
equal too: for one recording that two versions of the judge decided. Exit code 0: equal; 1: they differ; 4: usage.
"""

from __future__ import annotations

import json
import pathlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

Row = dict[str, Any]
Key = tuple[str, ...]
EXACT = ("verdict", "trials", "offended", "void", "exposure", "control", "bound", "q")
PLANNED = ("seed", "k", "settings")
FLOOR = 1e-9
"""A difference between two numbers that only rounding makes."""


def differences(old: Row, new: Row, fields: Sequence[str]) -> Iterator[str]:
    """A line for each verdict row and each planned trial that is in one report only, or differs in both.

    `old`, `new`: contents of `report.json`. `fields`: the fields of a verdict row that are compared.
    """
    for what in ("verdicts", "self_checks"):
        yield from _compared(_by_key(old[what], _row_key), _by_key(new[what], _row_key), fields)
    yield from _compared(_by_key(old["trials"], _trial_key), _by_key(new["trials"], _trial_key), PLANNED)


def _row_key(row: Row) -> Key:
    return row["claim"], row.get("scenario") or "", row.get("mode") or ""


def _trial_key(trial: Row) -> Key:
    return ("trial", trial["trial"])


def _by_key(rows: Sequence[Row], key: Callable[[Row], Key]) -> Mapping[Key, Row]:
    return {key(row): row for row in rows}


def _compared(old: Mapping[Key, Row], new: Mapping[Key, Row], fields: Sequence[str]) -> Iterator[str]:
    for key in sorted({*old, *new}):
        label = " ".join(filter(None, key))
        if key not in new:
            yield f"only in OLD: {label}: {_short(old[key], fields[0])}"
        elif key not in old:
            yield f"only in NEW: {label}: {_short(new[key], fields[0])}"
        else:
            for field in fields:
                before, after = old[key].get(field), new[key].get(field)
                if not _equal(before, after):
                    yield f"{label}: {field}: {json.dumps(before)} -> {json.dumps(after)}{_reason(new[key], field)}"


def _reason(row: Row, field: str) -> str:
    return f" ({row['reason']})" if field == "verdict" and row.get("reason") else ""


def _short(row: Row, field: str) -> str:
    return f"{row.get(field)}{_reason(row, field)}"


def _equal(before: Any, after: Any) -> bool:
    if isinstance(before, dict) and isinstance(after, dict):
        return before.keys() == after.keys() and all(_equal(before[key], after[key]) for key in before)
    if isinstance(before, float) and isinstance(after, float):
        return abs(before - after) <= FLOOR
    return bool(before == after)


def _load(word: str) -> Row:
    path = pathlib.Path(word)
    found: Row = json.loads((path / "report.json" if path.is_dir() else path).read_text())
    return found


def main(words: Sequence[str]) -> int:
    """Print each difference, then how many there are."""
    paths = [word for word in words if word != "--verdicts"]
    if len(paths) != 2 or any(path.startswith("-") for path in paths):
        print("usage: python -m tools.compare_runs [--verdicts] OLD NEW", file=sys.stderr)
        return 4
    old, new = map(_load, paths)
    lines = list(differences(old, new, ("verdict",) if len(paths) < len(words) else EXACT))
    print("\n".join([*lines, f"{len(lines)} differences"]))
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
