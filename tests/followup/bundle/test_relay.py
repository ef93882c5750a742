"""The relay of `reproduce.py` names frames as the suite's link proxy does, and cuts at the given place."""

import argparse
import shlex
import socket
import struct
import subprocess
import threading

import pytest
from reproductions import names_of
from starts import starts_process

from conformance.protocols import link_reading
from conformance.protocols import reader as frames
from conformance.scenario import Scenario
from conformance.scenario.script import Consume, Cut, Drain, Frame, Publish

PATIENCE = 20
SEND = b"SEND\ndestination:q\nreceipt:%d\n\n123456789\0"
RECEIPT = b"RECEIPT\nreceipt-id:%d\n\n\0"


STEPS = (Publish(20, window=5, batch=5), Consume("individual", until=Cut(Frame("answer", 3))), Drain())


def module(protocol):
    """The names of a script that publishes in transactions, and consumes over the relay."""
    return names_of(Scenario("s", "", "", STEPS, {}), protocol, anomalies=["available_undischarged"])


def words_for(port):
    return argparse.Namespace(address=f"127.0.0.1:{port}", queue="orders", silence=0.2, user=None, password=None)


@pytest.fixture
@starts_process
def bundled(tmp_path, python_path, started):
    """The ports of a bundled broker."""
    ports, line = started(tmp_path, [])
    with subprocess.Popen(shlex.split(line), env=python_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline().startswith("ready")
        yield ports
        process.kill()


@pytest.mark.parametrize("protocol", ["amqp", "stomp"])
def test_frames_are_named_as_the_link_names_them(bundled, protocol):
    """Commits, rollbacks, sends, acknowledgements and every answer, of a conversation with a real broker."""
    names = module(protocol)
    named, splitters = [], dict(zip((True, False), link_reading(protocol).readers(), strict=True))

    def both(frame, to_broker, asked, kind_of=names["kind_of"]):
        named.append((kind_of(frame, to_broker, asked), [each.kind for each in splitters[to_broker].feed(frame)]))
        return named[-1][0]

    names["kind_of"] = both
    notes = names["Notes"]()
    for work in (
        lambda words: names["publish_in_transactions"](words, notes, count=20, batch=5, size=256, rollback_every=2),
        lambda words: names["consume"](words, notes, mode="individual", prefetch=50, confirm=True, stop=10),
    ):
        splitters = dict(zip((True, False), link_reading(protocol).readers(), strict=True))
        work(names["Cut"](words_for(bundled[protocol]), "send", 4000, "after", "rst").words)
    own = [kind for kind, _ in named if kind]

    assert own == [kind for _, kinds in named for kind in kinds if kind != frames.OTHER]
    assert {"send", "answer", "deliver", "acknowledge", "begin", "commit", "rollback"} <= set(own)
    assert {"begin_answer", "commit_answer", "rollback_answer"} <= set(own)
    assert (20, 4, 2, 2) == tuple(own.count(kind) for kind in ("send", "begin", "commit", "rollback"))


@pytest.mark.parametrize(("where", "passed"), [("before", 0), ("middle", len(SEND % 3) // 2), ("after", len(SEND % 3))])
@pytest.mark.parametrize("how", ["rst", "fin"])
def test_it_cuts_at_the_given_place(how, where, passed):
    """So many bytes have passed, and both ends read a reset, or an end of stream."""
    names = module("stomp")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        fault = names["Cut"](words_for(listening.getsockname()[1]), "send", 3, where, how)
        address = fault.words.address.rsplit(":", 1)
        with socket.create_connection((address[0], int(address[1]))) as client, listening.accept()[0] as broker:
            for end in (client, broker):
                end.settimeout(PATIENCE)
            client.sendall(b"\n" + b"".join(SEND % number for number in range(1, 6)))
            ends = [read(broker), read(client)]

    assert [(b"\n" + SEND % 1 + SEND % 2 + (SEND % 3)[:passed], how), (b"", how)] == ends
    assert (True, 3) == (fault.fired, fault.seen)


def read(end):
    """What comes until the end, and which end it is; its own is closed then."""
    data = b""
    try:
        while more := end.recv(1 << 16):
            data += more
    except ConnectionResetError:
        return data, "rst"
    end.shutdown(socket.SHUT_WR)
    return data, "fin"


def test_an_answer_that_is_cut_off():
    """Towards the client; what it was for is known from the request."""
    names = module("stomp")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        fault = names["Cut"](words_for(listening.getsockname()[1]), "answer", 2, "before", "rst")
        address = fault.words.address.rsplit(":", 1)
        with socket.create_connection((address[0], int(address[1]))) as client, listening.accept()[0] as broker:
            for end in (client, broker):
                end.settimeout(PATIENCE)
            client.sendall(SEND % 1 + SEND % 2 + b"SUBSCRIBE\nreceipt:3\n\n\0")
            answering = threading.Thread(target=answer, args=(broker, 1, 3, 2))
            answering.start()
            ends = read(client)
            answering.join(PATIENCE)

    assert (RECEIPT % 1 + RECEIPT % 3, "rst") == ends
    assert (True, 2) == (fault.fired, fault.seen)


def answer(broker, *numbers):
    """When all was asked."""
    data = b""
    while data.count(b"\0") < len(numbers):
        data += broker.recv(1 << 16)
    for number in numbers:
        broker.sendall(RECEIPT % number)


def test_a_connection_that_ends_by_itself_is_no_cut():
    """The relay passes the end on, and what was to be tried was not."""
    names = module("stomp")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        fault = names["Cut"](words_for(listening.getsockname()[1]), "send", 3, "after", "rst")

        def work():
            address = fault.words.address.rsplit(":", 1)
            with socket.create_connection((address[0], int(address[1]))) as client:
                listening.accept()[0].close()
                client.settimeout(PATIENCE)
                assert b"" == client.recv(1)
            raise names["Ended"]("it went")

        with pytest.raises(names["CannotTry"], match="ended before it was cut: it went"):
            names["until_cut"](fault, work)
        with pytest.raises(names["CannotTry"], match="did not fire: 0 of 3 send frames"):
            names["until_cut"](fault, lambda: None)


def performative(code, fields, *, wide):
    """A frame with this performative; its code and its list in the long or in the short form."""
    body = b"".join(fields)
    head = (
        b"\0\x80" + code.to_bytes(8, "big") + b"\xd0" + struct.pack(">II", len(body) + 4, len(fields))
        if wide
        else bytes([0, 0x53, code, 0xC0, len(body) + 1, len(fields)])
    )
    return struct.pack(">IBBH", 8 + len(head + body), 2, 0, 0) + head + body


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("to_broker", [False, True])
@pytest.mark.parametrize("role", [b"\x41", b"\x42", b"\x56\x01", b"\x56\x00"])
def test_either_form_of_a_disposition(wide, to_broker, role):
    """AMQP 1.0 section 1.6: brokers write codes, lists and booleans in the form that they like."""
    frame = performative(0x15, [role, b"\x43", b"\x40", b"\x41"], wide=wide)
    (seen,) = link_reading("amqp").readers()[0 if to_broker else 1].feed(frame)

    assert seen.kind == (module("amqp")["kind_of"](frame, to_broker, []) or frames.OTHER)


def test_frames_without_a_performative():
    """Headers and heartbeats pass, and a frame that has not come whole is waited for."""
    names = module("amqp")
    header, beat = b"AMQP\0\1\0\0", struct.pack(">IBBH", 8, 2, 0, 0)

    assert ["", ""] == [names["kind_of"](frame, True, []) for frame in (header, beat)]
    assert [8, 8, 0, 0] == [names["length"](data) for data in (header + beat, beat + b"x", header[:7], beat[:3])]
    assert [0, 20] == [names["length"](struct.pack(">IBBH", 20, 2, 0, 0) + b"x" * more) for more in (11, 12)]
