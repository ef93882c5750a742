"""Run the broker under the tracer; what the tracer saw becomes a history of its own.

`over_link` does the same for a client whose bytes pass the link proxy.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator

import msgspec

from conformance import history
from conformance.adapters import vendor_clients
from conformance.adapters.launch.ports import HOST
from conformance.adapters.launchers import DOCKER
from conformance.clients.workers.job import Job, JobResult
from conformance.faults.disk import injection
from conformance.faults.disk.trace import Operation
from conformance.faults.link.harness import LinkProxy, prove
from conformance.history import Op, Phase
from conformance.ledger import Ledger
from conformance.run.broker_pool import RunningBroker
from conformance.run.clients import ClientRunner
from conformance.scenario.script import DiskFault, DiskFull, FailedSync, LinkFault


def over_link(ledger: Ledger, client_runner: ClientRunner, job: Job, fault: LinkFault) -> JobResult:
    """Run the client over a link with that fault. `FaultError` where the fault did not fire, or had no effect."""
    with _link(ledger, client_runner, job, fault) as link:
        result = client_runner.play(_to(link, job))
        told = link.finish()
    prove(fault, told)
    return result


@contextlib.contextmanager
def watched(ledger: Ledger, client_runner: ClientRunner, job: Job) -> Iterator[Job]:
    """The job of a client whose link records every frame, for as long as the block; `FaultError` where that died."""
    with _link(ledger, client_runner, job, None) as link:
        yield _to(link, job)


def _link(ledger: Ledger, client_runner: ClientRunner, job: Job, fault: LinkFault | None) -> LinkProxy:
    number = client_runner.next_number("link")
    broker = (job.host, job.port)
    client = client_runner.planned.client
    wire = vendor_clients.find(client).wire if client else job.protocol
    header = msgspec.structs.replace(client_runner.header("link"), protocol=wire)
    return LinkProxy(ledger, client_runner.folder, header, broker, wire, fault, number=number, epoch=job.epoch)


def _to(link: LinkProxy, job: Job) -> Job:
    return msgspec.structs.replace(job, host=HOST, port=link.port)


class TracedRun:
    """One run of the broker under the tracer, from `start` to `finish`."""

    def __init__(self, client_runner: ClientRunner, stand: RunningBroker, fault: DiskFault) -> None:
        self.client_runner, self.stand, self.fault = client_runner, stand, fault
        self.name = f"disk-{client_runner.next_number('disk')}"
        broker = stand.broker
        contained = broker.target.processes if client_runner.planned.adapter.launcher == DOCKER else None
        journal = broker.facts.journal_files
        self.tracer = injection.Tracer(
            client_runner.folder / self.name, journal.folder, fault, files=journal.names, contained=contained
        )

    @property
    def may_end_broker(self) -> bool:
        """Whether a broker may end by itself under this fault: one whose disk fails should."""
        return isinstance(self.fault, FailedSync | DiskFull)

    def start(self, *, ready_s: float) -> None:
        """Start the broker as the tracer's child."""
        self.stand.start(self.tracer.wrap, ready_s=ready_s)
        self.tracer.look()

    def finish(self) -> None:
        """End the broker, and write down when what the clients asked for was written and synced.

        Raises:
            FaultError: The tracer was lost, or the fault met nothing.
        """
        broker = self.client_runner.broker
        self.tracer.look()
        injection.end(broker.target)
        self.tracer.finish(
            self.client_runner.folder / f"{self.name}.jsonl",
            self.client_runner.header(self.name),
            broker.epoch,
            list(self._operations()),
        )

    def _operations(self) -> Iterator[Operation]:
        """What clients asked this run of the broker to store: sends outside transactions by their mark, and discharges.

        What is written after a discharge and before the next request is its record: the client asks for one thing at a
        time, and waits for the answer.
        """
        for path in sorted(self.client_runner.folder.glob("publisher-*.jsonl")):
            asked = [
                event
                for event in history.read(path).events
                if event.phase is Phase.INVOKE and event.epoch == self.client_runner.broker.epoch
            ]
            for event, following in itertools.zip_longest(asked, asked[1:]):
                if event.op is Op.SEND and event.durable and event.transaction is None and event.message:
                    yield Operation(event.message, event.at_ns, f"{event.message}.".encode())
                elif event.op in (Op.COMMIT, Op.ROLLBACK) and event.transaction:
                    until_ns = following.at_ns if following is not None else None
                    yield Operation(event.transaction, event.at_ns, transaction=True, until_ns=until_ns)
