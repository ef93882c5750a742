"""One run of Artemis, one row and one trial of it, for tests of what is made of verdicts."""

import msgspec

from conformance.judge.rows import Judgement, Verdict, VerdictRow
from conformance.records import RunRecord, TrialRecord

RUN = RunRecord(
    run="r",
    started="2026-11-21T10:00:00+00:00",
    command="conformance run --adapter artemis --seed 7",
    seed=7,
    adapter="artemis",
    version="2.56.0",
    launcher="native",
    protocol="amqp",
    client="proton",
    title="Apache Artemis",
    profiles=("artemis",),
    capabilities=(),
    settings={},
    absent=(),
    changed={},
    deviations={},
    versions={},
    selected=(),
    required=(),
    finished=True,
)


def row(verdict="VIOLATED", claim="AMQP-DUR-01", scenario="killed", **changes):
    """A row as the judge gives it, with these changes."""
    plain = VerdictRow(
        claim=claim,
        kind="safety",
        scope="common",
        subject="broker",
        says="It is kept.",
        document="000",
        section="3",
        adapter="artemis",
        version="2.56.0",
        launcher="native",
        settings={},
        protocol="amqp",
        client="proton",
        scenario=scenario,
        mode="async_ack",
        fault="kill",
        failure_model="process death",
        verdict=Verdict(verdict),
        exposure=None,
        trials=3,
        offended=0,
        void=0,
        control=None,
        bound=None,
        q=None,
        reason="No scenario of this version tries it.",
        replay="",
    )
    return msgspec.structs.replace(plain, **changes)


def trial(name, **changes):
    """A trial of the subject in which nothing went wrong, with these changes."""
    plain = TrialRecord(
        trial=name,
        scenario=name.partition(".")[0],
        arm="subject",
        control="",
        index=1,
        seed=7,
        k=213,
        adapter="artemis",
        settings={},
    )
    return msgspec.structs.replace(plain, **changes)


def judgement(*rows, ours=(), trials=(), **run):
    """A judgement of these rows and of the self-checks `ours`; `run` changes fields of the run."""
    return Judgement(run=msgspec.structs.replace(RUN, **run), rows=rows, self_checks=tuple(ours), trials=tuple(trials))
