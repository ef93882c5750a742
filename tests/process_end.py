"""Wait for the end of a process that need not be a child of the test."""

from conformance.processes import open_pidfd, wait_ended


def gone(pid, seconds=10):
    """Whether the process ends in time."""
    try:
        with open_pidfd(pid) as handle:
            return wait_ended([handle], seconds)
    except ProcessLookupError:
        return True
