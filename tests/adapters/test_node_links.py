"""The links between nodes: what crosses, what waits while nodes are parted, and how nodes are known by name."""

import asyncio
import contextlib
import os
import socket
import struct

import pytest

from conformance.adapters.launch.links import between
from conformance.adapters.launch.links.between import NodeLinks
from conformance.adapters.launch.links.proxy import Named
from conformance.errors import FaultError, LaunchError
from conformance.ledger import Ledger

pytestmark = pytest.mark.process

ANSWER_S = 10


class Nodes:
    """Three nodes, each a listening socket, and the links between them."""

    def __init__(self, folder, stack):
        self.listening = {number: stack.enter_context(socket.create_server(("127.0.0.1", 0))) for number in (1, 2, 3)}
        ports = {number: {"peer": each.getsockname()[1]} for number, each in self.listening.items()}
        self.links = NodeLinks(stack.enter_context(Ledger(folder, "links")), folder, ports, ["peer"])
        self.stack = stack
        stack.callback(self.links.close)
        for each in self.listening.values():
            each.settimeout(ANSWER_S)

    def reach(self, node, to):
        """The connection of a node to another one."""
        port = self.links.ports[node, to, "peer"]
        return self.stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S))

    def accept(self, node):
        taken = self.stack.enter_context(self.listening[node].accept()[0])
        taken.settimeout(ANSWER_S)
        return taken

    def turn(self, ends):
        """An exchange over links that are not parted: what came to them before it was seen by their process."""
        for _ in range(2):
            ends[0].sendall(b"t")
            assert ends[1].recv(1) == b"t"

    def connected(self, node, to):
        """Both ends of a connection, with a byte that has crossed."""
        here = self.reach(node, to)
        there = self.accept(to)
        here.sendall(b"1")
        assert there.recv(1) == b"1"
        return here, there


@pytest.fixture
def nodes(tmp_path):
    with contextlib.ExitStack() as stack:
        yield Nodes(tmp_path, stack)


def silent(end):
    """Whether nothing has come at this end: what did not cross in the time of an exchange beside it."""
    end.setblocking(False)
    try:
        return end.recv(1) == b"never"
    except BlockingIOError:
        return True
    finally:
        end.settimeout(ANSWER_S)


def test_what_a_parted_node_sends_and_is_sent_waits_and_then_comes(nodes):
    cut, beside = nodes.connected(1, 2), nodes.connected(3, 2)
    with nodes.links.parting([1]) as links:
        between.part(links)
        cut[0].sendall(b"out")
        cut[1].sendall(b"in")
        nodes.turn(beside)  # the others reach each other
        assert silent(cut[0])
        assert silent(cut[1])
        withheld = between.join(links)
        assert (cut[1].recv(3), cut[0].recv(2)) == (b"out", b"in")

    assert str(withheld) == "5 bytes, 0 ends of connections and 0 new connections had to wait"


def test_of_a_node_that_is_not_heard_nothing_comes_and_it_hears_the_others(nodes):
    here, there = nodes.connected(1, 2)
    with nodes.links.parting([1], one_way=True) as links:
        between.part(links)
        there.sendall(b"in")
        assert here.recv(2) == b"in"
        here.sendall(b"out")
        nodes.turn(nodes.connected(2, 3))
        assert silent(there)

    assert there.recv(3) == b"out"


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
def test_a_node_does_not_learn_that_another_has_closed_its_connection(nodes, reset):
    here, there = nodes.connected(1, 2)
    beside = nodes.connected(2, 3)
    with nodes.links.parting([1]) as links:
        between.part(links)
        if reset:
            here.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        here.close()
        nodes.turn(beside)
        assert silent(there)
        withheld = between.join(links)
        if reset:
            with pytest.raises(ConnectionResetError):
                there.recv(1)
        else:
            assert there.recv(1) == b""
        nodes.turn(nodes.connected(1, 2))

    assert (withheld.bytes, withheld.ends) == (0, 1)


def test_a_new_connection_is_made_when_nodes_are_joined(nodes):
    beside = nodes.connected(1, 3)
    with nodes.links.parting([2]) as links:
        between.part(links)
        here = nodes.reach(1, 2)
        here.sendall(b"1")
        nodes.turn(beside)
        nodes.listening[2].setblocking(False)
        with pytest.raises(BlockingIOError):
            nodes.listening[2].accept()
        nodes.listening[2].settimeout(ANSWER_S)
        assert between.join(links).connections == 1
        assert nodes.accept(2).recv(1) == b"1"


def test_nodes_are_joined_although_the_client_that_parted_them_died(nodes):
    (here, there), beside = nodes.connected(1, 2), nodes.connected(2, 3)
    with nodes.links.parting([1]) as links:
        between.part(links)
        here.sendall(b"2")
        nodes.turn(beside)

    assert there.recv(1) == b"2"


def test_nodes_that_have_missed_nothing_were_not_parted(nodes):
    with pytest.raises(FaultError, match="the partition had no effect"), nodes.links.parting([1]) as links:
        between.part(links)


def test_what_was_never_parted_is_no_fault_of_the_links(nodes):
    """The trigger did not come: that is what the trial says then."""
    with nodes.links.parting([1]):
        pass


def test_a_client_that_kills_a_node_sees_before_whether_it_was_missed(nodes):
    """The end of the connection of the dead node would count as something that had to wait."""
    here, _ = nodes.connected(1, 2)
    beside = nodes.connected(2, 3)
    with nodes.links.parting([1]) as links:
        between.part(links)
        with pytest.raises(FaultError, match="the partition had no effect"):
            between.missed(links)
        here.sendall(b"1")
        nodes.turn(beside)
        assert between.missed(links).bytes == 1


def test_a_connection_that_its_node_has_given_up_is_not_made(nodes):
    """Counter-example: its greeting comes after that of the next one, and takes its place."""
    beside = nodes.connected(1, 3)
    with nodes.links.parting([2]) as links:
        between.part(links)
        stale = nodes.reach(1, 2)
        stale.sendall(b"stale")
        stale.close()
        fresh = nodes.reach(1, 2)
        fresh.sendall(b"fresh")
        nodes.turn(beside)
        between.join(links)

    assert nodes.accept(2).recv(5) == b"fresh"
    nodes.listening[2].settimeout(0.2)
    with pytest.raises(TimeoutError):
        nodes.listening[2].accept()


def test_a_node_that_is_not_heard_is_not_heard_to_reset(nodes):
    (here, there), beside = nodes.connected(1, 2), nodes.connected(2, 3)
    with nodes.links.parting([1], one_way=True) as links:
        between.part(links)
        here.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        here.close()
        for _ in range(3):
            there.sendall(b"into nothing")
            nodes.turn(beside)
        assert silent(there)

    with pytest.raises(ConnectionResetError):
        there.recv(1)


def test_an_answer_that_no_one_has_read_is_not_taken_for_another(nodes):
    """Its reader was killed between the question and the answer."""
    here, _ = nodes.connected(1, 2)
    beside = nodes.connected(2, 3)
    with nodes.links.parting([1]) as links:
        between.part(links)
        os.write(links, b'{"do":"count"}')
        here.sendall(b"1")
        nodes.turn(beside)

    nodes.links.register([])


def test_a_node_that_is_gone_is_reached_by_no_one(nodes):
    nodes.listening[2].close()
    with pytest.raises((ConnectionResetError, BrokenPipeError)):
        while nodes.reach(1, 2).recv(1):
            pass
        raise ConnectionResetError


def serve_names(answer, heard):
    """A name service that answers so to each who registers."""

    async def served(reader, writer):
        length = int.from_bytes(await reader.readexactly(2))
        heard.append(await reader.readexactly(length))
        writer.write(answer)
        await reader.read()

    return served


@pytest.mark.parametrize("answer", [b"\x76\0\0\0\0\1", b"\x79\0\0\1"], ids=["newer", "older"])
def test_each_node_is_known_by_its_name_at_the_port_of_its_link(nodes, answer):
    heard = []

    async def register():
        service = await asyncio.start_server(serve_names(answer, heard), "127.0.0.1", 0)
        port = service.sockets[0].getsockname()[1]
        await asyncio.to_thread(nodes.links.register, [Named(port, "two", 4711)])

    asyncio.run(register())

    assert heard == [b"x" + struct.pack(">HBBHHH", 4711, 77, 0, 6, 5, 3) + b"two\0\0"]


def test_a_name_that_is_taken_is_refused(nodes):
    async def register():
        service = await asyncio.start_server(serve_names(b"\x79\1\0\0", []), "127.0.0.1", 0)
        port = service.sockets[0].getsockname()[1]
        await asyncio.to_thread(nodes.links.register, [Named(port, "two", 4711)])

    with pytest.raises(LaunchError, match=r"nodes\.links\.names: .* refused two"):
        asyncio.run(register())


def test_links_whose_process_has_ended_are_named(nodes):
    nodes.links._process.kill()
    with pytest.raises(LaunchError, match=r"the links between nodes: their process has ended; the log is .*links\.log"):
        nodes.links.register([])
