"""A broker that does not start after a fault: a violation, an undecided trial, or an error of the suite."""

import socket
import types

import pytest
from starts import starts_process
from trial_histories import events_of

from conformance import history
from conformance.errors import ClientError, LaunchError, StartFailure
from conformance.faults.disk import injection
from conformance.history import Ended, Op, Phase
from conformance.run.trial import restart
from conformance.run.trial.restart import RestartAttempt
from conformance.scenario.script import SETTLE, Drain, Kill, Nth, Publish, Restart, Watched

needs_tracer = pytest.mark.skipif(bool(injection.cannot()), reason=injection.cannot() or "-")


def failed(words="record 7 is damaged", failure=StartFailure.ENDED):
    """A start that failed, with the last line of its log."""
    return LaunchError("the broker failed; its log is x", log_tail=["begins", words], failure=failure)


LATE = failed("still reading", StartFailure.LATE)
DEAD = failed()


class Broker:
    """Each start of it ends as its list says; a start changes the data."""

    no_copy = ""
    by_command = False
    ready_s = dies = None

    def __init__(self, folder, ends):
        self.folder, self.data, self.ends = folder, folder / "data", ends
        self.facts = self.service = self.target = self
        self.node = self
        self.found = None
        self.data.mkdir(parents=True)

    def start(self, *, ready_s=0.0):
        self.ready_s = ready_s
        self.found = sorted(path.name for path in self.data.iterdir())
        (self.data / "started").touch()
        if (end := self.ends.pop(0)) is not None:
            raise end

    def wait_gone(self, timeout_s):
        return self.dies is not None

    def alive_check(self):
        if self.dies is not None:
            raise self.dies

    def stop(self):
        pass

    def close(self):
        pass


@pytest.fixture
@starts_process
def recovery(tmp_path):
    """The start of a broker whose first end, and those of the others that are tried after it, are given."""

    def make(first, *others, protocols=(), start_seconds=(2.0,), **changes):
        broker = Broker(tmp_path / "broker", [first])
        (broker.data / "journal").write_text("as the fault left it")
        vars(broker).update(changes)
        ends, made = list(others), []

        def another():
            made.append(Broker(tmp_path / f"another-{len(made)}", [ends.pop(0)]))
            return made[-1]

        def exchange(other, queue):
            other.dies = ends.pop(0)
            if other.dies is not None:
                raise ClientError("its connection was lost")

        running = types.SimpleNamespace(
            broker=broker,
            node=broker,
            start=broker.start,
            start_seconds=list(start_seconds),
            another=another,
            exchange=exchange,
            protocols=protocols,
        )
        return RestartAttempt(running), broker, made

    return make


@pytest.mark.parametrize(
    ("ends", "phase", "words"),
    [
        ([DEAD, DEAD, None], Phase.FAIL, "on a copy of the same data and on other ports"),
        ([LATE, LATE, None, None], Phase.FAIL, "on a copy of the same data and on other ports"),
        ([DEAD, failed("page 3 is gone"), None, None], Phase.FAIL, "page 3 is gone"),
        ([DEAD, None], Phase.INFO, "a second broker started from a copy of the same data"),
        ([LATE, LATE, None, LATE], Phase.INFO, "of a healthy broker does not start on other ports either"),
        ([DEAD, failed(failure=None)], Phase.INFO, "failed in another way"),
    ],
    ids=["the same end", "never ready", "another end", "the copy starts", "copies never start", "unclear"],
)
def test_who_is_to_blame(recovery, ends, phase, words):
    """The broker, only if its data are the one possible cause."""
    start, _, made = recovery(*ends)

    found = start.start()

    assert (phase, True) == (found.phase, words in found.reason), found.reason
    assert found.reason.startswith("not recovered: " if phase is Phase.FAIL else "not ready: ")
    assert len(ends) - 1 == len(made)


@pytest.mark.parametrize(
    "ends",
    [
        [failed("bind: Address already in use")],
        [failed("write: No space left on device")],
        [failed("java.lang.OutOfMemoryError: Java heap space")],
        [failed("java.io.IOException: Too many open files")],
        [failed(failure=StartFailure.SIGNALLED)],
        [failed(failure=None)],
        [DEAD, failed("No space left on device")],
        [DEAD, DEAD, DEAD],
    ],
    ids=["port", "disk", "memory", "files", "killed", "unclear", "disk, at the copy", "nor without data"],
)
def test_a_reason_of_this_machine_is_an_error_of_the_suite(recovery, ends):
    start, _, _ = recovery(*ends)

    with pytest.raises(LaunchError):
        start.start()


@pytest.mark.parametrize("what", ["a port", "the disk"])
def test_a_machine_that_the_log_does_not_speak_of(recovery, monkeypatch, what):
    """The suite itself looks for a port in use, and for a full disk."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        place = other.getsockname()
        if what == "the disk":
            monkeypatch.setattr(restart, "FULL", 1 << 60)
        start, _, made = recovery(DEAD, protocols=["amqp"] * (what == "a port"), endpoint=lambda protocol: place)

        with pytest.raises(LaunchError, match=f"(port {place[1]} is taken|a disk is full): this machine is the cause"):
            start.start()

    assert [] == made


def test_the_line_that_tells_most():
    """Not the orderly end of the broker, nor the stack trace."""
    tail = ["INFO starts", "ERROR AMQ224000: no journal", "at java.io.Exception", "INFO stopped"]

    assert (
        restart.describe_failure(LaunchError("x ended", log_tail=tail))
        == "x ended (its log says: ERROR AMQ224000: no journal)"
    )


def test_a_reason_far_before_the_end_of_the_log_counts(recovery):
    """It is named, and it shows that the machine is the cause; the error keeps all lines of the log."""
    trace = ["\tat Main.run"] * 40
    far = LaunchError(
        "x ended; its log is l",
        log_tail=trace,
        log_reasons=["bind: Address already in use"],
        log="l",
        failure=DEAD.failure,
    )
    start, _, made = recovery(far)
    with pytest.raises(LaunchError, match="a port is taken: this machine is the cause") as caught:
        start.start()

    assert "x ended (its log says: bind: Address already in use)" == restart.describe_failure(far)
    assert (far.log_lines, far.log_tail, "l") == (caught.value.log_lines, caught.value.log_tail, caught.value.log)
    assert [] == made


def test_an_error_of_every_start_shows_no_common_cause(recovery):
    """Two brokers on the same data log it, and end long after it; so does none on a copy of healthy data."""
    both = [
        LaunchError("ended", log_tail=[f"went on {word}"], log_reasons=["ERROR of each start"], failure=DEAD.failure)
        for word in ("here", "there")
    ]
    start, _, _ = recovery(both[0], both[1], None, DEAD)

    found = start.start()

    assert Phase.INFO is found.phase
    assert "a copy of the data of a healthy broker does not start" in found.reason


def test_a_broker_that_was_never_ready_is_not_accused(recovery):
    start, _, _ = recovery(DEAD, start_seconds=[])

    with pytest.raises(LaunchError):
        start.start()


@pytest.mark.parametrize("why", ["the data of an external broker is its owner's", "two versions share it"])
def test_without_a_copy_of_the_data_no_broker_is_accused(recovery, why):
    start, _, made = recovery(DEAD, no_copy=why)

    found = start.start()

    assert (Phase.INFO, []) == (found.phase, made)
    assert found.reason.endswith(f"no copy of its data could be tried: {why}")


def test_too_much_data_is_not_copied(recovery, monkeypatch):
    monkeypatch.setattr(restart, "COPY_BYTES", 0)
    start, _, _ = recovery(DEAD)

    assert "at most 0 are copied" in start.start().reason


def test_the_copy_is_what_the_fault_left(recovery):
    """The failed start changes the data; the second broker does not see the change."""
    start, broker, made = recovery(DEAD, DEAD, None)
    start.start()

    assert ["journal"] == made[0].found
    assert ["journal", "started"] == sorted(path.name for path in broker.data.iterdir())


def test_the_copy_has_holes_for_zeros(recovery):
    start, broker, _ = recovery(DEAD, DEAD, None)
    kept = start._copy / "large"
    (broker.data / "large").write_bytes(bytes(4 << 20) + b"record")
    copied = RestartAttempt(start._running)

    assert (broker.data / "large").read_bytes() == kept.read_bytes()
    assert kept.stat().st_blocks * 512 < 1 << 20
    assert kept.stat().st_ino != (broker.data / "large").stat().st_ino
    assert copied.start().phase is Phase.FAIL


@pytest.mark.parametrize(("healthy", "bound"), [([2.0], 60.0), ([2.0, 9.0], 90.0)])
def test_the_bound_is_ten_times_the_healthy_start(recovery, healthy, bound):
    start, broker, made = recovery(DEAD, None, start_seconds=healthy)
    start.start()

    assert [bound, bound] == [broker.ready_s, made[0].ready_s]


def test_a_start_that_succeeds_leaves_no_copy(recovery, tmp_path):
    start, _, _ = recovery(None)

    assert start.start() is None
    assert ["broker"] == [path.name for path in tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("ends", "accused"),
    [
        ([DEAD, DEAD, None], True),
        ([DEAD, None], False),
        ([LATE, LATE, None, LATE], False),
        ([failed("bind: Address already in use")], False),
    ],
    ids=["nor without a tracer", "the copy starts", "copies never start", "port"],
)
def test_a_traced_start_that_fails(recovery, ends, accused):
    """The tracer or its fault is the cause, unless the data fail without both."""
    start, broker, _ = recovery(*ends)

    if accused:
        assert Phase.FAIL is start.start(broker.start).phase
    else:
        with pytest.raises(LaunchError, match="the broker failed"):
            start.start(broker.start)


# Of each other broker: how its start ends, and how the client's visit does.
@pytest.mark.parametrize(
    ("ends", "phase", "words"),
    [
        ([None, DEAD, None, None], Phase.FAIL, "on a copy of the same data and on other ports"),
        ([DEAD, None, None], Phase.FAIL, "on a copy of the same data and on other ports"),
        ([None, failed("page 3 is gone"), None, None, None, None], Phase.FAIL, "page 3 is gone"),
        ([None, None], Phase.INFO, "and a client used its queue"),
    ],
    ids=["the same end", "it does not even start", "another end", "the copy lives"],
)
def test_a_broker_that_ends_after_it_was_ready_again(recovery, ends, phase, words):
    """Its data are the cause if a second broker ends on them, and one without data serves the same client."""
    judge, _, _ = recovery(None, *ends)

    found = judge.died(DEAD, "orders")

    assert (phase, True) == (found.phase, words in found.reason), found.reason


@pytest.mark.parametrize(
    "ends",
    [
        (failed(failure=StartFailure.SIGNALLED),),
        (failed("java.lang.OutOfMemoryError: Java heap space"),),
        (DEAD, None, DEAD, None, DEAD),
    ],
    ids=["killed", "memory", "the client ends each broker"],
)
def test_an_end_that_is_not_the_data(recovery, ends):
    first, *others = ends
    judge, _, _ = recovery(None, *others)

    with pytest.raises(LaunchError):
        judge.died(first, "orders")


def test_a_broker_that_refuses_to_start_after_a_kill(play):
    kill = Kill(Nth("confirm", 20))
    record, folder = play(
        Publish(5_000, window=10, until=kill), Restart(), *SETTLE, liar="refuses-to-start-with-messages"
    )
    events = [event for event in events_of(folder, "orchestrator") if event.op is Op.BROKER]

    assert "" == record.void
    assert [("kill", Phase.OK), ("start", Phase.INVOKE)] == [(event.detail, event.phase) for event in events[:-1]]
    assert Phase.FAIL is events[-1].phase
    assert events[-1].detail.startswith("not recovered: Reference broker")
    assert 2 == events[-1].detail.count("is not taken over")
    assert not list(folder.glob("drain-*"))


def test_a_broker_that_ends_when_it_is_used_after_a_kill(play):
    steps = (Publish(5_000, window=10, until=Kill(Nth("confirm", 20))), Restart(), *SETTLE)
    record, folder = play(*steps, liar="ends-at-the-first-consumer-after-recovery")
    last = [event for event in events_of(folder, "orchestrator") if event.op is Op.BROKER][-1]

    assert ("", Phase.FAIL) == (record.void, last.phase)
    assert last.detail.startswith("not recovered: Reference broker")
    assert "died by itself (status 1)" in last.detail
    assert 2 == last.detail.count("no consumer is served")
    assert Ended.FINISHED is history.read(folder / "drain-1.jsonl").footer.ended


@pytest.mark.parametrize(
    ("first", "liar", "phase"),
    [
        (Publish(1, window=1), "refuses-to-start-with-messages", Phase.FAIL),
        (Publish(1, window=1), None, None),
        pytest.param(
            Restart(clean=True, under=Watched()), "refuses-to-start-with-messages", Phase.FAIL, marks=needs_tracer
        ),
    ],
    ids=["plain", "honest", "traced"],
)
def test_a_broker_that_does_not_start_for_the_next_trial(play, first, liar, phase):
    """The previous trial left it killed: it has not recovered, and this trial shows it."""
    kill = Publish(5_000, window=10, until=Kill(Nth("confirm", 20)))
    record, folder = play(first, Drain(), before=[kill], liar=liar)
    ends = [event for event in events_of(folder, "orchestrator") if event.op is Op.BROKER]

    assert "" == record.void
    assert phase == (ends[-1].phase if ends else None)
    assert (2 if liar else 0) == sum(event.detail.count("is not taken over") for event in ends)
