"""A broker of several nodes of this machine, which clients use as one.

Faults act on the node that serves clients. When a fault has ended it, `start` lets another node take over, as long as
enough are left; the node that ended stays down until all are stopped and started again. So a trial first drains what
the others have, and after the clean restart what all have.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import functools
import signal
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Self

from conformance.adapters import ports, web
from conformance.adapters.distribution import debian
from conformance.adapters.file.nodes_table import BesideNode, Leads, NodesTable, member_words, nodes_in
from conformance.adapters.file.placeholders import fill
from conformance.adapters.launch import native, queue_declaration
from conformance.adapters.launch.links.between import NodeLinks
from conformance.adapters.launch.links.proxy import Named
from conformance.adapters.launch.native import NativeBroker
from conformance.adapters.launch.plan import BrokerSetup, BrokerSource, Plan
from conformance.adapters.launch.process_tree import Tree
from conformance.errors import FaultError, LaunchError, UsageError
from conformance.ledger import Ledger, child_environment
from conformance.processes import open_pidfd, send_all, wait_ended

LEADER_S = 30.0
"""Seconds within which each queue must have a leader; one that has none after that may be served to no client."""

_TICK_S = 0.02


def prepare(source: BrokerSource, setup: BrokerSetup, archive: str = "") -> ClusterBroker:
    """Make a folder for each node, and reserve all ports; nothing is started. See `native.prepare`."""
    reserved: dict[int, ports.Ports] = {}
    links: NodeLinks | None = None
    try:
        for member in range(1, nodes_in(setup.settings.values) + 1):
            reserved[member] = ports.Ports(source.file.ports)
        numbers = {member: each.by_name for member, each in reserved.items()}
        assert source.file.nodes is not None  # the launcher has asked for several nodes
        table = source.file.nodes.links
        if table and (unknown := {*table.ports, table.names}.difference(source.file.ports, [""])):
            raise UsageError(f"nodes.links: unknown ports: {', '.join(sorted(unknown))}")
        links = NodeLinks(setup.ledger, setup.folder, numbers, table.ports) if table else None
        made = []
        for member, each in reserved.items():
            own = dataclasses.replace(setup, folder=setup.folder / f"node-{member}")
            words = {"cluster": str(setup.folder), **member_words(member, numbers, links.ports if links else {})}
            made.append(native.prepare(source, own, archive, each, words))
    except BaseException:
        for each in reserved.values():
            each.close()
        if links is not None:
            links.close()
        raise
    return ClusterBroker(made, source, setup, links)


class ClusterBroker:
    """See `interface.Broker`. `node` is the one that clients use, and serves them."""

    def __init__(
        self, nodes: Sequence[NativeBroker], source: BrokerSource, setup: BrokerSetup, links: NodeLinks | None
    ) -> None:
        assert source.file.nodes is not None  # as above
        self.nodes, self.node, self.folder, self.epoch = tuple(nodes), nodes[0], setup.folder, 0
        self._rules: NodesTable = source.file.nodes
        self._queues = [*nodes[0].plan.queues]
        self._orderly = True  # no node has died since all were stopped
        self._maybe_behind = False  # one could not be reached since all were in step
        self._links = links
        beside = self._rules.beside
        self._beside = [ProcessBeside(beside, node.plan, setup.ledger) for node in nodes] if beside else []
        for each in nodes:
            each.no_copy = "it is one of several nodes"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def service(self) -> NativeBroker:
        return self.node

    @property
    def beside(self) -> NativeBroker:
        return self.node if self._rules.standby_log else self._another()

    def addresses(self, protocol: str) -> list[tuple[str, int]]:
        others = [node for node in self.nodes if node is not self.node]
        return [node.endpoint(protocol) for node in (self.node, *others)]

    def start(self, wrap: Sequence[str] = (), *, more: Sequence[str] = (), ready_s: float = 0.0) -> float:
        """Let another node take over if the one that serves has ended and enough are left, else start what has ended.

        Return the seconds until it served.
        """
        began = time.monotonic()
        left = [node for node in self.nodes if not node.gone()]
        try:
            behind = self._maybe_behind and bool(self._rules.standby_log)
            if self.node in left or len(left) < self._rules.enough or behind:
                self._start([*(node for node in self.nodes if node is not self.node), self.node], wrap, more, ready_s)
            else:
                self._take_over(left, ready_s)
        except BaseException:
            self._kill()
            raise
        self.epoch += 1
        self._orderly = False
        return time.monotonic() - began

    def stop(self) -> None:
        """Stop all nodes at once, but where it matters the one that serves after all others."""
        self._orderly = True
        last = [self.node] if self._rules.standby_log or self._rules.starts_in_reverse else []
        first = [node for node in self.nodes if node not in last]
        with concurrent.futures.ThreadPoolExecutor(len(first)) as pool:
            list(pool.map(NativeBroker.stop, first))
        for node in last:
            node.stop()
        for each in self._beside:
            each.close()

    def declare(self, queue: str) -> None:
        self.node.declare(queue)
        self._queues.append(queue)

    def find_serving(self) -> NativeBroker:
        if self._rules.standby_log and self.node.unreached():
            able = (node for node in self.nodes if not (node.gone() or node.missing()))
            if found := next(able, None):
                self.node, self.epoch = found, self.epoch + 1
        return self.node

    def met(self, which: str) -> NativeBroker | SeveralNodes:
        """As `Broker.met`; another node is the next one that runs. Raises `FaultError` if none does."""
        if which == "serving":
            return self.node
        if which == "all":
            return SeveralNodes(self.nodes)
        if which == "majority":
            others = [node for node in self.nodes if node is not self.node and not node.gone()]
            return SeveralNodes([self.node, *others[: len(self.nodes) // 2]])
        return self._another()

    @contextlib.contextmanager
    def halting(self, which: str) -> Iterator[None]:
        target = self.met(which)
        self._maybe_behind = True
        try:
            yield
        finally:
            with target.armed() as handles:
                send_all(handles, signal.SIGCONT)

    @contextlib.contextmanager
    def parting(self, which: str, *, one_way: bool = False) -> Iterator[int]:
        if self._links is None:
            raise FaultError("the links between its nodes do not lead through the suite: its file has no [nodes.links]")
        apart = self._another() if which == "another" else self.node
        self._maybe_behind = True
        with self._links.parting([self.nodes.index(apart) + 1], one_way=one_way) as descriptor:
            yield descriptor

    def _another(self) -> NativeBroker:
        place = self.nodes.index(self.node)
        for node in [*self.nodes[place + 1 :], *self.nodes[:place]]:
            if not node.gone():
                return node
        raise FaultError("no node runs beside the one that serves")

    def close(self) -> None:
        with contextlib.ExitStack() as stack:
            if self._links is not None:
                stack.callback(self._links.close)
            for each in self._beside:
                stack.callback(each.close)
            for node in self.nodes:
                stack.callback(node.close)

    # inside

    def _start(self, nodes: Sequence[NativeBroker], wrap: Sequence[str], more: Sequence[str], ready_s: float) -> None:
        """Start the nodes that have ended; `nodes` has the one that served last at its end.

        What was away must not serve without that one, so it may come first. Where a product wants that one first, it
        does so after an orderly stop.
        """
        if True in [each.start() for each in self._beside]:
            self._register()
        launched = [node for node in nodes if node.gone()]
        in_reverse = self._rules.starts_in_reverse and self._orderly
        for node in reversed(launched) if in_reverse else launched:
            node.launch(wrap, more=more)
            if in_reverse:
                node.wait_until(node.unreached, ready_s)
            elif self._rules.waits_log:
                node.wait_until(functools.partial(self._unsettled, node), ready_s)
        if self._rules.standby_log:
            able = [*launched, *(node for node in nodes if node not in launched)]
            self.node = self._first_to_serve(able, ready_s) if self.node in launched else self.node
            for node in launched:
                node.wait_until(functools.partial(self._out_of_step, node), ready_s)
        else:
            for node in launched:
                node.wait_ready(ready_s)
        if not (self.epoch and queue_declaration.lasting(self.node.plan)):
            self.node.declare_queues()
            for node in nodes:
                node.wait_stored()
        if not self._rules.standby_log:
            self.node = self._leading(nodes)
        self._maybe_behind = self._maybe_behind and len(launched) < len(self.nodes)  # the others may still copy
        self.node.prove()

    def _take_over(self, left: Sequence[NativeBroker], ready_s: float) -> None:
        for node in left:
            node.alive_check()
        if self._rules.standby_log:
            self.node = self._first_to_serve(left, ready_s, anew=True)
        else:
            self.node = self._leading(left)
        self.node.wait_until(self.node.unreached, ready_s, anew=True)
        self.node.prove()

    def _first_to_serve(self, nodes: Sequence[NativeBroker], ready_s: float, *, anew: bool = False) -> NativeBroker:
        """Wait until one of them serves clients."""
        found: list[NativeBroker] = []

        def missing() -> str:
            reasons = {node.folder.name: node.missing() for node in nodes}
            found[:] = [node for node in nodes if not reasons[node.folder.name]]
            return "" if found else "; ".join(f"{name}: {why}" for name, why in reasons.items())

        nodes[0].wait_until(missing, ready_s, anew=anew)
        return found[0]

    def _unsettled(self, node: NativeBroker) -> str:
        """Whether a node that was launched does not yet serve, is not in step, and does not wait for another."""
        if node.has_logged(self._rules.waits_log) or node.has_logged(self._rules.standby_log):
            return ""
        missing = node.missing()
        return f"nodes.waits_log: {missing}" if missing else ""

    def _out_of_step(self, node: NativeBroker) -> str:
        pattern = self._rules.standby_log
        if node is self.node or node.has_logged(pattern):
            return ""
        return f"nodes.standby_log: the log of {node.folder.name} has no {pattern!r}"

    def _leading(self, nodes: Sequence[NativeBroker]) -> NativeBroker:
        """Return the one that leads most queues, once each queue has a leader among them, or after `LEADER_S`."""
        rules = self._rules.leads
        if rules is None:
            return nodes[0]
        names = {fill(rules.name, node.plan.words, "nodes.leads.name"): node for node in nodes}
        asked, deadline, leaders = nodes[0], time.monotonic() + LEADER_S, dict.fromkeys(self._queues, "")

        def leaderless() -> str:
            for queue in (queue for queue, leader in leaders.items() if leader not in names):
                leaders[queue] = _leader(rules, asked.plan, queue)
            missing = [queue for queue, leader in leaders.items() if leader not in names]
            return f"nodes.leads: no leader of {missing[0]}" if missing and time.monotonic() < deadline else ""

        asked.wait_until(leaderless, LEADER_S, anew=True)
        led = Counter(leader for leader in leaders.values() if leader in names)
        return names[led.most_common(1)[0][0]] if led else asked

    def _register(self) -> None:
        """Make each node known to the name services of the others, at the ports of its links."""
        rules = self._rules.links
        if self._links is None or rules is None or not rules.names:
            return
        plans = {member: node.plan for member, node in enumerate(self.nodes, 1)}
        names = {member: fill(rules.name, plan.words, "nodes.links.name") for member, plan in plans.items()}
        services = {member: int(plan.words[f"{rules.names}_port"]) for member, plan in plans.items()}
        self._links.register(
            [Named(services[node], names[to], port) for (node, to, _), port in self._links.ports.items()]
        )

    def _kill(self) -> None:
        with contextlib.ExitStack() as stack:
            for node in self.nodes:
                stack.callback(node.kill)


def _leader(rules: Leads, plan: Plan, queue: str) -> str:
    """Return what a node says of the leader of a queue; empty if it does not answer, or says nothing."""
    url = fill(rules.url, {**plan.words, "queue": plan.named(queue)}, "nodes.leads.url")
    try:
        status, body = web.ask("GET", url, timeout_s=2.0, access=plan.http_access)
        return web.field_of(body, rules.field) if status == 200 else ""
    except (OSError, ValueError):
        return ""


class SeveralNodes:
    """See `interface.Processes`: those of each of these nodes."""

    was_ready = True
    exit_status = None

    def __init__(self, nodes: Sequence[NativeBroker]) -> None:
        self._nodes = nodes

    @contextlib.contextmanager
    def armed(self, *commands: str) -> Iterator[list[int]]:
        with contextlib.ExitStack() as stack:
            yield [handle for node in self._nodes for handle in stack.enter_context(node.armed(*commands))]

    def within_s(self, fault: str) -> float:
        return 0.0

    def processes(self) -> list[int]:
        return [pid for node in self._nodes for pid in node.processes()]

    def gone(self) -> bool:
        return not self.processes()

    def wait_gone(self, timeout_s: float) -> bool:
        return all(node.wait_gone(timeout_s) for node in self._nodes)

    def alive_check(self) -> None:
        for node in self._nodes:
            node.alive_check()


class ProcessBeside:
    """The process of `nodes.beside` of one node: started before it, and ended when all are stopped."""

    def __init__(self, rules: BesideNode, plan: Plan, ledger: Ledger) -> None:
        self._rules, self._plan, self._ledger = rules, plan, ledger
        self._port = int(plan.words[f"{rules.port}_port"])
        self._tree: Tree | None = None
        self._ticket = ""

    def start(self) -> bool:
        """Start it if it does not run, wait until it listens, and return whether it ran not; raises `LaunchError`."""
        if self._tree is not None and self._tree.pids():
            return False
        plan = self._plan
        command = [fill(part, plan.words, "nodes.beside.command") for part in self._rules.command]
        if plan.source.debian:
            command = [*debian.entering(plan.source.home, plan.folder, plan.working_folder), *command]
        log = plan.folder / "beside.log"
        with log.open("wb") as output:
            try:
                leader, self._ticket = self._ledger.spawn(
                    "what a node needs", command, env=child_environment(), stdout=output, stderr=output
                )
            except OSError as error:
                raise LaunchError(f"nodes.beside.command: {command[0]} cannot be started: {error.strerror}") from error
        self._tree = Tree(leader)
        with open_pidfd(leader.pid) as handle:
            while ports.free(self._port):
                if wait_ended([handle], _TICK_S):
                    raise LaunchError(f"nodes.beside.command: {command[0]} ended by itself; its log is {log}")
        return True

    def close(self) -> None:
        if self._tree is not None:
            self._tree.kill()
        if self._ticket:
            self._ledger.released(self._ticket)
            self._ticket = ""
