"""A client whose bytes pass the link proxy: watched only, or with a fault on the link that is shown to take effect."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import msgspec

from conformance.adapters import vendor_clients
from conformance.adapters.launch.ports import HOST
from conformance.clients.workers.job import Job, Result
from conformance.faults.link.harness import Link, prove
from conformance.ledger import Ledger
from conformance.run.clients import Crew
from conformance.scenario.script import LinkFault


def over_link(ledger: Ledger, crew: Crew, job: Job, fault: LinkFault) -> Result:
    """Run the client over a link with that fault. `FaultError` where the fault did not fire, or had no effect."""
    with _link(ledger, crew, job, fault) as link:
        result = crew.play(_to(link, job))
        told = link.finish()
    prove(fault, told)
    return result


@contextlib.contextmanager
def watched(ledger: Ledger, crew: Crew, job: Job) -> Iterator[Job]:
    """The job of a client whose link records every frame, for as long as the block; `FaultError` where that died."""
    with _link(ledger, crew, job, None) as link:
        yield _to(link, job)


def _link(ledger: Ledger, crew: Crew, job: Job, fault: LinkFault | None) -> Link:
    number = crew.counts["link"] = crew.counts.get("link", 0) + 1
    broker = (job.host, job.port)
    client = crew.planned.client
    wire = vendor_clients.find(client).wire if client else job.protocol
    header = msgspec.structs.replace(crew.header("link"), protocol=wire)
    return Link(ledger, crew.folder, header, broker, wire, fault, number=number, epoch=job.epoch)


def _to(link: Link, job: Job) -> Job:
    return msgspec.structs.replace(job, host=HOST, port=link.port)
