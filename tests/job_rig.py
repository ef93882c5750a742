"""A job in few words, for sessions and roles that are tried without a run."""

from conformance.clients.job import Connection, Dialect, Job, Tolerances, Work
from conformance.history import bare_header
from conformance.scenario.script import Drain

PARTS = {"connection": Connection, "dialect": Dialect, "work": Work, "tolerances": Tolerances}


def make_job(step=None, *, host="127.0.0.1", port=0, **fields):
    """A job whose parts have these fields, each in the part that has a field of that name."""
    given = {"step": step or Drain(), "protocol": "amqp", "queue": "q", "addresses": ((host, port),), **fields}
    parts = {
        name: part(**{field: given.pop(field) for field in part.__struct_fields__ if field in given})
        for name, part in PARTS.items()
    }
    return Job(**{"header": bare_header("p"), "history": "", "epoch": 1, **parts, **given})
