"""A proxy between real clients and brokers, and raw sockets: what passes, what each fault does, how it ends."""

import asyncio
import contextlib
import fcntl
import os
import pathlib
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time

import pytest
from job_rig import make_job
from starts import starts_process

from benchmarks import link as link_bench
from conformance import adapters, history
from conformance.clients.roles.modes import AckHeader
from conformance.clients.roles.play import connect
from conformance.clients.session import Disconnected
from conformance.errors import FaultError
from conformance.faults.link.connection import ArmedLinkFault, ProxyConnection
from conformance.faults.link.harness import LinkProxy, prove
from conformance.history import Ended, Op, Phase, bare_header
from conformance.ledger import Ledger
from conformance.protocols.reader import TO_CLIENT
from conformance.scenario.script import Between, Cut, Delay, Frame, HoldLink, Throttle

HOST = "127.0.0.1"
PATIENCE = 20


def sends(*numbers):
    return b"".join(b"SEND\ndestination:q\ncontent-length:9\nreceipt:%d\n\n123456789\0" % n for n in numbers)


def receipts(*numbers):
    return b"".join(b"RECEIPT\nreceipt-id:%d\n\n\0" % n for n in numbers)


def large_send(body):
    return b"SEND\ncontent-length:%d\n\n%s\0" % (len(body), body)


@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path / "run", f"link-{os.getpid()}") as ledger:
        yield ledger


@pytest.fixture
def upstream():
    """A listening socket in the place of a broker."""
    with socket.create_server((HOST, 0)) as listening:
        listening.settimeout(PATIENCE)
        yield listening


@pytest.fixture
@starts_process
def link(ledger, tmp_path):
    """Starts links; they end with the test."""
    with contextlib.ExitStack() as stack:
        count = [0]

        def start(upstream, fault=None, protocol="stomp"):
            count[0] += 1
            header = bare_header("x")
            return stack.enter_context(LinkProxy(ledger, tmp_path, header, upstream, protocol, fault, number=count[0]))

        yield start


@pytest.fixture
def wire(link, upstream):
    """Starts a link to `upstream`; returns it with both ends of one connection through it."""

    def start(fault=None, protocol="stomp"):
        between = link(upstream.getsockname(), fault, protocol)
        return between, *dial(between, upstream)

    return start


def dial(between, upstream):
    """Both ends of one more connection through a link."""
    client = socket.create_connection((HOST, between.port), timeout=PATIENCE)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    peer, _ = upstream.accept()
    peer.settimeout(PATIENCE)
    return client, peer


def read(end, size):
    data = b""
    while len(data) < size:
        piece = end.recv(size - len(data))
        if not piece:
            break
        data += piece
    return data


def until_end(end):
    """Return the bytes until the end of the stream, and whether that was a reset."""
    data = b""
    try:
        while piece := end.recv(1 << 16):
            data += piece
    except ConnectionResetError:
        return data, True
    return data, False


def reset(end):
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    end.close()


def is_silent(end, seconds=0.1):
    return not select.select([end], [], [], seconds)[0]


def events(link):
    """The history of a link that has ended, read strictly."""
    found = history.read(link.history)
    assert Ended.FINISHED is found.footer.ended
    return found.events


def faults(link):
    return [event.phase for event in events(link) if event.op is Op.FAULT]


def passed(link):
    """The phase of each frame: OK if it was passed on."""
    return [event.phase for event in events(link) if event.op is Op.FRAME]


def bytes_reached(link):
    """The bytes of each connection that reached its client, from the link's history."""
    return [event.count for event in events(link) if event.op is Op.CONNECT]


# real clients and the bundled broker


@pytest.fixture(scope="module")
@starts_process
def broker(tmp_path_factory):
    """The bundled broker, with a queue for each test that asks for one."""
    reference = adapters.find("reference")
    folder = tmp_path_factory.mktemp("broker")
    queues = [f"q{n}" for n in range(12)]
    with (
        Ledger(folder, f"link-broker-{os.getpid()}") as ledger,
        reference.prepare(folder / "broker", reference.effective({}), queues, ledger) as broker,
    ):
        broker.start()
        broker.free = iter(queues)
        yield broker


@pytest.fixture
def session():
    """Opens real sessions; they end with the test."""
    with contextlib.ExitStack() as stack:

        def start(protocol, port):
            job = make_job(host=HOST, port=port, protocol=protocol, queue="", ack_confirm="disposition")
            return stack.enter_context(contextlib.closing(connect(job, lambda: None)))

        yield start


@pytest.fixture
def sender(link, broker, session):
    """Starts a link to the broker; returns it with a sender through it, and the name of its queue."""

    def start(protocol, fault=None):
        between = link(broker.endpoint(protocol), fault, protocol)
        client, queue = session(protocol, between.port), next(broker.free)
        client.attach_sender(queue)
        pump(client, client.sendable)
        return between, client, queue

    return start


@pytest.fixture
def stored(broker, session):
    """Returns the messages of a queue, once so many have come."""

    def read_all(protocol, queue, count):
        other = session(protocol, broker.endpoint(protocol)[1])
        other.attach_receiver(queue, 10, AckHeader.INDIVIDUAL)
        pump(other, lambda: len(other.incoming) >= count)
        other.pump(0.2)
        return [received.message for received in other.incoming]

    return read_all


def pump(session, done):
    deadline = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < deadline
        session.pump(deadline - time.monotonic())


@pytest.mark.parametrize("protocol", ["amqp", "stomp"])
def test_a_real_session_is_seen_whole(sender, protocol):
    """Sends, a transaction, deliveries and acknowledgements, and every byte of them counted once."""
    between, client, queue = sender(protocol)
    client.send("p1:1", b"one", durable=True)
    client.begin("t")
    pump(client, lambda: client.answers and client.outcomes)
    client.answers.clear()
    client.send("p1:2", b"two", durable=True, transaction="t")
    client.pump(0)
    client.commit("t")
    pump(client, lambda: client.answers)
    client.answers.clear()
    client.attach_receiver(queue, 10, AckHeader.INDIVIDUAL)
    pump(client, lambda: len(client.incoming) == 2)
    client.acknowledge(client.incoming, confirmed=True)
    pump(client, lambda: len(client.answers) == 2)
    client.close()
    result = between.finish()
    *seen, last = events(between)
    words = {
        "amqp": ["transfer handle=0", "transfer handle=1 commit", "of commit", "by the sender"],
        "stomp": ["SEND receipt=", "COMMIT receipt=", "of COMMIT", "of ACK"],
    }[protocol]

    assert [True] * 4 == [any(word in event.detail for event in seen) for word in words]
    assert {(Op.FRAME, Phase.OK, 1)} == {(event.op, event.phase, event.connection) for event in seen}
    assert {"to_broker", "to_client"} == {event.link for event in seen}
    assert (1, len(seen), "") == (result.connections, result.frames, result.unreadable)
    assert len({event.transaction for event in seen} - {None}) == 1
    assert [(way, f"p1:{n}") for way in ("to_broker", "to_client") for n in (1, 2)] == [
        (event.link, event.message) for event in seen if event.message
    ]
    assert (Op.CONNECT, Phase.INFO, 1, "to_client") == (last.op, last.phase, last.connection, last.link)
    assert sum(event.count for event in seen if event.link == "to_client") <= last.count


@pytest.mark.parametrize("protocol", ["amqp", "stomp"])
def test_a_frame_that_was_cut_in_its_middle_is_not_stored(sender, stored, protocol):
    """Half of the third of five sends arrives: the queue holds the two before it."""
    fault = Cut(Frame("send", 3, "middle"), "fin")
    between, client, queue = sender(protocol, fault)
    for n in range(5):
        client.send(f"m{n}", b"x" * 1000, durable=True)
    with pytest.raises(Disconnected):
        pump(client, lambda: False)
    prove(fault, between.finish())

    assert ["m0", "m1"] == stored(protocol, queue, 2)


@pytest.mark.parametrize("protocol", ["amqp", "stomp"])
def test_a_commit_is_cut_from_its_answer(sender, stored, protocol):
    """The broker has committed, and the client gets no answer."""
    fault = Cut(Frame("commit_answer", 1, "before"), "rst")
    between, client, queue = sender(protocol, fault)
    client.begin("t")
    pump(client, lambda: client.answers)
    client.answers.clear()
    client.send("m1", b"x", durable=True, transaction="t")
    pump(client, lambda: client.outcomes)
    client.commit("t")
    with pytest.raises(Disconnected):
        pump(client, lambda: client.answers)
    prove(fault, between.finish())

    assert [] == list(client.answers)
    assert ["m1"] == stored(protocol, queue, 1)


def test_a_cut_after_a_send_comes_before_its_answer(sender, stored):
    """Sends one at a time: the broker has each, and the client has the answers of all but the last."""
    between, client, queue = sender("amqp", Cut(Frame("send", 4), "rst"))
    with pytest.raises(Disconnected):
        for n in range(10):
            client.send(f"m{n}", b"x", durable=True)
            pump(client, lambda n=n: len(client.outcomes) > n)
    between.finish()

    assert ["m0", "m1", "m2", "m3"] == stored("amqp", queue, 4)
    assert ["m0", "m1", "m2"] == [outcome.message for outcome in client.outcomes]


def test_a_delay_makes_every_round_trip_longer(sender):
    """Of a real client."""
    fault = Delay(rtt_ms=40)
    between, client, _ = sender("amqp", fault)
    took = []
    for n in range(5):
        started = time.monotonic()
        client.send(f"m{n}", b"x", durable=True)
        pump(client, lambda n=n: len(client.outcomes) > n)
        took.append(time.monotonic() - started)
    client.close()

    assert 0.04 <= min(took) < 0.2
    prove(fault, between.finish())


# what passes


def test_fewer_bytes_reach_a_client_than_were_passed_on(wire):
    """A client reads nothing and dies: most of some megabytes stayed in the kernel and the proxy on this side."""
    between, client, peer = wire()
    body = 1 << 12
    message = b"MESSAGE\ncontent-length:%d\n\n" % body + bytes(body + 1)
    sent = 0
    peer.setblocking(False)
    while sent < 8 << 20 and select.select([], [peer], [], 0.5 if sent > 1 << 20 else PATIENCE)[1]:
        sent += peer.send((message * 2)[sent % len(message) :][: len(message)])
    there = struct.unpack("i", fcntl.ioctl(client, termios.FIONREAD, bytes(4)))[0]
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)  # its kernel owes no delayed acknowledgement
    reset(client)
    peer.settimeout(PATIENCE)
    assert (b"", True) == until_end(peer)
    between.finish()

    (reached,) = bytes_reached(between)
    assert 0 < there <= reached < len(message) * passed(between).count(Phase.OK) - len(message)


@pytest.mark.parametrize("by_reset", [False, True])
def test_all_bytes_that_a_client_has_read_count_as_reached(wire, by_reset):
    """For every way to end, from either side; the end of the stream may count as one more byte."""
    between, client, peer = wire()
    peer.sendall(receipts(1, 2))
    assert receipts(1, 2) == read(client, len(receipts(1, 2)))
    (reset if by_reset else socket.socket.close)(client)
    assert (b"", by_reset) == until_end(peer)
    peer.close()
    between.finish()

    assert bytes_reached(between)[0] - len(receipts(1, 2)) in (0, 1)


async def _reset_while_the_broker_sends(pairs, folder):
    """The broker's socket is read before the client's, as the loop may do when both are readable."""
    (client, to_client), (broker, to_broker) = pairs
    recorder = history.Recorder(folder / "link.jsonl", bare_header("link"))
    ended = asyncio.Event()
    between = ProxyConnection(
        1, to_client, to_broker, "stomp", ArmedLinkFault(None, recorder, 1), lambda _: ended.set()
    )
    client.sendall(sends(1))  # on its way before the reset
    reset(client)
    broker.sendall(receipts(1))
    assert select.select([to_broker], [], [], PATIENCE)[0]
    between._directions[TO_CLIENT]._on_readable()
    await asyncio.wait_for(ended.wait(), PATIENCE)
    recorder.close()


def test_a_reset_that_a_write_reported_is_passed_on_as_one(tmp_path):
    """The kernel reports it once: after the write that got it, a read of the same socket gives an orderly end."""
    pairs = []
    for _ in range(2):
        with socket.create_server((HOST, 0)) as listening:
            theirs = socket.create_connection(listening.getsockname())
            ours = listening.accept()[0]
            ours.setblocking(False)
            pairs.append((theirs, ours))
    asyncio.run(_reset_while_the_broker_sends(pairs, tmp_path))
    broker = pairs[1][0]
    broker.settimeout(PATIENCE)

    assert (sends(1), True) == until_end(broker)


def at_once(*work):
    """Run these calls in threads, and wait for them."""
    threads = [threading.Thread(target=call, args=words) for call, *words in work]
    for each in threads:
        each.start()
    for each in threads:
        each.join(PATIENCE)


@pytest.mark.parametrize("fault", [None, Delay(2), Throttle(500_000_000)])
def test_bytes_arrive_as_they_were_sent(wire, fault):
    """Eight megabytes each way at once, of frames that are longer than any buffer, and of others."""
    between, client, peer = wire(fault)
    data = (large_send(os.urandom(1 << 20)) + b"\n" + sends(1) * 500) * 8
    got = {}
    ends = (client, peer)
    at_once(
        *((end.sendall, data) for end in ends),
        *((lambda end: got.update({end: read(end, len(data))}), end) for end in ends),
    )
    client.close()
    peer.close()

    assert (True, True) == (got[client] == data, got[peer] == data)
    result = between.finish()
    seen = [event for event in events(between) if event.op is Op.FRAME]
    assert result.frames == len(seen) == 2 * 8 * 502
    assert 2 * len(data) == sum(event.count for event in seen)


def test_a_frame_without_a_length_passes_when_it_is_whole(wire):
    """A megabyte without declared length, in pieces."""
    _, client, peer = wire()
    frame = b"SEND\n\n" + b"x" * (1 << 20)
    client.sendall(frame)
    silent = is_silent(peer)
    client.sendall(b"\0")

    assert silent
    assert frame + b"\0" == read(peer, len(frame) + 1)


def test_half_a_stream_stays_open(wire):
    """An end of stream is passed on, half a frame before it too; the other direction goes on."""
    _, client, peer = wire()
    client.sendall(b"SEN")
    client.shutdown(socket.SHUT_WR)

    assert (b"SEN", False) == until_end(peer)
    peer.sendall(receipts(1))
    peer.close()
    assert (receipts(1), False) == until_end(client)


def test_a_reset_is_passed_on_after_the_answers(wire):
    """Bytes that a broker sent before it died reach the client."""
    _, client, peer = wire()
    peer.sendall(receipts(*range(100)))
    read(client, 1)
    reset(peer)

    assert (receipts(*range(100))[1:], True) == until_end(client)


def test_a_slow_reader_slows_the_sender(wire):
    """The proxy keeps at most one buffer; the kernel's buffers add to that."""
    _, client, peer = wire()
    for end in (client, peer):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    client.setblocking(False)
    sent, frame = 0, large_send(bytes(65536))
    deadline = time.monotonic() + PATIENCE
    while select.select([], [client], [], 0.5)[1]:
        assert time.monotonic() < deadline
        with contextlib.suppress(BlockingIOError):
            sent += client.send(frame[sent % len(frame) :])

    assert sent < 40 << 20
    assert (frame * (sent // len(frame) + 1))[:sent] == read(peer, sent)


def test_a_link_listens_on_one_address(wire):
    """One that listened on all addresses would answer at this one too."""
    between, *_ = wire()

    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", between.port), timeout=PATIENCE)


def test_a_broker_that_does_not_listen(link):
    """The client's connection ends."""
    with socket.create_server((HOST, 0)) as closed:
        address = closed.getsockname()
    between = link(address)
    client = socket.create_connection((HOST, between.port), timeout=PATIENCE)

    assert b"" == until_end(client)[0]
    assert (0, 1) == (between.finish().connections, between.finish().refused)


def test_many_connections_at_once(link, upstream):
    """Each connection has its own peer, count of frames and number."""
    between = link(upstream.getsockname(), Cut(Frame("send", 2)))
    ends = [dial(between, upstream) for _ in range(100)]
    for number, (client, _) in enumerate(ends):
        client.sendall(sends(number))
    got = [read(peer, len(sends(number))) for number, (_, peer) in enumerate(ends)]
    for pair in ends:
        for end in pair:
            end.close()
    result = between.finish()

    assert [sends(number) for number in range(100)] == got
    assert (100, 1, False) == (result.connections, result.seen, result.fired)
    assert 100 == len({event.connection for event in events(between) if event.op is Op.FRAME})


NOT_FIRED = "the cut did not fire: {} frames that its trigger waits for"
HALF_OPEN, NO_TRAFFIC = Cut(Frame("send", 1), "half_open"), HoldLink(Frame("send", 1), "to_client", 0.05)


@pytest.mark.parametrize(
    ("fault", "asked", "answered", "says", "phases"),
    [
        (
            Cut(Frame("send", 2)),
            sends(1) + b"\0\0?",
            b"",
            NOT_FIRED.format("1 of the 2 send") + ".*is no command",
            ["armed"],
        ),
        (Cut(Frame("answer", 5)), b"", receipts(0, 1, 2), NOT_FIRED.format("3 of the 5 answer") + "$", ["armed"]),
        (HALF_OPEN, sends(1), b"", "the cut did not take effect", ["armed", "fired"]),
        (
            NO_TRAFFIC,
            sends(1),
            b"",
            "the hold_link did not take effect: no byte arrived that could be withheld",
            ["armed", "fired", "healed"],
        ),
    ],
    ids=["unreadable", "too few frames", "half open without traffic", "hold without traffic"],
)
def test_a_fault_without_effect_says_why(wire, fault, asked, answered, says, phases):
    """All bytes passed; the connection with the most frames counts."""
    between, client, peer = wire(fault)
    client.sendall(asked)
    peer.sendall(answered)
    assert (asked, answered) == (read(peer, len(asked)), read(client, len(answered)))
    assert is_silent(client, 0.3)

    with pytest.raises(FaultError, match=says):
        prove(fault, between.finish())
    assert phases == faults(between)


# cuts

AT = {"before": 2.0, "middle": 2.5, "after": 3.0}


@pytest.mark.parametrize("how", ["rst", "fin"])
@pytest.mark.parametrize("at", AT)
def test_a_cut_is_exact(wire, at, how):
    """Five frames leave in one write; the broker gets exactly the bytes before the cut."""
    fault = Cut(Frame("send", 3, at), how)
    between, client, peer = wire(fault)
    client.sendall(sends(*range(5)))

    assert (sends(*range(5))[: int(AT[at] * len(sends(1)))], how == "rst") == until_end(peer)
    assert (b"", how == "rst") == until_end(client)
    peer.close()
    client.close()
    result = between.finish()
    prove(fault, result)
    assert [Phase.ARMED, Phase.FIRED, Phase.EFFECTIVE] == faults(between)
    assert [Phase.OK] * int(AT[at]) + [Phase.FAIL] * (5 - int(AT[at])) == passed(between)
    assert (3 if how == "rst" else 5) <= result.seen


def test_a_reset_waits_for_the_bytes_before_it(wire, upstream):
    """A reset drops unsent bytes of the kernel: so a reader with a small window first gets the whole frame before it."""
    upstream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 13)
    _, client, peer = wire(Cut(Frame("send", 1)))
    frame = large_send(bytes(1_000_000))
    client.sendall(frame)

    assert (frame, True) == until_end(peer)


def test_only_one_connection_is_cut(wire, upstream):
    """The first connection that reaches the trigger; later ones pass, and open ones continue."""
    between, first, _ = wire(Cut(Frame("send", 2), "fin"))
    second, peer = dial(between, upstream)
    second.sendall(sends(1))
    first.sendall(sends(1, 2))
    assert (b"", False) == until_end(first)
    third, last = dial(between, upstream)
    second.sendall(sends(2, 3))
    third.sendall(sends(1, 2))

    assert sends(1, 2, 3) == read(peer, len(sends(1, 2, 3)))
    assert sends(1, 2) == read(last, len(sends(1, 2)))
    first.close()
    between.finish()
    assert [1] == [event.connection for event in events(between) if event.phase is Phase.FIRED]


def test_a_connection_that_falls_silent(wire):
    """No byte arrives on either side any more, and neither side gets an end of stream."""
    fault = Cut(Frame("send", 1), "half_open")
    between, client, peer = wire(fault)
    client.sendall(sends(1))
    assert sends(1) == read(peer, len(sends(1)))
    peer.sendall(receipts(1))
    client.sendall(sends(2))
    client.shutdown(socket.SHUT_WR)
    silent = (is_silent(client), is_silent(peer))
    result = between.finish()

    assert (True, True) == silent
    prove(fault, result)
    assert len(receipts(1)) + len(sends(2)) == result.affected
    assert [Phase.OK, Phase.FAIL, Phase.FAIL] == passed(between)
    assert (b"", b"") == (until_end(client)[0], until_end(peer)[0])


# holds, delays, narrow links


def test_a_hold_keeps_one_direction(wire):
    """From that byte on; the other direction continues; then all bytes come in order."""
    fault = HoldLink(Frame("answer", 2), "to_client", 1.0)
    between, client, peer = wire(fault)
    peer.sendall(receipts(0, 1, 2, 3))
    assert receipts(0, 1) == read(client, len(receipts(0, 1)))
    started = time.monotonic()
    client.sendall(sends(1))
    assert sends(1) == read(peer, len(sends(1)))
    through = time.monotonic() - started
    peer.sendall(receipts(4))
    peer.close()
    early = is_silent(client, 0.2)
    rest = until_end(client)
    took = time.monotonic() - started
    result = between.finish()

    assert (receipts(2, 3, 4), False) == rest
    assert (True, True, True) == (through < 0.8, early, took >= 0.95)
    prove(fault, result)
    assert (True, len(rest[0])) == (result.healed, result.affected)
    assert [Phase.ARMED, Phase.FIRED, Phase.EFFECTIVE, Phase.HEALED] == faults(between)


def test_a_hold_at_a_frame_of_the_other_direction(wire):
    """The trigger is in one direction, the hold in the other."""
    fault = HoldLink(Frame("send", 1, "before"), "to_client", 0.7)
    between, client, peer = wire(fault)
    client.sendall(sends(1))
    assert sends(1) == read(peer, len(sends(1)))
    peer.sendall(receipts(1))

    assert is_silent(client, 0.1)
    assert receipts(1) == read(client, len(receipts(1)))
    prove(fault, between.finish())


def test_a_delay_of_an_unknown_protocol(wire):
    """Artemis' core protocol: no frame is recorded, no byte is held back, and each round trip takes 40 ms longer."""
    between, client, peer = wire(Delay(rtt_ms=40), "core")
    took = []
    for _ in range(5):
        began = time.monotonic()
        client.sendall(b"\x00\x00")
        assert b"\x00\x00" == read(peer, 2)
        peer.sendall(b"AMQP")
        assert b"AMQP" == read(client, 4)
        took.append(time.monotonic() - began)
    client.close()
    result = between.finish()
    (armed,) = [event for event in events(between) if event.phase is Phase.ARMED]

    assert 0.04 <= min(took) < 0.2
    assert (0, "", 40_000) == (result.frames, result.unreadable, armed.count)
    prove(Delay(rtt_ms=40), result)


def test_a_delay_does_not_reduce_the_throughput(wire):
    """Thirty megabytes are in flight at once without waiting for an answer, and the order stays."""
    _, client, peer = wire(Delay(rtt_ms=1000))
    frame = large_send(os.urandom(1_000_000))
    work = threading.Thread(target=lambda: [client.sendall(frame) for _ in range(30)])
    started = time.monotonic()
    work.start()
    same = [frame == read(peer, len(frame)) for _ in range(30)]
    took = time.monotonic() - started
    work.join()

    assert [True] * 30 == same
    assert 0.5 <= took < 5  # one after the other they would take 15 s


def test_a_narrow_link_passes_so_many_bytes_a_second(wire):
    """Each direction for itself gets nearly the rate, and never more."""
    fault = Throttle(bytes_per_s=1_000_000)
    between, client, peer = wire(fault)
    frame = large_send(bytes(300_000))
    got = []
    started = time.monotonic()
    at_once(
        *((end.sendall, frame) for end in (client, peer)),
        *((lambda end: got.append(read(end, len(frame))), end) for end in (client, peer)),
    )
    took = time.monotonic() - started

    assert [frame] * 2 == got
    assert 0.29 <= took < 3
    prove(fault, between.finish())


# life and death


@pytest.mark.parametrize(
    ("fault", "word"),
    [
        (Cut(Frame("sent", 1)), "Invalid enum value 'sent'"),
        (Cut(Frame("send", Between(1, 9))), "its number was not drawn"),
        (None, "FileExistsError"),
    ],
)
def test_a_proxy_that_cannot_start_says_why(link, tmp_path, fault, word):
    """A fault that is not valid is never armed; a history that exists is not overwritten."""
    if fault is None:
        (tmp_path / "link-1.jsonl").write_text("")
    between = link((HOST, 1), fault)
    with pytest.raises(FaultError, match=f"the link proxy did not start: .*{word}"):
        _ = between.port
    with pytest.raises(FaultError, match="the link proxy died"):
        between.finish()


def test_an_ended_link_leaves_no_process_and_no_log(link, ledger, marked):
    """The ledger records the release; a second `finish` only repeats the result."""
    between = link((HOST, 1))
    pid = between.port and marked(ledger.run_id)
    result = between.finish()

    assert 1 == len(pid)
    assert result is between.finish()
    assert ([], False) == (marked(ledger.run_id), between.log.exists())
    assert '"state":"released"' in ledger.path.read_text()


def test_a_dead_link_proxy_is_an_error(link, ledger, marked):
    """Its history is closed as that of a dead process."""
    between = link((HOST, 1))
    assert between.port
    os.kill(*marked(ledger.run_id), signal.SIGKILL)

    with pytest.raises(FaultError, match="the link proxy died: its log is empty"):
        between.finish()
    assert Ended.DIED is history.read(between.history).footer.ended


def test_sigterm_ends_it_in_order(wire, ledger, marked):
    """Its history is flushed, and its result was sent."""
    between, client, peer = wire()
    client.sendall(sends(1))
    read(peer, len(sends(1)))
    os.kill(*marked(ledger.run_id), signal.SIGTERM)

    assert (b"", b"") == (until_end(client)[0], until_end(peer)[0])
    assert (1, [Op.FRAME, Op.CONNECT]) == (between.finish().frames, [event.op for event in events(between)])


@pytest.mark.process
def test_it_ends_with_its_harness(tmp_path, marked):
    """It ends after any death of the harness."""
    harness = (
        "import pathlib, sys, time\n"
        "from conformance.faults.link.harness import LinkProxy\n"
        "from conformance.history import bare_header\n"
        "from conformance.ledger import Ledger\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "link = LinkProxy(Ledger(folder, 'dead-harness'), folder, bare_header('x'), ('127.0.0.1', 1), 'amqp').__enter__()\n"
        "print(link.port, flush=True)\n"
        "time.sleep(60)\n"
    )
    root = pathlib.Path(__file__).resolve().parents[2]
    command = [sys.executable, "-c", harness, str(tmp_path)]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE) as process:
        assert int(process.stdout.readline())
        (pid,) = marked("dead-harness")
        descriptor = os.pidfd_open(pid)
        process.kill()
        gone = select.select([descriptor], [], [], PATIENCE)[0]
        os.close(descriptor)

    assert [descriptor] == gone


@pytest.mark.process
def test_the_cost_of_the_proxy(monkeypatch):
    """Every figure is there, and none is negative; the bound itself is for a quiet machine."""
    monkeypatch.setattr(link_bench, "TRIPS", 200)
    monkeypatch.setattr(link_bench, "FRAMES", 400)
    monkeypatch.setattr(link_bench, "ROUNDS", 2)
    found = link_bench.bench()

    assert 5 == len(found)
    assert all(figure > 0 for figure in found.values())
