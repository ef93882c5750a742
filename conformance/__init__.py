"""Does a message broker keep its word? A conformance test suite for acknowledgement guarantees.

Read in this order, which is also the order in which a run goes; a stage imports only stages before it:

`errors`        the life of a run, and the one error of each step
`limits`        how much a broker may make the suite keep, read or wait for
`quoting`       text of others, with every character spelled out that a terminal or a browser would obey
`paths`         where the files of this project are, in a checkout and in the wheel
`claims`        what vendors and standards promise: one sentence a claim, with its source
`history`       what happened: events, the files that hold them, what a complete one is
`records`       what a run writes beside its histories: what was asked, and what each trial was
`mounts`        what is mounted or attached on this machine, and how it is given back
`locks`         locked files that say what a process has reserved, so that the next start can tell who is dead
`ledger`        what a run has started, so that the next one can end what a killed run left
`script`        the words of a script: steps, faults, triggers
`scenario`      what is done to a broker, and which claims that decides
`adapters`      what a broker is: data, and a launcher
`faults`        what is done to it, its disk and its links, and the proof that it took effect
`clients`       who talks to it: sessions over AMQP 1.0 and STOMP 1.2, and vendors' clients, each in its own process
`run`           one plan, one recorder
`judge`         one decider: PySpark from histories to verdicts
`report`        what people read
`expectations`  what a user expects beside the verdicts: known failures, a baseline, what must be tried
`campaign`      one run from what was asked for to a judged folder: the engine of both fronts
`contract`      what an adapter promises to all of these, tried step by step: a broker that passes can be put on trial
`upgrade`       an old version filled and killed, the new one on its data: what that breaks, beside the old one alone
`replay`        one trial of a run, recorded and judged again
`bundle`        one trial for the maintainer of a broker: a zip that stands by itself
`progress`      what a terminal shows while it goes
`doctor`        what this machine can do, and what each missing part would enable
`cli`           what people type
`plugin`        the other front: pytest

`reference` is a second story: the bundled broker, which imports nothing of the others but `errors`.
"""


def __getattr__(name: str) -> str:
    """`__version__`, when it is asked for: to look it up takes a tenth of the bundled broker's start."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("ack-conformance")
    except PackageNotFoundError:  # a checkout that was never installed
        return "0.0.0+unknown"
