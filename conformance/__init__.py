"""A conformance test suite for the acknowledgement guarantees of message brokers.

Read in this order, which is also the order in which a run goes; a stage imports only stages before it:

`errors`        the life of a run, the one error of each step, and the text of others, made safe to print
`counting`      counts: words for them, and what a count of trials without a failure lets one conclude
`limits`        limits on what a broker can make the suite keep, read or wait for
`paths`         where the files of this project are, in a checkout and in the wheel
`history`       what happened: events, the files that hold them, what a complete one is
`protocols`     the protocols of clients, one folder each: what is known of it, and how its frames are read
`claims`        what vendors and standards promise: one sentence a claim, with its source
`scenario`      what is done to a broker, and which claims that decides; `script` has its steps, faults and triggers
`records`       what a run writes beside its histories: what was asked, and what each trial was
`mounts`        mounts and loop devices of this machine, and their release
`processes`     identity, handles and signals of processes, with what the kernel has
`locks`         lock files of temporary folders, so that the next start finds those that a killed one left
`ledger`        what a run has started, so that the next run can end it if the run was killed
`adapters`      how a broker is described, configured, started and stopped: broker.toml, launchers, credentials
`faults`        faults of the broker, its disk and its links, and the proof that they took effect
`clients`       sessions over AMQP 1.0 and 0-9-1, STOMP 1.2 and vendors' clients, each in a worker process of its own
`run`           the plan of a run, its brokers, its trials, and the loop that records them
`judge`         the only decider: PySpark from histories to verdicts
`report`        the report as data, page and text, and the user's expectations
`campaign`      records and judges: from the options to a judged folder
`followup`      replay, bundle, upgrade, exploration, and the contract of an adapter
`testing`       a broker and its faults, for tests of a user's own clients
`frontend`      the command line, the pytest plugin, progress, the doctor, and the trial of the suite itself

`reference` stands apart: it is the bundled broker, and imports only `errors`.
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
