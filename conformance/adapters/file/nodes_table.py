"""The table `[nodes]` of a `broker.toml`: a broker of several nodes, which `--set nodes=N` asks for."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, Any

import pydantic

from conformance.adapters.file.table import Pattern, Table, Word

NODES = "nodes"
"""The setting with the number of nodes."""

PAIR, MOST = 2, 9


def nodes_in(values: Mapping[str, Any]) -> int:
    """Return the number of nodes by these settings: 1 where they do not say it."""
    return int(values.get(NODES, 1))


class BesideNode(Table):
    """A process that each node needs beside it, and that no fault meets, as Erlang's name service.

    `command` is started before the node, which waits until something listens at `port`.
    """

    command: tuple[str, ...] = pydantic.Field(min_length=1)
    port: Word


class Leads(Table):
    """How a node says which one leads a queue: a GET of `url`, whose JSON has the leader's `name` in `field`.

    `url` may hold `{queue}`. `name` is what the node calls itself.
    """

    url: str
    field: str
    name: str


class Links(Table):
    """The links between nodes, which lead through a process of the suite, so that it can part them.

    `ports` are those at which a node takes connections of others. In the texts of a node, such a `{peer.K.NAME_port}`
    and `{other.NAME_port}` is a port of that process, and `{linked.NAME_port}` the one at which the next node reaches
    this one. If nodes find each other by name, `names` is the port of the name service that each has beside it, and
    `name` what a node is called there.
    """

    ports: tuple[Word, ...] = pydantic.Field(min_length=1)
    names: str = ""
    name: str = ""


class NodesTable(Table):
    """A broker of several nodes. `counts` are the numbers of nodes that it may have, beside one.

    `enough` is how many nodes must be left so that one of them takes over when another dies; if fewer are left, all
    start again. `beside` is a process that each of them needs, and `links` are those between them. If only one node
    serves clients, the others are in step with it when the pattern `standby_log` is in their log. `waits_log` is in
    that of a node that is started and may not serve before another one is there: nodes are then started one after
    another, the one that served last at the end. `starts_in_reverse`: after an orderly stop they start one by one, the
    one that was stopped last first. `shared_store`: all nodes store in one place. If each queue has a leader, `leads`
    says how it is asked for. `arguments` follow those of `start.command`, and `changes` are tables that are laid over
    the file, as those of `since` are; their texts may hold `{cluster}`, `{node}`, `{peer.K.NAME_port}`,
    `{other.NAME_port}` and `{linked.NAME_port}`.
    """

    counts: tuple[Annotated[int, pydantic.Field(ge=PAIR, le=MOST)], ...] = pydantic.Field(min_length=1)
    enough: int = 1
    beside: BesideNode | None = None
    links: Links | None = None
    standby_log: Pattern = ""
    waits_log: Pattern = ""
    starts_in_reverse: bool = False
    shared_store: bool = False
    leads: Leads | None = None
    arguments: tuple[str, ...] = ()
    changes: Mapping[str, Any] = {}


Linked = Mapping[tuple[int, int, str], int]
"""For a node, another one and the name of a port: where the first reaches the other, if not at its own."""

ALONE: Linked = MappingProxyType({})


def member_words(
    member: int,
    numbers: Mapping[int, Mapping[str, int]],
    linked: Linked = ALONE,
) -> dict[str, str]:
    """Return the placeholders of one member, by the ports of each member (1 is the first).

    >>> member_words(2, {1: {"amqp": 11}, 2: {"amqp": 22}}, {(2, 1, "amqp"): 33})
    {'node': '2', 'peer.1.amqp_port': '33', 'peer.2.amqp_port': '22', 'other.amqp_port': '33', 'linked.amqp_port': '22'}
    """
    other = member % len(numbers) + 1
    words = {"node": str(member)}
    for to in numbers:
        words |= {
            f"peer.{to}.{name}_port": str(linked.get((member, to, name), port)) for name, port in numbers[to].items()
        }
    for name, port in numbers[member].items():
        words[f"other.{name}_port"] = words[f"peer.{other}.{name}_port"]
        words[f"linked.{name}_port"] = str(linked.get((other, member, name), port))
    return words


def member_placeholders(counts: Collection[int], ports: Collection[str]) -> Iterator[str]:
    """Yield the names of the placeholders that members have."""
    yield "cluster"
    yield from member_words(
        1, {member: dict.fromkeys(ports, 0) for member in range(1, min(max(*counts, PAIR), MOST) + 1)}
    )
