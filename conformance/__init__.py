"""Does a message broker keep its word? A conformance test suite for acknowledgement guarantees.

Read in this order, which is also the order in which a run goes; a stage imports only stages before it:

`errors`        the life of a run, and the one error of each step
`limits`        how much a broker may make the suite keep, read or wait for
`quoting`       text of others, with every character spelled out that a terminal or a browser would obey
`paths`         where the files of this project are, in a checkout and in the wheel
`claims`        what vendors and standards promise: one sentence a claim, with its source
`history`       what happened: events, the files that hold them, what a complete one is
`scenario`      what is done to a broker, and which claims that decides; `script` has its steps, faults and triggers
`records`       what a run writes beside its histories: what was asked, and what each trial was
`mounts`        what is mounted or attached on this machine, and how it is given back
`locks`         locked files that say what a process has reserved, so that the next start can tell who is dead
`ledger`        what a run has started, so that the next one can end what a killed run left
`adapters`      how a broker is described, configured, started and stopped: broker.toml, launchers, credentials
`faults`        what is done to the broker, its disk and its links, and the proof that it took effect
`clients`       sessions over AMQP 1.0, STOMP 1.2 and vendors' clients, each in a worker process of its own
`run`           the plan of a run, its brokers, its trials, and the loop that records them
`judge`         the only decider: PySpark from histories to verdicts
`report`        what people read, and what they expected
`campaign`      joins recording and judging: from what was asked for to a judged folder
`followup`      replay, bundle, upgrade, and the contract of an adapter
`frontend`      the command line, the pytest plugin, progress and the doctor

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
