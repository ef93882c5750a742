"""Wait for the end of a process that need not be a child of the test."""

import os
import select


def gone(pid, seconds=10):
    """Whether the process ends in time."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], seconds)[0])
    finally:
        os.close(descriptor)
