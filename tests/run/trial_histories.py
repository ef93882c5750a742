"""What the histories of one trial say."""

from conformance import history
from conformance.history import Op, Phase


def events_of(folder, name):
    return history.read(folder / f"{name}.jsonl").events


def phases(events, op):
    return [event.phase for event in events if event.op is op]


def messages(events, op, phase, **fields):
    return {
        event.message
        for event in events
        if (event.op, event.phase) == (op, phase) and fields.items() <= {n: getattr(event, n) for n in fields}.items()
    } - {None}


def drained(folder, number=1):
    return messages(events_of(folder, f"drain-{number}"), Op.DRAIN, Phase.OK)
