"""`python -m tools.build_images NAME...`: have the images of these brokers before a run asks for them.

For a CI job that has time for it beside other work: a base of Debian takes a minute, where no registry gives one.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from conformance.adapters.container.docker import DockerLauncher
from conformance.adapters.container.engine import connect
from conformance.adapters.container.images import Recipe, broker_image
from conformance.adapters.file_adapter import FileAdapter
from conformance.adapters.opening import find
from conformance.errors import ConformanceError, UsageError, visible


def main(names: Sequence[str]) -> int:
    """One line for each image; the exit code of the first that cannot be had, with one line of why."""
    try:
        if not names or names[0].startswith("-"):
            raise UsageError("usage: python -m tools.build_images NAME...")
        recipes = [_recipe(name) for name in names]
        for recipe in recipes:
            began = time.monotonic()
            image = broker_image(connect(), recipe)
            print(f"{image.name}, upon {image.base}: {time.monotonic() - began:.0f} s", flush=True)
    except ConformanceError as error:
        print(visible(f"conformance: {error}"), file=sys.stderr)
        for line in getattr(error, "log_lines", ()):
            print(visible(f"    {line}"), file=sys.stderr)
        return int(error.exit_code)
    return 0


def _recipe(name: str) -> Recipe:
    adapter = find(f"{name.removesuffix(':docker')}:docker")
    if not isinstance(adapter, FileAdapter):
        raise UsageError(f"{name} has no [container]")
    return DockerLauncher().recipe(adapter.source)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
