"""Trials whose disk is held, fails or goes, on the bundled broker, and the liars that only they find."""

import math
import pathlib
import time

import pytest
from trial_histories import drained, events_of, messages

from conformance import adapters, claims, scenario
from conformance.faults.disk import access, injection
from conformance.faults.power import image
from conformance.history import OF_ACK, Op, Phase
from conformance.scenario.needs import ON_XFS
from conformance.scenario.script import (
    SETTLE,
    Consume,
    FailedSync,
    HeldSync,
    Kill,
    Nth,
    PowerLoss,
    Publish,
    Restart,
    Watched,
)

BOTH = pytest.mark.parametrize("protocol", ["amqp", "stomp"])
ADAPTER = adapters.find("reference")
needs_tracer = pytest.mark.skipif(bool(injection.cannot()), reason=injection.cannot() or "-")
needs_disk = pytest.mark.skipif(bool(image.cannot()), reason=image.cannot() or "-")


def when(folder, process, op, phase, name="message"):
    events = events_of(folder, process)
    return {getattr(e, name): e.at_ns for e in events if (e.op, e.phase) == (op, phase) and getattr(e, name)}


@needs_disk
@BOTH
def test_a_power_loss(play, protocol):
    """Confirmed messages are there; an answer read after the loss does not count; nothing stays mounted."""
    loss = PowerLoss(Nth("confirm", 80), torn=True)
    record, folder = play(Publish(5_000, window=20, until=loss), Restart(), *SETTLE, protocol=protocol)
    events = events_of(folder, "publisher-1")
    phases_of_loss = [(e.fault, e.phase) for e in events if e.op is Op.FAULT]
    fired = next(e.at_ns for e in events if e.phase is Phase.FIRED)

    assert "" == record.void
    assert [("power_loss", Phase.ARMED), ("power_loss", Phase.FIRED), ("power_loss", Phase.INFO)] == phases_of_loss
    assert all(e.at_ns < fired for e in events if (e.op, e.phase) == (Op.SEND, Phase.OK))
    assert 80 <= len(messages(events, Op.SEND, Phase.OK))
    assert messages(events, Op.SEND, Phase.OK) <= drained(folder)
    assert str(folder.parents[1]) not in pathlib.Path("/proc/self/mountinfo").read_text()


@pytest.mark.skipif(bool(image.cannot("xfs")), reason=image.cannot("xfs") or "-")
def test_a_power_loss_on_xfs(play):
    """The history says which file system it was, and the script asks this machine for it."""
    loss = PowerLoss(Nth("confirm", 80), filesystem="xfs")
    record, folder = play(Publish(5_000, window=20, until=loss), Restart(), *SETTLE)
    events = events_of(folder, "publisher-1")
    asked = [scenario.load(claims.load())[name].needs for name in ("power-lost-on-xfs", "power-lost-while-publishing")]

    assert "" == record.void
    lost = [e.detail for e in events if (e.op, e.phase) == (Op.FAULT, Phase.INFO)]
    assert [True] == [detail.endswith("for the shutdown, xfs") for detail in lost]
    assert messages(events, Op.SEND, Phase.OK) <= drained(folder)
    assert [True, False] == [ON_XFS in needs for needs in asked]


@needs_disk
def test_a_power_loss_takes_what_was_not_synced(play, impatient, monkeypatch):
    """With its syncs switched off. The page cache would survive the death of a process. What was flushed before is kept."""
    flushed, settle = [], image.LossyDisk.settle
    monkeypatch.setattr(image.LossyDisk, "settle", lambda disk: (settle(disk), flushed.append(time.monotonic_ns())))
    loss = PowerLoss(Nth("confirm", 300))
    settings = ADAPTER.effective({"sync_non_transactional": False})
    before = (Publish(20, window=5), Restart(clean=True, flushed=True))
    record, folder = play(*before, Publish(5_000, window=20, until=loss), Restart(), *SETTLE, settings=settings)
    first, confirmed = (messages(events_of(folder, f"publisher-{n}"), Op.SEND, Phase.OK) for n in (1, 2))

    begun, ended = (
        e.at_ns
        for e in events_of(folder, "orchestrator")
        if e.op is Op.BROKER and e.epoch <= 2 and e.detail == "restart"
    )

    assert "" == record.void
    assert any(begun < at < ended for at in flushed)
    assert 20 == len(first & drained(folder))
    assert confirmed - drained(folder)


@needs_tracer
def test_a_held_sync_holds_the_answer(play):
    """The history of the disk shows each message synced late, and before its confirm."""
    record, folder = play(Restart(clean=True, under=HeldSync(0.3)), Publish(2, window=1), Restart(clean=True), *SETTLE)
    synced = {e.message: e.at_ns for e in events_of(folder, "disk-1") if (e.op, e.phase) == (Op.SYNC, Phase.OK)}
    sends = events_of(folder, "publisher-1")
    asked, confirmed = (
        {e.message: e.at_ns for e in sends if (e.op, e.phase) == (Op.SEND, phase)} for phase in (Phase.INVOKE, Phase.OK)
    )

    assert ("", {"p1:1", "p1:2"}) == (record.void, set(synced))
    assert all(asked[m] + 0.29e9 < synced[m] < confirmed[m] for m in synced)


@needs_tracer
def test_a_tracer_knows_how_the_journal_was_reached_before(play, monkeypatch):
    """It is looked up while the broker runs: also in a run that the tracer ends, and that leaves nothing to look at."""
    looked, reached, made = [], [], injection.Tracer
    found = access.JournalAccess(synced_writes=True)

    def tracer(*args, **words):
        reached.append((len(looked), words["reached"]))
        return made(*args, **words)

    monkeypatch.setattr(access, "look", lambda pids, files: looked.append(list(pids)) or found)
    monkeypatch.setattr(injection, "Tracer", tracer)
    record, _ = play(
        *(Publish(1, window=1), Restart(clean=True, under=Watched())),
        *(Publish(1, window=1), Restart(clean=True, under=HeldSync(0.1)), Publish(1, window=1), Restart(), *SETTLE),
    )

    assert "" == record.void
    assert [found, found] == [each for _, each in reached]
    assert all(looked)
    assert 1 == reached[0][0]


@needs_tracer
def test_a_broker_may_end_when_its_disk_fails(play):
    """Its end does not void the trial, and the next run of the broker is not traced."""
    record, folder = play(Restart(clean=True, under=FailedSync(8)), Publish(200, window=5), Restart(), *SETTLE)
    confirmed = messages(events_of(folder, "publisher-1"), Op.SEND, Phase.OK)

    assert "" == record.void
    assert 0 < len(confirmed) < 200
    assert confirmed <= drained(folder)


@needs_tracer
@pytest.mark.parametrize(
    ("liar", "batch", "op"), [("confirms-before-sync", 0, Op.SEND), ("commits-before-sync", 5, Op.COMMIT)]
)
def test_a_liar_that_answers_before_its_sync_is_seen_at_the_disk(play, liar, batch, op):
    name = "transaction" if batch else "message"
    publish = Publish(10, window=5 if batch else 1, batch=batch, every_ms=60)
    _, folder = play(Restart(clean=True, under=HeldSync(0.4)), publish, Restart(clean=True), *SETTLE, liar=liar)
    synced, answered = when(folder, "disk-1", Op.SYNC, Phase.OK, name), when(folder, "publisher-1", op, Phase.OK, name)

    assert synced
    assert all(answered[key] < synced.get(key, math.inf) for key in answered)


@needs_tracer
@BOTH
@pytest.mark.parametrize("liar", [None, "acknowledges-before-sync"])
def test_an_acknowledgement_and_its_sync(play, liar, protocol):
    """The history of the disk has the record of each acknowledgement, and not as that of a send."""
    consume = Consume("individual", prefetch=5, stop=3, work_ms=60)
    held = Restart(clean=True, under=HeldSync(0.4))
    record, folder = play(Publish(3, window=3), held, consume, liar=liar, protocol=protocol)
    synced, answered = when(folder, "disk-1", Op.SYNC, Phase.OK), when(folder, "consumer-1", Op.ACK, Phase.OK)

    assert ("", {"p1:1", "p1:2", "p1:3"}) == (record.void, set(answered))
    assert all(e.detail.endswith(OF_ACK) for e in events_of(folder, "disk-1") if e.message)
    assert [answered[key] < synced.get(key, math.inf) for key in answered] == [liar is not None] * 3


@pytest.mark.parametrize(
    ("liar", "batch", "event"), [("confirms-before-sync", 0, "confirm"), ("commits-before-sync", 5, "committed")]
)
def test_no_kill_ever_finds_it(play, liar, batch, event):
    """The page cache outlives every process."""
    kill = Kill(Nth(event, 30))
    record, folder = play(Publish(5_000, window=20, batch=batch, until=kill), Restart(), *SETTLE, liar=liar)
    events = events_of(folder, "publisher-1")
    asked = {e.transaction for e in events if (e.op, e.phase) == (Op.COMMIT, Phase.OK)}
    sent = {
        e.message for e in events if (e.op, e.phase) == (Op.SEND, Phase.OK) and (e.transaction in asked or not batch)
    }

    assert ("", True) == (record.void, len(sent) >= 30)
    assert sent <= drained(folder)
