"""A broker that runs already: the suite connects to its addresses, and its owner's commands inject the faults.

It has no processes that could be seen here, so a fault is shown by what a client sees: its connection was lost after
the command had begun, and where the broker is to stay down, nobody answers at its address. Nothing is touched but
queues that carry the run's id in their names, or those that the owner names; they are removed at the end, or listed.

A fault for which the owner gives no command is NOT_TRIED, with that reason. `WitnessConnection` shows that the broker
ended: it is new, so the broker did not close it for being idle.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Self

from conformance.adapters.credentials import OPEN, Access, ClientTls
from conformance.adapters.external.addresses import Place, at_its_host, numbers_of, places
from conformance.adapters.external.commands import Commands, RunningCommand
from conformance.adapters.external.queues import PREFIX, Existing, RunQueues
from conformance.adapters.file.external_table import External
from conformance.adapters.file.placeholders import fill
from conformance.adapters.file.settings import EffectiveSettings, show
from conformance.adapters.launch.prepared import (
    READY_QUEUE,
    BrokerSource,
    DepthProbe,
    Options,
    Plan,
    filled_probe,
    probe_of,
    words_of,
)
from conformance.adapters.launchers import LEFT
from conformance.errors import ClientError, ConformanceError, LaunchError, StartFailure, UsageError
from conformance.ledger import Ledger
from conformance.scenario.script import CLEAN_RESTART, KILL_OF_HALTED, KILL_WHILE_STARTING

_YOUNG_S = 2.0
"""Brokers close a connection that says nothing, after 10 s and more: it is made anew long before."""

_CONNECT_S = 5.0


class WitnessConnection:
    """A connection that is open from the beginning of its `with`; `LaunchError` if no broker accepts it."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        try:
            self._line = socket.create_connection(address, _CONNECT_S)
        except OSError as error:
            raise LaunchError(f"{address[0]}:{address[1]} takes no connection: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._line.close()

    def lost(self, within_s: float) -> bool:
        """Whether a connection that was open, and young, is ended by the peer, or a new one refused, in that time."""
        deadline = time.monotonic() + within_s
        while (left := deadline - time.monotonic()) > 0:
            self._line.settimeout(min(left, _YOUNG_S))
            try:
                if not self._line.recv(4096):
                    return True
            except TimeoutError:
                if not self._renewed():
                    return True
            except OSError:
                return True
        return False

    def _renewed(self) -> bool:
        """The new one is open before the old one is closed, so that no end falls between them."""
        try:
            line = socket.create_connection(self._address, _CONNECT_S)
        except ConnectionRefusedError:
            return False
        except OSError:  # slow to take it: the old one still stands
            return True
        self._line.close()
        self._line = line
        return True


_FAULTS: Mapping[str, tuple[str, ...]] = {"kill": ("kill",), "stop": ("stop",), "pause": ("pause", "resume")}
"""The commands that a fault at its process needs."""

_NEEDS: Mapping[str, tuple[str, ...]] = {CLEAN_RESTART: ("stop",), KILL_OF_HALTED: ("pause", "kill")}
"""The commands that something else in a script needs (`Scenario.needs`)."""

PAGE = "docs/external-brokers.md"
"""Says what each command is for."""

_ITS_DISK = "the disk of an external broker is out of reach"
_NEVER: Mapping[str, str] = {
    **dict.fromkeys(("watched", "held_sync", "failed_sync", "disk_full"), f"{_ITS_DISK}: no tracer starts it"),
    "power_loss": f"{_ITS_DISK}: it cannot be taken away",
    KILL_WHILE_STARTING: "the journal of an external broker is out of reach, and so is the moment of its recovery",
}
"""What no command makes possible."""


def why_not(rules: External, word: str) -> str:
    """Why this fault, or need, is not possible; empty where it is."""
    if word in _NEVER:
        return _NEVER[word]
    missing = [name for name in (*_FAULTS.get(word, ()), *_NEEDS.get(word, ())) if rules.command(name) is None]
    if missing:
        fields = " and ".join(f"external.{name}.command" for name in missing)
        return f"there is no command for it. Give {fields} in the broker's file ({PAGE}), and it is tried"
    if word.startswith("a queue with"):
        return "queues of an external broker are declared without options"
    if word == "settings of any name":
        return "an external broker is not reconfigured"
    return ""


_READY_S = 60.0
_SLOW_S = 10.0
_TICK_S = 0.05
_GATES = {"kill": ("kill",), "stop": ("stop",), "pause": ("pause", "resume"), "pause_kill": ("pause", "kill")}
"""The commands that wait at their gates while the trigger of a fault is armed, in the order of their descriptors."""


def prepare(
    source: BrokerSource,
    rules: External,
    here: pathlib.Path,
    folder: pathlib.Path,
    settings: EffectiveSettings,
    queues: Sequence[str],
    ledger: Ledger,
    *,
    liar: str | None = None,
    options: Mapping[str, Options] | None = None,
) -> ExternalBroker:
    """The broker behind these addresses; `folder` gets what its owner's commands print. Nothing is touched yet.

    `here` is the folder of the owner's file. Raises `UsageError` (an address that is none, a queue with options, no
    way to a queue), `LaunchError` (a command that does not exist).
    """
    if liar is not None:
        raise UsageError(f"an external broker is not made to lie: {liar!r} is a liar of the bundled broker")
    for queue, chosen in (options or {}).items():
        if chosen:
            raise UsageError(f"{queue}: queues of an external broker are declared without options")
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    if rules.depth is not None:
        file = source.file.model_copy(update={"depth": rules.depth})
        source = dataclasses.replace(source, file=file)
    found = places(rules.urls, source.file)
    words = words_of(source, folder, settings, numbers_of(found, source.file), None, "")
    words |= {"here": str(here), "listen": next(iter(found.values())).host}
    show(folder, settings)
    plan = Plan(source, settings, tuple(queues), folder, words, (), None, _deviations(rules, found, ledger))
    return ExternalBroker(plan, rules, found, here, ledger)


def _deviations(rules: External, found: Mapping[str, Place], ledger: Ledger) -> dict[str, str]:
    addresses = ", ".join(f"{name} at {place}" for name, place in found.items())
    told = {
        "external broker": f"it ran already ({addresses}); its version, capabilities and settings are as its owner's "
        "words have them, and were not read from it",
    }
    for name in ("kill", "stop", "pause"):
        if command := rules.command(name):
            told[name] = f"by its owner's command, `{' '.join(command.command)}`: a {name} is what that does"
    if rules.stop is None:
        told["clean restart"] = "left out before the last look at a queue: external.stop.command is not given"
    if rules.queues:
        emptied = "; each is emptied before it is used, as its owner says" if rules.drain_queues else ""
        told["queues"] = f"existing ones of its owner: {', '.join(rules.queues)}{emptied}"
    else:
        told["queues"] = f"named {PREFIX}-{ledger.run_id}-..."
    return told


class ExternalBroker:
    """See `interface.Broker`: it has no `processes` here, and no `pidfds`."""

    by_command = True
    contained = False
    exit_status: int | None = None
    journal_files: Sequence[str] = ()

    def __init__(
        self, plan: Plan, rules: External, found: Mapping[str, Place], here: pathlib.Path, ledger: Ledger
    ) -> None:
        self.plan, self.rules, self.places = plan, rules, found
        self.folder, self.settings, self.deviations = plan.folder, plan.settings, dict(plan.deviations)
        self.data = self.journal = plan.folder / "nothing-of-it-is-here"
        self.epoch = 0
        self.start_seconds: list[float] = []
        self.prove_ready: Callable[[], None] | None = None
        self.ask_depth: Callable[[str], int] | None = None
        self.drain_queue: Callable[[str], None] | None = None
        self.no_copy = "the data of an external broker is its owner's"
        self.patience_s = 0.0
        self.commands = Commands(rules, plan.folder, here, self._filled, ledger)
        self._queues = RunQueues(
            plan, rules, self.commands, ledger, drain=self._drain, place=self._amqp, moved=self._at_its_host
        )
        self._existing = Existing(rules, self._depth_of, self._drain) if rules.queues else None
        self._down = False
        self._halted = False
        self._armed: list[RunningCommand] = []
        self._check_depth()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # where it is

    def endpoint(self, protocol: str) -> tuple[str, int]:
        """Host and port of `protocol`; `UsageError` where no address was given for it."""
        place = self._place(protocol)
        return place.host, place.port

    def access(self, protocol: str) -> Access:
        """How a client comes in there: as `[access]`, the address and who typed say."""
        source = self.plan.source
        at = self.places[protocol].access if protocol in self.places else OPEN
        return source.file.credentials(protocol, source.here, at)

    @property
    def http_port(self) -> int | None:
        """Of its management, where an address was given."""
        return self.places["http"].port if "http" in self.places else None

    def depth_probe(self, queue: str) -> DepthProbe:
        """How to ask for the depth of `queue`, by its name at the broker."""
        words = {**self.plan.words, "queue": queue}
        return probe_of(self.plan.source.file, words, self._at_its_host)

    def policy_probe(self, queue: str) -> DepthProbe | None:
        """How to ask for the policies of `queue`, by its name at the broker; None where its file does not say."""
        asked = self.plan.source.file.policies
        words = {**self.plan.words, "queue": queue}
        if asked is None:
            return None
        probe = filled_probe(asked, words, self._at_its_host)
        return dataclasses.replace(probe, body=fill(asked.body, words, "policies.body"))

    def queue_of(self, queue: str) -> str:
        """What a queue is called at the broker: it has the run's id in its name, or is an empty one of its owner's.

        Raises `LaunchError` where each of its owner's holds messages: nothing of them is consumed unless he says so.
        """
        self.commands.environment["CONFORMANCE_QUEUE"] = found = (self._existing or self._queues).name(queue)
        return found

    # its life

    @property
    def log(self) -> pathlib.Path:
        """What the newest command has printed; its own logs are its owner's."""
        return self.logs[-1] if self.logs else self.folder / "no-command-was-run.log"

    @property
    def logs(self) -> list[pathlib.Path]:
        """What each command has printed."""
        return self.commands.logs

    def start(self, wrap: Sequence[str] = (), *, more: Sequence[str] = ()) -> None:
        """Wait until it is ready, after its owner's `start` where it is down; the first time it is only looked at.

        Raises `LaunchError` where it does not answer, or not in its protocol, or no message comes through.
        """
        began = time.monotonic()
        self.launch(wrap, more=more)
        self.commands.run("wait_ready")
        ready_s = max(self.rules.wait_ready.seconds if self.rules.wait_ready else _READY_S, self.patience_s)
        comes_up = self._down or self.commands.has("start")
        self._wait_answers(began, ready_s if comes_up else 0.0 if self._refusing else _SLOW_S)
        self._queues.declare()
        if self._existing is not None and self.epoch == 1:
            self._existing.check()
            for name, held in self._existing.passed_over.items():
                self.deviations[f"queue {name}"] = f"passed over: it held {held} messages, which were left alone"
        self._prove(began, ready_s)
        if self.epoch == 1:
            self._check_depth_answer()
        self._down = False
        self.start_seconds.append(time.monotonic() - began)

    def launch(self, wrap: Sequence[str] = (), *, more: Sequence[str] = ()) -> None:
        """Its owner's `start`, where it is down; `LaunchError` where it was to be started in another way."""
        if wrap or more:
            raise LaunchError(f"{self._title} runs already: it is started with no other words, and under no tracer")
        self.epoch += 1
        self.commands.environment["CONFORMANCE_EPOCH"] = str(self.epoch)
        if self._down or self._place_in_use.refuses:
            self.commands.run("start")

    @property
    def was_ready(self) -> bool:
        """Whether it answers in each protocol."""
        return not self._unanswered()

    def stop(self) -> None:
        """Its owner's `stop`; `LaunchError` where that fails, or did not cost a connection that was open before."""
        rules = self.rules.stop
        if rules is None:
            raise LaunchError(f"{self._title}: external.stop.command is not given, so it cannot be stopped in order")
        with self.armed("stop") as (gate, _), WitnessConnection(self.endpoint(self._place_in_use.protocol)) as witness:
            os.write(gate, b"go\n")
            if not witness.lost(rules.seconds):
                raise LaunchError(
                    f"external.stop: a connection is still there {rules.seconds:g} s after it began: the broker was "
                    "not stopped"
                )
        self._down = True
        if self.commands.has("start") and not self._wait_refused(rules.seconds):
            raise LaunchError(f"external.stop: {self._place_in_use} still answers: it is back before external.start")

    @contextlib.contextmanager
    def armed(self, fault: str) -> Iterator[list[int]]:
        """For each command of the fault the end of a pipe, by which it is started, and the pidfd of its process."""
        with contextlib.ExitStack() as stack:
            self._armed = [stack.enter_context(self.commands.gated(name)) for name in _GATES[fault]]
            try:
                yield [descriptor for each in self._armed for descriptor in (each.gate, each.pidfd)]
            except ConformanceError:
                for each in self._armed:
                    each.check_failed()  # it says more than what came of it
                raise
            for each in self._armed:
                each.close_gate()
                if each.was_opened:
                    each.finish()
        self._armed = []

    def within_s(self, fault: str) -> float:
        """What the command of that fault says of itself."""
        rules = self.rules.command(fault)
        return rules.seconds if rules else 0.0

    def processes(self) -> list[int]:
        """None that could be seen here."""
        return []

    def pidfds(self, *, main_only: bool = False) -> contextlib.AbstractContextManager[list[int]]:
        """None: see `armed`."""
        return contextlib.nullcontext([])

    def gone(self) -> bool:
        """Whether a fault has ended it, and it was not started since."""
        return self._down

    def wait_gone(self, timeout_s: float) -> bool:
        """Whether it is gone: a client has lost its connection to it, and nobody answers where it is to stay down.

        Where it comes back by itself, it may be back already. The client's connection is then all that shows it.
        """
        self._down = True
        return not self.commands.has("start") or self._wait_refused(timeout_s)

    def alive_check(self) -> None:
        """Raise `LaunchError` where it does not answer although no fault of ours has ended it."""
        if not self._down and (what := self._unanswered()):
            raise LaunchError(f"{self._title} does not answer, and no command of this run has ended it: {what}")

    def close(self) -> None:
        """Leave it as it was found: running, let go on, without our queues. Write what is left into `left.txt`."""
        left: list[str] = []
        for undo in (self._let_go_on, self._bring_back):
            try:
                undo()
            except LaunchError as error:
                left.append(f"{self._title}: {error}")
        summary, *names = self._queues.remove() or [""]
        left += [f"{self._title}: {summary}", *names] if summary else []
        if left:
            (self.folder / LEFT).write_text("\n".join([*left, ""]))

    # inside

    @property
    def _title(self) -> str:
        return f"{self.plan.source.file.title} at {self._place_in_use}"

    @property
    def _place_in_use(self) -> Place:
        return next(place for name, place in self.places.items() if name in self.plan.source.file.protocols)

    def _place(self, protocol: str) -> Place:
        if protocol not in self.plan.source.file.protocols:
            raise UsageError.unknown("protocol", protocol, self.places, of=self.plan.source.file.name)
        if protocol not in self.places:
            raise UsageError(
                f"no address for {protocol}: {self.plan.source.file.name} was given at "
                f"{', '.join(self.places)} only; add {protocol}://HOST:PORT to external="
            )
        return self.places[protocol]

    def _tls(self, protocol: str) -> ClientTls | None:
        """That of its clients: the file, the address and who typed have a say."""
        source = self.plan.source
        return source.file.access.of(protocol, source.here, self.places[protocol].access).tls

    def _at_its_host(self, url: str) -> str:
        user = self.access("http").user if self.rules.same_login else ""
        return at_its_host(url, self.places, user)

    def _amqp(self) -> tuple[str, int, Access] | None:
        return (*self.endpoint("amqp"), self.access("amqp")) if "amqp" in self.places else None

    @property
    def _refusing(self) -> bool:
        return any(place.refuses for place in self.places.values())

    def _filled(self, text: str, field: str) -> str:
        return fill(text, self.plan.words, field)

    def _check_depth(self) -> None:
        depth = self.plan.source.file.depth
        if depth is not None and "{http_port}" in depth.url and "http" not in self.places:
            name, addresses = self.plan.source.file.name, ",".join(self.rules.urls.values())
            raise UsageError(
                f"external=: the address of the management is missing: the suite asks {name} over HTTP how many "
                f"messages a queue holds. Give it as well: --adapter {name}:external={addresses},http://HOST:PORT"
            )
        try:
            self.depth_probe("any")
        except UsageError as error:
            raise UsageError(
                f"depth: {error}. The suite needs the depth of a queue to know that it is empty"
            ) from error

    def _unanswered(self, *, final: bool = False) -> str:
        """What is wrong with who answers at its addresses; `final`: only where waiting is no use."""
        for name, place in self.places.items():
            what, hopeless = place.wrong(self._tls(name))
            if what and (hopeless or not final):
                return f"external.urls.{name}: {what}"
        return ""

    def _wait_answers(self, began: float, ready_s: float) -> None:
        while what := self._unanswered():
            if wrong := self._unanswered(final=True):
                raise LaunchError(f"{self.plan.source.file.title}: {wrong}. Correct the address")
            if time.monotonic() - began > ready_s:
                after = f" {ready_s:g} s after it was to come back" if ready_s else ""
                raise LaunchError(
                    f"{self.plan.source.file.title}: {what}{after}. Start the broker, or correct the address",
                    failure=StartFailure.LATE if self._down else None,
                )
            time.sleep(_TICK_S)

    def _wait_refused(self, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        place = self._place_in_use
        while not place.wrong(self._tls(place.protocol))[0]:
            if time.monotonic() > deadline:
                return False
            time.sleep(_TICK_S)
        return True

    def _prove(self, began: float, ready_s: float) -> None:
        while self.prove_ready is not None:
            try:
                self.prove_ready()
            except ClientError as error:
                if time.monotonic() - began > ready_s:
                    raise LaunchError(
                        f"{self._title}: no message came through within {ready_s:g} s: {error}",
                        failure=StartFailure.LATE if self._down else None,
                    ) from error
                time.sleep(_TICK_S)
            else:
                return

    def _check_depth_answer(self) -> None:
        """Ask for a depth once where the broker may lack what answers: each drain would ask in vain."""
        depth = self.plan.source.file.depth
        if depth is None or not depth.needs:
            return
        try:
            self._depth_of(self.queue_of(READY_QUEUE))
        except ClientError as error:
            raise LaunchError(f"{self._title}: {error}") from error

    def _depth_of(self, queue: str) -> int:
        return self.ask_depth(queue) if self.ask_depth else 0

    def _drain(self, queue: str) -> None:
        if self.drain_queue is not None:
            self.drain_queue(queue)

    def _let_go_on(self) -> None:
        """A pause that nobody has ended: its owner's `resume`; commands that still run are waited for."""
        armed, self._armed = self._armed, []
        begun = [each.name for each in armed if each.was_opened]
        for each in armed:
            with contextlib.suppress(LaunchError):  # its trial is void, and says why
                each.finish()
        if "pause" in begun and "resume" not in begun and "kill" not in begun:
            self.commands.run("resume")
        if {"kill", "stop"} & set(begun):
            self._down = self._place_in_use.refuses

    def _bring_back(self) -> None:
        if self._down:
            self.commands.run("start")
