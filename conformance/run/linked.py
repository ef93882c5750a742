"""A client whose bytes pass the link proxy, and the proof that the fault on the link took effect."""

from __future__ import annotations

import msgspec

from conformance.adapters.ports import HOST
from conformance.clients.job import Job, Result
from conformance.faults.link import Link, prove
from conformance.ledger import Ledger
from conformance.run.crew import Crew
from conformance.script import LinkFault


def over_link(ledger: Ledger, crew: Crew, job: Job, fault: LinkFault) -> Result:
    """Run the client over a link with that fault. `FaultError` where the fault did not fire, or had no effect."""
    number = crew.counts["link"] = crew.counts.get("link", 0) + 1
    broker = (job.host, job.port)
    with Link(
        ledger, crew.folder, crew.header("link"), broker, job.protocol, fault, number=number, epoch=job.epoch
    ) as link:
        result = crew.play(msgspec.structs.replace(job, host=HOST, port=link.port))
        told = link.finish()
    prove(fault, told)
    return result
