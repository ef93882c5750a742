"""One table of the options of every front: the commands that run or judge, and pytest.

A front adds each option that names it, with the same words, type, default and help. pytest reads this module in every
project of the environment, so it imports nothing heavy.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from conformance.protocols import VENDOR_SURFACES, WIRES

if TYPE_CHECKING:
    from conformance.adapters.credentials import Access
    from conformance.campaign import Campaign, Options
    from conformance.report.expectations import Expected

RUN, UPGRADE, JUDGE, REPLAY, EXPLORE = "run", "upgrade", "judge", "replay", "explore"
CHECK, PYTEST = "check", "pytest"
"""The fronts: `conformance run`, ..., `conformance adapters check`, and pytest."""

_RUNS = (RUN, EXPLORE, PYTEST)
_LAUNCHERS = (
    "LAUNCHER is native, native=FOLDER (an unpacked distribution), docker, or, for a broker that runs already, "
    "external=URL[,URL] or external=FILE.toml with your own commands for its faults."
)
_OF_BOTH = " and ".join(word for word in VENDOR_SURFACES if word in WIRES)
_OF_VENDORS = " and ".join(word for word in VENDOR_SURFACES if word not in WIRES)
_PROTOCOLS = (
    f"{', '.join(WIRES)}, or {_OF_VENDORS} through a vendor's own client (with --client also {_OF_BOTH}).  "
    f"[default: {WIRES[0]}, or the first one that the broker speaks]"
)
WIRE_WORDS = f"{', '.join(WIRES[:-1])} or {WIRES[-1]}"
PORT_WORDS = f"{', '.join(f'{{{word}_port}}' for word in WIRES[:-1])} or {{{WIRES[-1]}_port}}"
"""The placeholders of a broker's command line that takes a port."""

BROKER = "--broker"
"""Another name of `--adapter`, for people who do not know that word."""

_JUDGES = (RUN, JUDGE, PYTEST)
_CONNECTS = (RUN, UPGRADE, CHECK, EXPLORE, PYTEST)
_PLANS = (RUN, UPGRADE, PYTEST)
"""Those that play the written scenarios."""
_RECORDS = (*_PLANS, EXPLORE)


class Option(NamedTuple):
    """An option: what is typed after it (`metavar`; empty for a switch), its help, and the fronts that have it.

    `alias` is another name of it on the command line. Under pytest it would be one more name to collide.
    """

    flag: str
    metavar: str
    help: str
    fronts: tuple[str, ...]
    type: type = str
    repeatable: bool = False
    default: int | None = None
    short: str = ""
    alias: str = ""
    required: bool = False

    @property
    def name(self) -> str:
        return self.flag.removeprefix("--").replace("-", "_")

    @property
    def in_full(self) -> str:
        """Its name under pytest, where many plugins share one command line."""
        return f"--conformance-{self.flag.removeprefix('--')}"

    @property
    def unset(self) -> int | str | None:
        """The value of an option that was not typed and is neither a switch nor repeatable."""
        return "" if self.type is str and not self.required else self.default


CREDENTIALS = (
    Option("--user", "NAME", "User name of the clients: SASL PLAIN, STOMP login.", _CONNECTS),
    Option("--password-env", "NAME", "The environment variable that holds the password.", _CONNECTS),
    Option("--password-file", "FILE", "The file that holds the password, in one line.", _CONNECTS, pathlib.Path),
    Option("--sasl", "WORD", "SASL mechanism  [default: chosen by the other options]", _CONNECTS),
    Option("--tls", "", "Use TLS; any of the next four options implies it.", _CONNECTS),
    Option("--tls-ca", "FILE", "Authorities that sign the broker's certificate, PEM.", _CONNECTS, pathlib.Path),
    Option("--tls-cert", "FILE", "The clients' own certificate, PEM.", _CONNECTS, pathlib.Path),
    Option("--tls-key", "FILE", "Its key, PEM, without a passphrase.", _CONNECTS, pathlib.Path),
    Option("--tls-server-name", "NAME", "The name in the broker's certificate.", _CONNECTS),
)
"""A password is never typed: an option names the variable or the file that holds it."""

OPTIONS = (
    Option(
        "--adapter",
        "NAME[@VERSION][:LAUNCHER]",
        f"The broker to test; repeatable. {_LAUNCHERS}",
        (RUN,),
        repeatable=True,
        required=True,
        alias=BROKER,
    ),
    Option(
        "--adapter",
        "NAME[@VERSION][:LAUNCHER]",
        f"The broker to test. {_LAUNCHERS}",
        (EXPLORE, PYTEST),
        required=True,
        alias=BROKER,
    ),
    Option("--protocol", "WORDS", f"Protocols of the clients, with commas between them: {_PROTOCOLS}", (RUN,)),
    Option("--protocol", "WORD", f"Protocol of the clients: {_PROTOCOLS}", (EXPLORE, PYTEST)),
    Option(
        "--client",
        "NAME",
        f"The vendor's client for {' or '.join(VENDOR_SURFACES)}, such as qpid-jms.  [default: the broker's own]",
        _RUNS,
    ),
    Option("--set", "NAME=VALUE", "A setting of broker or client; repeatable.", (*_RECORDS, CHECK), repeatable=True),
    Option("--config", "PATH", "Your own configuration, a file or a folder: a copy of it runs.", _RUNS, pathlib.Path),
    Option(
        "--claims",
        "PATTERNS",
        "Claims to test, such as 'AMQP-*'; repeatable.  [default: *]",
        _PLANS,
        repeatable=True,
        alias="--claim",
    ),
    Option(
        "--scenario",
        "PATTERNS",
        "Play only these scenarios, such as 'broker-killed-*'; repeatable.  [default: those that every run has]",
        (RUN,),
        repeatable=True,
    ),
    Option(
        "--require",
        "CLAIM",
        "Judge this claim even if the configuration does not promise it; repeatable.",
        _RUNS,
        repeatable=True,
    ),
    Option(
        "--judge-as",
        "VENDOR",
        "Judge by this vendor's sentences too: activemq, artemis, ems, qpid, rabbitmq or solace; repeatable.",
        _RUNS,
        repeatable=True,
    ),
    Option(
        "--known-failures", "FILE", "Violations that do not fail the run (TOML).", (*_JUDGES, EXPLORE), pathlib.Path
    ),
    Option("--baseline", "REPORT", "Fail only on what an earlier report does not have.", _JUDGES, pathlib.Path),
    Option("--require-tried", "PATTERNS", "Fail if a claim was not tried; repeatable.", _JUDGES, repeatable=True),
    Option(
        "--plan",
        "",
        "Print which trials share a broker, which fires which fault, and how long it takes; play nothing.",
        (RUN,),
    ),
    Option("--trials", "N", "Trials of each scenario  [default: 3]", _PLANS, int, default=3),
    Option("--for", "TIME", "Explore for so long, such as 90s, 10m or 2h.  [default: 1h]", (EXPLORE,)),
    Option("--trials", "N", "End after so many scripts, with a trial of each.", (EXPLORE,), int),
    Option(
        "--jobs",
        "N",
        "Brokers on trial at the same time. Trials that measure time run alone, and an external broker is always one.  "
        "[default: the number of cores; 1 in a worker of pytest-xdist]",
        _RECORDS,
        int,
    ),
    Option("--seed", "N", "Repeat a run: the same trigger points.  [default: random, printed]", _RECORDS, int),
    *CREDENTIALS,
    Option("--out", "DIR", "Folder of the run  [default: runs/<date>-<adapter>]", (*_RECORDS, REPLAY), pathlib.Path),
    Option(
        "--resume",
        "DIR",
        "Go on with a run that was interrupted, in its folder. Give the options that it was started with.",
        (RUN, EXPLORE),
        pathlib.Path,
    ),
    Option("--offline", "", "Download nothing; see `conformance fetch --to`.", (*_CONNECTS, REPLAY)),
    Option(
        "--quick",
        "",
        "At most ten claims, the strongest: about 40 s of trials, then 20 s for Spark and the report on an idle "
        "machine; longer on a busy one. Also the scenarios whose kind of queue your own file sets up.",
        _PLANS,
    ),
    Option(
        "--thorough",
        "",
        "Also the scenarios that others stand for in every run: more faults of the same kind, at more moments.",
        _PLANS,
    ),
    Option(
        "--budget",
        "TIME",
        "Play on until so much time has passed, such as 90s, 10m or 2h: more trials, of the scenarios with the fewest "
        "faults first. Then judge.",
        (RUN,),
    ),
    Option("--strict-verdicts", "", "Fail what could not be decided, instead of skipping it.", (PYTEST,)),
    Option("--quiet", "", "Print only the summary.", (RUN, UPGRADE, REPLAY, EXPLORE), short="-q"),
    Option(
        "--verbose", "", "Print what each trial does: drawn numbers, restarts, controls.", (RUN, UPGRADE), short="-v"
    ),
)

GROUPS = {
    "The broker and its clients": "adapter protocol client set config",
    "What is tried": "claims scenario quick thorough for trials budget seed plan",
    "What you expect": "require judge-as known-failures baseline require-tried",
    "Login and TLS": "user password-env password-file sasl tls tls-ca tls-cert tls-key tls-server-name",
    "The run": "jobs out resume offline quiet verbose",
}
"""The titles of the help of a command, and the options below each."""


def options_of(front: str) -> list[Option]:
    """Return the options that the front has, in the order of its help."""
    return [option for option in OPTIONS if front in option.fronts]


def each_run(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the values of each run of a command that names several brokers or protocols."""
    named = [(adapter, word) for adapter in values["adapter"] for word in values["protocol"].split(",")]
    return [{**values, "adapter": adapter, "protocol": word} for adapter, word in named]


def prepare(values: Mapping[str, Any]) -> tuple[Campaign, Expected]:
    """Check every word of a run before anything starts: what it tests, and what the user expects of the verdicts.

    `values` has each value by `Option.name`. Raises `UsageError`.
    """
    from conformance import campaign
    from conformance.report.expectations import check_baseline

    made = campaign.prepare(run_options(values))
    expected = expectations(values)
    check_baseline(expected.baseline, adapter=made.adapter.name, protocol=made.selection.protocol)
    return made, expected


def run_options(values: Mapping[str, Any]) -> Options:
    """Return the typed options of a run; an upgrade has no client, configuration or requirement."""
    from conformance import campaign, claims

    return campaign.Options(
        adapter=values["adapter"],
        protocol=values["protocol"],
        client=values.get("client", ""),
        settings=tuple(values["set"]),
        claims=claims.words(values.get("claims") or ["*"]),
        scenarios=claims.words(values.get("scenario", ())),
        required=claims.words(values.get("require", ())),
        judge_as=claims.words(values.get("judge_as", ())),
        quick=values.get("quick", False),
        thorough=values.get("thorough", False),
        budget_s=seconds(values.get("budget", "")),
        trials=1 if values["trials"] is None else values["trials"],
        jobs=values["jobs"],
        seed=values["seed"],
        out=values["out"],
        resume=values.get("resume"),
        offline=values["offline"],
        access=access(values),
        config=values.get("config"),
    )


def seconds(time: str, option: str = "--budget") -> int:
    """Return the seconds of a time such as `10m`; 0 for none.

    >>> seconds("90s"), seconds("10m"), seconds("2h"), seconds("")
    (90, 600, 7200, 0)
    """
    from conformance.errors import UsageError

    number, factor = time[:-1], {"s": 1, "m": 60, "h": 3600}.get(time[-1:], 0)
    if time and not (number.isdigit() and factor):
        raise UsageError(f"{option} {time}: give a whole number with s, m or h, such as 10m", code="no-time")
    return int(number or 0) * factor


def expectations(values: Mapping[str, Any]) -> Expected:
    """Read and check what the user expects of the verdicts: it changes the exit code, never a verdict."""
    from conformance import claims
    from conformance.report.expectations import Expected

    required = claims.words(values["require_tried"])
    return Expected.read(claims.load(), values["known_failures"], values["baseline"], required)


def pairs(option: str, given: Iterable[str], expected: str = "NAME=VALUE") -> dict[str, str]:
    """Return the values of a repeatable option by their names; raises `UsageError` for a word without both."""
    from conformance.errors import UsageError

    for one in given:
        if one.find("=") < 1:
            raise UsageError(f"{option} {one!r}: expected {expected}", code="not-a-pair", option=option)
    return dict(one.split("=", 1) for one in given)


def access(values: Mapping[str, Any]) -> Access:
    """Return the credentials that were typed.

    Raises `UsageError`: an unknown word, a missing file, or two options that do not go together.
    """
    from conformance.adapters.credentials import MECHANISMS, Access, ClientTls, Secret
    from conformance.errors import UsageError

    given: dict[str, Any] = {option.name: values[option.name] or "" for option in CREDENTIALS}
    if given["password_env"] and given["password_file"]:
        raise UsageError("--password-env and --password-file: give one of them", code="one-of")
    if bool(given["tls_cert"]) != bool(given["tls_key"]):
        raise UsageError("--tls-cert and --tls-key: give both or neither", code="both-or-neither")
    mechanism = given["sasl"].upper()
    if mechanism and mechanism not in MECHANISMS:
        raise UsageError.unknown("SASL mechanism", mechanism, MECHANISMS)
    for option in CREDENTIALS:
        if option.type is pathlib.Path and (path := given[option.name]):
            if not path.is_file():
                raise UsageError(
                    f"{option.flag} {path}: there is no such file", code="no-such-file", option=option.flag, file=path
                )
            given[option.name] = str(path.absolute())
    secret = Secret(env=given["password_env"], file=given["password_file"])
    tls = ClientTls(given["tls_ca"], given["tls_cert"], given["tls_key"], given["tls_server_name"])
    return Access(
        user=given["user"],
        password=secret if secret != Secret() else None,
        mechanism=mechanism,
        tls=tls if given["tls"] or tls != ClientTls() else None,
    )
