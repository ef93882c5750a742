"""Wait for the end of a process that need not be a child of the test."""

from conformance.processes import opened, wait_ended


def gone(pid, seconds=10):
    """Whether the process ends in time."""
    try:
        with opened(pid) as handle:
            return wait_ended([handle], seconds)
    except ProcessLookupError:
        return True
