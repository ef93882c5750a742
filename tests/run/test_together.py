"""Clients of one trial that run beside each other, on the bundled broker."""

import pathlib

import msgspec
import pytest
from trial_histories import events_of, messages

from conformance import claims, scenario
from conformance.history import Ended, Op, Phase, read
from conformance.scenario.script import SETTLE, After, Consume, ConsumerCrash, Publish, Together

DIES = Consume("auto", until=ConsumerCrash(After(0)))
TAKES = Consume("client", prefetch=5, acknowledge=5, confirm=True, stop=20)
BOTH = pytest.mark.parametrize("protocol", ["amqp", "stomp"])
TWO = scenario.load(claims.load())["two-consumers-of-one-queue"]
LIAR = TWO.decides["AMQP-ACQ-01"].control.name


def descriptors():
    return len(list(pathlib.Path("/proc/self/fd").iterdir()))


def handed(folder, number):
    return messages(events_of(folder, f"consumer-{number}"), Op.DELIVER, Phase.OK)


@BOTH
def test_two_consumers_share_what_is_sent_while_both_are_attached(play, protocol):
    """Each gets its twenty, and no message is given to both."""
    record, folder = play(Together((TAKES, TAKES, Publish(60, window=10, every_ms=2))), *SETTLE, protocol=protocol)
    began = [events_of(folder, f"consumer-{number}")[0].at_ns for number in (1, 2)]

    assert "" == record.void
    assert (20, 20, set()) == (len(handed(folder, 1)), len(handed(folder, 2)), handed(folder, 1) & handed(folder, 2))
    assert max(began) < min(e.at_ns for e in events_of(folder, "publisher-1") if e.op is Op.SEND)


@BOTH
def test_the_liar_gives_messages_to_both(play, protocol):
    """In the script of the suite; each consumer acknowledges its copy, and the queue is empty in the end."""
    record, folder = play(*TWO.steps, protocol=protocol, liar=LIAR)

    assert "" == record.void
    assert handed(folder, 1) & handed(folder, 2)


def test_two_publishers_have_numbers_of_their_own(play):
    """Their messages would have the same ids."""
    record, folder = play(
        Together((Publish(5, window=5), Publish(5, window=5), msgspec.structs.replace(TAKES, stop=10)))
    )
    sent = [messages(events_of(folder, f"publisher-{number}"), Op.SEND, Phase.OK) for number in (1, 2)]

    assert ("", sent[0] | sent[1]) == (record.void, handed(folder, 1))
    assert 10 == len(sent[0] | sent[1])


def test_where_one_fails_the_others_are_ended(play):
    """At once, although nothing comes for the second; every history is closed and no descriptor is left."""
    before = descriptors()
    record, folder = play(Together((DIES, TAKES, Publish(5, window=5))))
    ended = {path.stem: read(path).footer.ended for path in folder.glob("*.jsonl") if path.stem != "orchestrator"}

    assert "consumer-1 died" in record.void
    assert {"consumer-1": Ended.DIED, "consumer-2": Ended.INTERRUPTED, "publisher-1": Ended.INTERRUPTED} == ended
    assert record.seconds < 20
    assert before == descriptors()
