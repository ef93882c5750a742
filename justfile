# The developer's whole interface; `./dev RECIPE` sets everything up and calls one of these.

# Try the bundled broker: nothing to download, no root.
[no-exit-message]
reference *ARGS:
    conformance run --adapter reference {{ARGS}}

# Try Apache Artemis, fetched once into the cache.
[no-exit-message]
artemis *ARGS:
    conformance run --adapter artemis {{ARGS}}

# The scenarios through pytest: --adapter=NAME, and all options of pytest.
[no-exit-message]
suites *ARGS:
    python -m pytest suites {{ARGS}}

# The project's own tests, three files at a time (-n 0: one), without those that take long (-m full: only those).
test *ARGS:
    python -m pytest -n 3 --dist loadfile --no-loadscope-reorder {{ARGS}}

# What a change of one room breaks: style, types, its tests that start no process, and the rules for all code.
[no-exit-message]
check ROOM:
    @ls tests/{{quote(ROOM)}}/test_*.py >/dev/null 2>&1 || { echo "check: no room" {{quote(ROOM)}} "in tests/; the rooms:" $(ls tests/*/test_*.py | cut -d / -f 2 | sort -u) >&2; exit 4; }
    @just lint
    python -m pytest -q -n 0 -m "not process and not full" tests/{{quote(ROOM)}} tests/house/test_tidy.py tests/house/test_budgets.py

# Everything, whole: each broker natively and in a container, over each protocol, and all tests beside an engine. Hours.
full *ARGS:
    python -m tools.dockerd python tests/full.py {{ARGS}}
    python -m pytest -m "full or not full"

# Style and types.
lint:
    ruff check .
    ruff format --check .
    mypy

# Ratios side by side: recorder, session, judge (--events N: and DuckDB, Polars), link, disk, triggers; power (--kills N).
bench WHAT="all" *ARGS:
    python -m benchmarks {{WHAT}} {{ARGS}}

# Bugs that brokers once had: is the bad version convicted and the good one acquitted? NAME of fixtures/bugs, default all.
[no-exit-message]
bugs *NAMES:
    python -m tools.bugs {{NAMES}}

# A release in dist/: the wheel, tried alone in an empty folder, its bill of materials, changes and checksums (--draft).
release *ARGS:
    python -m tools.release {{ARGS}}
