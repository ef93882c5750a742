"""Settings with a list of values, and the journal types of Artemis: what is asked for, and what is in force."""

import contextlib
import ctypes
import signal
import socket
import time

import pytest

from conformance import adapters, claims, history, scenario
from conformance.adapters import parse_assignments
from conformance.adapters.file.model import Setting
from conformance.adapters.file.settings import ignored_setting
from conformance.campaign import Options, prepare
from conformance.errors import LaunchError, UsageError
from conformance.faults import possible
from conformance.faults.disk import injection
from conformance.faults.disk.access import JournalAccess
from conformance.faults.disk.trace import Operation
from conformance.faults.power import image, loss
from conformance.faults.power.image import LossyDisk
from conformance.faults.process import prove_gone
from conformance.history import Op, Phase, bare_header, make_body
from conformance.processes import send_all
from conformance.scenario import Weakened
from conformance.scenario.script import HeldSync

ARTEMIS = adapters.find("artemis")


def _libaio():
    with contextlib.suppress(OSError):
        return bool(ctypes.CDLL("libaio.so.1"))
    return False


libaio = pytest.mark.skipif(not _libaio(), reason="libaio.so.1 is not installed (Debian: libaio1)")


# Words.


def test_a_value_of_the_list_is_taken_as_the_product_names_it():
    assert {"journal_type": "ASYNCIO"} == parse_assignments(["journal_type=ASYNCIO"], ARTEMIS.file)
    assert {"ASYNCIO", "MAPPED", "NIO"} == ARTEMIS.file.settings["journal_type"].choices.keys()


@pytest.mark.parametrize("given", ["asyncio", "ASYNCIO2"])
def test_another_is_refused_with_the_closest(given):
    words = f"unknown journal_type of artemis '{given}': did you mean 'ASYNCIO'. known: ASYNCIO, MAPPED, NIO"
    with pytest.raises(UsageError, match=words):
        parse_assignments([f"journal_type={given}"], ARTEMIS.file)
    with pytest.raises(UsageError, match=words):
        ARTEMIS.effective({"journal_type": given})


def test_our_instance_has_nio_and_the_product_has_libaio_where_the_key_is_absent():
    ours, chosen = ARTEMIS.effective(), ARTEMIS.effective({"journal_type": "ASYNCIO"})

    assert ("NIO", "ASYNCIO") == (ours.values["journal_type"], chosen.values["journal_type"])
    assert "journal_type" not in ours.absent | chosen.absent
    assert ({}, {"journal_type": "ASYNCIO"}) == (ours.changed, chosen.changed)
    assert "ASYNCIO" == ARTEMIS.file.settings["journal_type"].default


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"default": "C"}, "'C' is not one of its choices: A, B"),
        ({"stock": "C"}, "'C' is not one of its choices: A, B"),
        ({"words": ("list",)}, "either choices or words"),
        ({"type": "bool", "default": True}, "True is not one of its choices"),
        ({"choices": {"A": {"log": "x"}}}, "log"),
    ],
)
def test_a_list_that_cannot_be_is_refused(change, words):
    good = {"type": "word", "default": "A", "choices": {"A": {}, "B": {}}, "xml": "core/a", "description": "a"}
    assert Setting.model_validate(good).takes("B")

    with pytest.raises(Exception, match=words):
        Setting.model_validate(good | change)


@pytest.mark.parametrize(
    ("asked", "said", "expected"),
    [
        ("NIO", "AMQ221013: Using NIO Journal", ""),
        ("ASYNCIO", "AMQ221012: Using AIO Journal", ""),
        ("ASYNCIO", "not there yet", ""),
        ("ASYNCIO", "AMQ222018: AIO was not located\nAMQ221013: Using NIO Journal", "which needs libaio"),
        ("MAPPED", "AMQ221013: Using NIO Journal", "runs with journal_type=NIO, not with MAPPED"),
        ("NIO", "AMQ221012: Using AIO Journal", "runs with journal_type=ASYNCIO, not with NIO"),
    ],
)
def test_what_a_log_says_against_the_settings(asked, said, expected):
    found = ignored_setting(ARTEMIS.file, ARTEMIS.effective({"journal_type": asked}), said)

    assert bool(expected) == bool(found)
    assert expected in found


@pytest.mark.parametrize(("journal", "hidden"), [("NIO", ""), ("ASYNCIO", ""), ("MAPPED", "is mapped")])
def test_what_no_tracer_can_fail_is_not_tried(journal, hidden, monkeypatch):
    """A full disk would be no fault there. Its syncs are held.

    On a machine that can take every fault.
    """
    monkeypatch.setattr(possible.ThisMachine, "lacks", lambda machine, means: "")
    prepared = prepare(Options("artemis", claims=("ARTEMIS-SEND-09",), settings=(f"journal_type={journal}",), seed=1))
    unable = {name: why for name, why in prepared.selection.unable.items() if "journal_type" in why}
    played = {trial.script.id for trial in prepared.trials if trial.arm == "subject"}

    assert (["disk_full", "failed_sync"] if hidden else []) == sorted(unable)
    assert all(hidden in why for why in unable.values())
    assert bool(hidden) != bool(played & {"disk-full-while-publishing", "sync-fails-while-publishing"})
    assert "sync-held-while-sending" in played


# Artemis itself.


class Stomp:
    """Sends persistent messages, one after the other, each with a receipt."""

    def __init__(self, broker):
        self._socket = socket.create_connection(broker.endpoint("stomp"), timeout=20)
        assert b"CONNECTED" in self._ask(b"CONNECT\naccept-version:1.2\nhost:localhost\n\n")

    def send(self, number):
        """What was asked, and when the receipt was read."""
        message, asked = f"p1:{number}", time.monotonic_ns()
        head = f"SEND\ndestination:orders\ndestination-type:ANYCAST\npersistent:true\nreceipt:{number}\n\n"
        assert b"RECEIPT" in self._ask(head.encode() + make_body(message, 256))
        return Operation(message, asked, f"{message}.".encode())

    def messages(self, last):
        """Ids of the messages of the queue, up to one that is sent now."""
        self.send(last)
        self._say(b"SUBSCRIBE\nid:1\ndestination:orders\nsubscription-type:ANYCAST\nack:auto\n\n")
        found, mark = b"", f"p1:{last}.".encode()
        while mark not in found:
            found += self._socket.recv(65536)
        return [number for number in range(last) if f"p1:{number}.".encode() in found]

    def _say(self, frame):
        self._socket.sendall(frame + b"\0")

    def _ask(self, frame):
        self._say(frame)
        answer = b""
        while not answer.rstrip(b"\n").endswith(b"\0"):
            more = self._socket.recv(4096)
            assert more, answer
            answer += more
        return answer

    def close(self):
        self._socket.close()


def prepared(tmp_path, ledger, **settings):
    return ARTEMIS.prepare(tmp_path / "broker", ARTEMIS.effective(settings), ["orders"], ledger)


@pytest.mark.artemis
def test_a_broker_that_fell_back_is_no_broker_of_that_journal(tmp_path, ledger, monkeypatch):
    """It goes on with NIO and a warning; a library that cannot be loaded is the same as none."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libaio.so.1").touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path / "lib"))

    with (
        prepared(tmp_path, ledger, journal_type="ASYNCIO") as broker,
        pytest.raises(LaunchError, match=r"runs with journal_type=NIO, not with ASYNCIO, which needs libaio") as error,
    ):
        broker.start()

    assert "AMQ222018" in broker.log.read_text()
    assert broker.gone()
    assert str(broker.log) == error.value.log


traced = pytest.mark.skipif(bool(injection.cannot()), reason=injection.cannot() or "-")


def under_held_syncs(tmp_path, ledger, reached, **settings):
    """Send two messages, one after the other: the events of syncs, and when each message was confirmed."""
    with prepared(tmp_path, ledger, **settings) as broker:
        files = broker.journal_files.names
        tracer = injection.Tracer(broker.folder / "trace", broker.journal, HeldSync(0.1), files=files, reached=reached)
        broker.start(wrap=tracer.wrap)
        tracer.look()
        client = Stomp(broker)
        sent = [(client.send(number), time.monotonic_ns()) for number in range(2)]
        client.close()
        injection.end(broker)
        operations = [operation for operation, _ in sent]
        tracer.finish(tmp_path / "disk.jsonl", bare_header("disk"), broker.epoch, operations)
    events = history.read(tmp_path / "disk.jsonl").events
    return [event for event in events if event.op is Op.SYNC], {operation.key: at for operation, at in sent}


@pytest.mark.artemis
@traced
@pytest.mark.parametrize(
    ("journal", "hidden"),
    [
        pytest.param("ASYNCIO", "the broker uses libaio: its writes name no file", marks=libaio),
        ("MAPPED", "activemq-data-1.amq is mapped: writes through memory cannot be seen"),
    ],
)
def test_what_the_tracer_cannot_see_is_said_and_never_judged(tmp_path, ledger, journal, hidden):
    """Of a tracer that does not know by what calls its journal is reached: neither a sync in time nor one too late."""
    events, _ = under_held_syncs(tmp_path, ledger, None, journal_type=journal)

    assert {Phase.INFO} == {event.phase for event in events}
    assert any(event.detail.startswith(hidden) for event in events)


@pytest.mark.artemis
@traced
@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize(
    ("journal", "reached"),
    [
        pytest.param("ASYNCIO", JournalAccess(libaio=True), marks=libaio),
        ("MAPPED", JournalAccess(mapped=frozenset({"activemq-data-1.amq"}))),
    ],
)
def test_the_syncs_of_each_journal_are_held_and_seen(tmp_path, ledger, journal, reached, waits):
    events, confirmed = under_held_syncs(
        tmp_path, ledger, reached, journal_type=journal, sync_non_transactional=waits, sync_transactional=waits
    )
    synced = {event.message: event for event in events if event.phase is Phase.OK}

    hidden = [event.detail for event in events if event.phase is Phase.INFO]
    assert (journal == "MAPPED" and not waits) == bool(hidden)  # it makes no msync then
    assert waits == all(key in synced and synced[key].at_ns <= at for key, at in confirmed.items())
    assert all(event.fault == "held_sync" for event in synced.values())


def _controls():
    """By claim: the strong controls of what a power loss decides."""
    scenarios = [
        item for item in scenario.load(claims.load()).values() if "power_loss" in {f.name for f in item.faults}
    ]
    checks = [pair for item in scenarios for pair in item.decides.items()]
    return {claim: check.control for claim, check in checks if isinstance(check.control, Weakened)}


def test_every_control_of_a_power_loss_keeps_its_answers_in_the_buffer():
    """With the 0.5 ms of an ASYNCIO journal sync_non_transactional=false lost nothing in 3 power losses."""
    controls = _controls()

    assert {"ARTEMIS-SEND-09", "ARTEMIS-SEND-10", "ARTEMIS-TX-03", "ARTEMIS-TX-07"} <= controls.keys()
    assert {500} == {dict(control.settings).get("journal_buffer_ms") for control in controls.values()}


@pytest.mark.artemis
@libaio
@pytest.mark.skipif(bool(image.cannot()), reason=image.cannot() or "-")
def test_a_power_loss_takes_what_libaio_had_not_been_given(tmp_path, ledger):
    """What it was given survives, synced or not: so the control of the scenario keeps it in the broker's own buffer."""
    settings = {"journal_type": "ASYNCIO", **dict(_controls()["ARTEMIS-SEND-10"].settings)}
    with (
        prepared(tmp_path, ledger, **settings) as broker,
        LossyDisk.make(ledger, tmp_path / "disk.img", broker.data) as lost,
    ):
        broker.start()
        client = Stomp(broker)
        with lost.handle() as descriptor, broker.target.armed("kill") as descriptors:
            # At once after the last answer: the broker gives away what it has each half second.
            sent = [client.send(number) for number in range(100)]
            loss.lose(descriptor)
            send_all(descriptors, signal.SIGKILL)
        client.close()
        prove_gone(broker, "power loss")
        lost.after_loss()
        broker.start()
        client = Stomp(broker)
        left = client.messages(100)
        client.close()
        broker.close()

    assert len(left) < len(sent)
