"""A client whose bytes pass the link proxy: watched only, or with a fault on the link that is shown to take effect."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import msgspec

from conformance.adapters import vendor_clients
from conformance.adapters.launch.ports import HOST
from conformance.clients.workers.job import Job, JobResult
from conformance.faults.link.harness import LinkProxy, prove
from conformance.ledger import Ledger
from conformance.run.clients import ClientRunner
from conformance.scenario.script import LinkFault


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
    number = client_runner.counts["link"] = client_runner.counts.get("link", 0) + 1
    broker = (job.host, job.port)
    client = client_runner.planned.client
    wire = vendor_clients.find(client).wire if client else job.protocol
    header = msgspec.structs.replace(client_runner.header("link"), protocol=wire)
    return LinkProxy(ledger, client_runner.folder, header, broker, wire, fault, number=number, epoch=job.epoch)


def _to(link: LinkProxy, job: Job) -> Job:
    return msgspec.structs.replace(job, host=HOST, port=link.port)
