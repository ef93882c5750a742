"""Run the broker under the tracer, or a client over the link proxy; each writes a history of its own."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator

import msgspec

from conformance import history, locks
from conformance.adapters import vendor_clients
from conformance.adapters.ports import HOST
from conformance.clients.job import Job, JobResult
from conformance.faults.disk import access, injection
from conformance.faults.disk.trace import Operation
from conformance.faults.link.harness import LinkProxy, prove
from conformance.history import Op, Phase
from conformance.ledger import Ledger
from conformance.protocols import OPAQUE
from conformance.run.broker_pool import RunningBroker
from conformance.run.trial.clients import ClientRunner
from conformance.run.trial.jobs import Address
from conformance.scenario.script import Delay, LinkFault, TracedFault


def over_link(ledger: Ledger, client_runner: ClientRunner, job: Job, fault: LinkFault) -> JobResult:
    """Run the client over a link with that fault; raises `FaultError` if it did not fire, or had no effect."""
    with _link(ledger, client_runner, job, fault) as link:
        result = client_runner.play(_to(link, job))
        result_of_link = link.finish()
    prove(fault, result_of_link)
    return result


@contextlib.contextmanager
def watch_link(ledger: Ledger, client_runner: ClientRunner, job: Job) -> Iterator[Job]:
    """Yield the job with a link that records every frame; raises `FaultError` if the proxy died."""
    with _link(ledger, client_runner, job, None) as link:
        yield _to(link, job)


@contextlib.contextmanager
def slow_network(ledger: Ledger, client_runner: ClientRunner, rtt_ms: float) -> Iterator[Callable[[Address], Address]]:
    """Yield the way to an address of the broker over a slow link, which is no fault of the trial and has no history."""
    with locks.scratch("network") as folder, contextlib.ExitStack() as links:

        @functools.cache
        def through(broker: Address) -> Address:
            header, number = client_runner.header("link"), client_runner.next_number("network")
            slow = Delay(rtt_ms=rtt_ms)
            link = LinkProxy(ledger, folder, header, broker, OPAQUE[0], slow, number=number)
            return HOST, links.enter_context(link).port

        yield through


def _link(ledger: Ledger, client_runner: ClientRunner, job: Job, fault: LinkFault | None) -> LinkProxy:
    number = client_runner.next_number("link")
    broker = job.connection.addresses[0]
    vendor = job.connection.vendor
    wire = vendor_clients.find(vendor.name).wire if vendor else job.connection.protocol
    header = msgspec.structs.replace(client_runner.header("link"), protocol=wire)
    return LinkProxy(ledger, client_runner.folder, header, broker, wire, fault, number=number, epoch=job.epoch)


def _to(link: LinkProxy, job: Job) -> Job:
    return msgspec.structs.replace(job, connection=job.connection.through(HOST, link.port))


class TracedRun:
    """One run of the broker under the tracer, from `start` to `finish`.

    It is made before the broker is stopped: the tracer has to know by what calls the broker reaches its journal.
    After a trial that has ended it under a tracer it is down already: then what was seen of it last counts.
    """

    def __init__(self, client_runner: ClientRunner, running: RunningBroker, fault: TracedFault) -> None:
        self.client_runner, self.running, self.fault = client_runner, running, fault
        self.name = f"disk-{client_runner.next_number('disk')}"
        journal = running.node.facts.journal_files
        if pids := running.node.target.processes():
            running.reached[:] = [access.look(pids, injection.watched(journal.folder, journal.names))]

    @property
    def may_end_broker(self) -> bool:
        """A broker whose disk fails should end by itself."""
        return self.fault.fails_disk

    def start(self, *, ready_s: float) -> None:
        node = self.running.node
        contained = node.target.processes if self.running.client.adapter.launcher.contained else None
        journal, folder = node.facts.journal_files, self.client_runner.folder / self.name
        self.tracer = injection.Tracer(
            folder,
            journal.folder,
            self.fault,
            files=journal.names,
            contained=contained,
            reached=next(iter(self.running.reached), None),
        )
        self.running.start(self.tracer.wrap, ready_s=ready_s)
        self.tracer.look()

    def finish(self) -> None:
        """End the broker, and write the history of when each record was written and synced.

        Raises `FaultError` if the tracer was lost, or no operation met the fault.
        """
        node = self.running.node
        self.tracer.look()
        injection.end(node.target)
        self.tracer.finish(
            self.client_runner.folder / f"{self.name}.jsonl",
            self.client_runner.header(self.name),
            self.running.broker.epoch,
            list(self._operations()),
        )

    def _operations(self) -> Iterator[Operation]:
        """Yield what clients asked this run of the broker to store: sends, acknowledgements and discharges.

        Not what waits for a discharge. A send is found by the id in its body. Writes after another request and before
        the next one are its record: the client sends one request at a time, and waits for its answer.
        """
        folder = self.client_runner.folder
        for path in sorted([*folder.glob("publisher-*.jsonl"), *folder.glob("consumer-*.jsonl")]):
            asked = [
                event
                for event in history.read(path).events
                if event.phase is Phase.INVOKE
                and event.op is not Op.PROCESS
                and event.epoch == self.running.broker.epoch
            ]
            for event, following in itertools.zip_longest(asked, asked[1:]):
                if event.op is Op.SEND and event.durable and event.transaction is None and event.message:
                    yield Operation(event.message, event.at_ns, f"{event.message}.".encode())
                    continue
                until_ns = following.at_ns if following is not None else None
                if event.op is Op.ACK and event.transaction is None and event.message:
                    yield Operation(event.message, event.at_ns, acknowledges=True, until_ns=until_ns)
                elif event.op in (Op.COMMIT, Op.ROLLBACK) and event.transaction:
                    yield Operation(event.transaction, event.at_ns, transaction=True, until_ns=until_ns)
