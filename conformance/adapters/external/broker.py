"""A broker that runs already: the suite connects to its addresses, and its owner's commands inject the faults.

Its processes cannot be seen here, so a client shows that a fault took effect: its connection is lost after the command
has begun, and if the broker is to stay down, nothing answers at its address. The suite uses only queues that have the
run's id in their names, which it removes at the end, or lists, and queues that the owner names.

A fault for which the owner gives no command is NOT_TRIED, with that reason.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import pathlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Self

from conformance.adapters.credentials import OPEN, Access, ClientTls, scheme_of
from conformance.adapters.distribution.versions import default_version
from conformance.adapters.external import addresses
from conformance.adapters.external.addresses import HTTP, Place, WitnessConnection
from conformance.adapters.external.commands import Commands, RunningCommand
from conformance.adapters.external.queues import PREFIX, Existing, RunQueues
from conformance.adapters.external.rules import asked_by, complete_rules
from conformance.adapters.file.launch_tables import External, Remove
from conformance.adapters.file.model import BrokerFile
from conformance.adapters.file.placeholders import fill
from conformance.adapters.file.settings import show
from conformance.adapters.file.table import read_file
from conformance.adapters.interface import READY_QUEUE, Broker, DepthProbe, JournalFiles
from conformance.adapters.launch.launcher import FileLauncher
from conformance.adapters.launch.one_node import PlannedBroker
from conformance.adapters.launch.plan import BrokerSetup, BrokerSource, Plan, words_of
from conformance.adapters.launch.readiness import LOGIN_S, RefusedLogins, not_served
from conformance.claims import Value
from conformance.errors import BlockedError, ClientError, ConformanceError, LaunchError, StartFailure, UsageError
from conformance.ledger import Ledger
from conformance.protocols import WIRES, describe, protocol_of_depth
from conformance.scenario import needs
from conformance.scenario.needs import Means, Need, Wanted

PAGE = "docs/how-to/external-brokers.md"
"""Says what each command is for."""

_ITS_DISK = "the disk of an external broker is out of reach"
_ITS_JOURNAL = "the journal of an external broker is out of reach"
_NEVER: Mapping[Means | Wanted, str] = {
    Means.TRACER: f"{_ITS_DISK}: no tracer starts it",
    Means.POWER: f"{_ITS_DISK}: it cannot be taken away",
    Means.LIMITS: "the processes of an external broker are out of reach",
    needs.JOURNAL_WATCHED: _ITS_JOURNAL,
    needs.EXPIRY_QUEUE: "the suite takes no messages from such a queue of an external broker",
    needs.SEVERAL: "the suite uses one queue of an external broker at a time",
    needs.KILL_WHILE_STARTING: f"{_ITS_JOURNAL}, and so is the moment of its recovery",
}
"""What no command makes possible, with the reason."""


def why_not(rules: External, wanted: Wanted) -> str:
    """Why this fault, or need of a scenario, is not possible; empty if it is possible."""
    never = _NEVER.get(wanted) or (_NEVER.get(wanted.means) if wanted.means else None)
    if never:
        return never
    if wanted.signal and not wanted.commands:
        return "the processes of an external broker are out of reach, and no command of its owner stands for this fault"
    missing = [name for name in wanted.commands if rules.command(name) is None]
    if missing:
        fields = " and ".join(f"external.{name}.command" for name in missing)
        return f"there is no command for it. Give {fields} in the broker's file ({PAGE}), and it is tried"
    if isinstance(wanted, Need) and wanted.option:
        return "queues of an external broker are declared without options"
    if wanted in needs.LIVES.values():
        return "queues of an external broker are made, or found empty, before they are used"
    if wanted == needs.SETTINGS:
        return "an external broker is not reconfigured"
    return ""


LEFT = "left.txt"
"""A file in the folder of an external broker: the queues and faults that the suite left there, and why."""

_READY_S = 60.0
_SLOW_S = 10.0
_TICK_S = 0.05


def leftovers(folder: pathlib.Path) -> Iterator[str]:
    """What the run in `folder` left at its external brokers, for its user: a line for each broker."""
    for path in sorted(folder.glob(f"brokers/*/{LEFT}")):
        first, *more = path.read_text().splitlines()
        yield first + (f" (all lines are in {path})" if more else "")


def prepare(source: BrokerSource, rules: External, here: pathlib.Path, setup: BrokerSetup) -> ExternalBroker:
    """Make the broker behind these addresses. Its folder gets the output of its owner's commands; none is run yet.

    `here` is the folder of the owner's file. Raises `UsageError` (a malformed address, a queue with options, no way
    to a queue), `LaunchError` (a command that does not exist).
    """
    if setup.liar is not None:
        raise UsageError(f"an external broker is not made to lie: {setup.liar!r} is a liar of the bundled broker")
    for queue, chosen in setup.options.items():
        if chosen:
            raise UsageError(f"{queue}: queues of an external broker are declared without options")
    folder, settings, ledger = setup.folder, setup.settings, setup.ledger
    folder.mkdir(parents=True, exist_ok=True)
    found = addresses.places(rules.urls, source.file)
    words = words_of(source, folder, settings, addresses.numbers_of(found, source.file))
    words |= {"here": str(here), "listen": next(iter(found.values())).host}
    show(folder, settings)
    plan = Plan(source, settings, tuple(setup.queues), folder, words, (), _deviations(rules, found, ledger))
    return ExternalBroker(plan, setup, rules, found, here)


def _deviations(rules: External, found: Mapping[str, Place], ledger: Ledger) -> dict[str, str]:
    addresses = ", ".join(f"{name} at {place}" for name, place in found.items())
    changes = {
        "external broker": f"it ran already ({addresses}); its version, capabilities and settings are those that its "
        "owner states; they were not read from it",
    }
    for name in ("kill", "stop", "pause"):
        if command := rules.command(name):
            changes[name] = f"by its owner's command, `{' '.join(command.command)}`: a {name} is what that does"
    if rules.stop is None:
        changes["clean restart"] = "left out before the last look at a queue: external.stop.command is not given"
    if rules.queues:
        emptied = "; each is emptied before it is used, as its owner says" if rules.drain_queues else ""
        changes["queues"] = f"existing ones of its owner: {', '.join(rules.queues)}{emptied}"
    else:
        changes["queues"] = f"named {PREFIX}-{ledger.run_id}-..."
    return changes


class ExternalBroker(PlannedBroker):
    """A broker without any process that can be seen here."""

    by_command = True
    no_copy = "the data of an external broker is its owner's"
    exit_status: int | None = None

    def __init__(
        self, plan: Plan, setup: BrokerSetup, rules: External, found: Mapping[str, Place], here: pathlib.Path
    ) -> None:
        super().__init__(plan, setup)
        self.rules, self.places = rules, found
        self.data = plan.folder / "nothing-of-it-is-here"  # the broker stores elsewhere
        self.journal_files = JournalFiles(self.data, ())
        self.commands = Commands(rules, plan.folder, here, self._filled, setup.ledger)
        self._queues = RunQueues(
            plan,
            rules,
            self.commands,
            setup.ledger,
            drain=self._drain,
            over_amqp=self._ask_to_remove,
            amqp=self._amqp,
            moved=self._moved,
        )
        self._existing = Existing(rules, self._depth_of, self._drain) if rules.queues else None
        self._ready_s = _READY_S
        self._down = False
        self._armed: list[RunningCommand] = []
        spoken = [word for word in found if word in plan.source.file.protocols]
        if not all(word in WIRES and describe(word).traits.queues_by_client for word in spoken):
            self.depth_probe("any")  # without a depth no drain is complete
        if setup.client is not None:
            self.queue_of(READY_QUEUE)

    # service

    def endpoint(self, protocol: str) -> tuple[str, int]:
        """Host and port of `protocol`; `UsageError` if its owner gave no address for it."""
        place = self._place(protocol)
        return place.host, place.port

    def access(self, protocol: str) -> Access:
        source = self.plan.source
        at = self.places[protocol].access if protocol in self.places else OPEN
        return source.file.credentials(protocol, source.here, at)

    def policy_probe(self, queue: str) -> DepthProbe | None:
        table = self.plan.source.file.policies
        return None if table is None else self.plan.probe(table, queue, self._moved)

    def queue_of(self, queue: str) -> str:
        """The name of a queue at the broker: a name with the run's id, or that of an empty queue of its owner.

        Raises `LaunchError` if each queue of its owner holds messages, which the suite may not consume.
        """
        self.commands.environment["CONFORMANCE_QUEUE"] = found = (self._existing or self._queues).name(queue)
        return found

    # facts

    @property
    def log(self) -> pathlib.Path:
        """The output of the newest command; the logs of the broker are its owner's."""
        return self.logs[-1] if self.logs else self.folder / "no-command-was-run.log"

    @property
    def logs(self) -> list[pathlib.Path]:
        return self.commands.logs

    # lifecycle

    def wait_ready(self, ready_s: float = 0.0) -> None:
        self.commands.run("wait_ready")
        self._ready_s = max(self.rules.wait_ready.seconds if self.rules.wait_ready else _READY_S, ready_s)
        self._wait_answers(self._ready_s if self._comes_up else 0.0 if self._refusing else _SLOW_S)

    def serve(self) -> None:
        """Raise `LaunchError` if no message passes through it."""
        self._queues.declare()
        if self._existing is not None and self.epoch == 1:
            self._existing.check()
            for name, held in self._existing.passed_over.items():
                self.deviations[f"queue {name}"] = f"passed over: it held {held} messages, which were left alone"
        self._prove(RefusedLogins(LOGIN_S if self._comes_up else 0.0))
        if self.epoch == 1:
            self._check_depth_answer()
        self._down = False

    def declare(self, queue: str) -> None:
        raise LaunchError(f"{self._title}: {why_not(self.rules, needs.FRESH)}: {queue}")

    def launch(self, wrap: Sequence[str] = (), *, more: Sequence[str] = ()) -> None:
        if wrap or more:
            raise LaunchError(f"{self._title} runs already: it takes no other arguments, and no tracer")
        self._began = time.monotonic()
        self.epoch += 1
        self.commands.environment["CONFORMANCE_EPOCH"] = str(self.epoch)
        if self._down or self._place_in_use.refuses:
            self.commands.run("start")

    def stop(self) -> None:
        """Run its owner's `stop`; `LaunchError` if that fails, or if a connection that was open before is not lost."""
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

    def close(self) -> None:
        """Leave it running, not paused, and without the queues of the run. Write what is left into `left.txt`."""
        left: list[str] = []
        for undo in (self._resume, self._bring_back):
            try:
                undo()
            except LaunchError as error:
                left.append(f"{self._title}: {error}")
        summary, *names = self._queues.remove() or [""]
        left += [f"{self._title}: {summary}", *names] if summary else []
        if left:
            (self.folder / LEFT).write_text("\n".join([*left, ""]))

    # processes

    @property
    def was_ready(self) -> bool:
        return not self._unanswered()

    @contextlib.contextmanager
    def armed(self, *commands: str) -> Iterator[list[int]]:
        """For each command the end of a pipe, by which it is started, and the handle of its process."""
        with contextlib.ExitStack() as stack:
            self._armed = [stack.enter_context(self.commands.gated(name)) for name in commands]
            try:
                yield [descriptor for each in self._armed for descriptor in (each.gate, each.handle)]
            except ConformanceError:
                for each in self._armed:
                    each.check_failed()  # its error says more than its consequence
                raise
            for each in self._armed:
                each.close_gate()
                if each.was_opened:
                    each.finish()
        self._armed = []

    def within_s(self, fault: str) -> float:
        rules = self.rules.command(fault)
        return rules.seconds if rules else 0.0

    def processes(self) -> list[int]:
        return []  # they cannot be seen here

    def gone(self) -> bool:
        return self._down

    def wait_gone(self, timeout_s: float) -> bool:
        """Whether it is gone: a client has lost its connection, and nothing answers if the broker is to stay down.

        A broker that restarts by itself may be back already. Then only the client's connection shows that it was gone.
        """
        self._down = True
        return not self.commands.has("start") or self._wait_refused(timeout_s)

    def alive_check(self) -> None:
        if not self._down and (what := self._unanswered()):
            why = f"does not answer, and no command of this run has ended it: {what}"
            raise LaunchError(f"{self._title} {why}", of_broker=True)

    # inside

    @property
    def _title(self) -> str:
        return f"{self.plan.source.file.title} at {self._place_in_use}"

    @property
    def _place_in_use(self) -> Place:
        return next(place for name, place in self.places.items() if name in self.plan.source.file.protocols)

    def _place(self, protocol: str) -> Place:
        if protocol not in (*self.plan.source.file.protocols, HTTP):
            raise UsageError.unknown("protocol", protocol, self.places, of=self.plan.source.file.name)
        if protocol not in self.places:
            raise UsageError(
                f"no address for {protocol}: {self.plan.source.file.name} was given at "
                f"{', '.join(self.places)} only; add {scheme_of(protocol)}://HOST:PORT to external="
            )
        return self.places[protocol]

    def _tls(self, protocol: str) -> ClientTls | None:
        source = self.plan.source
        return source.file.access.of(protocol, source.here, self.places[protocol].access).tls

    def _moved(self, url: str) -> str:
        user = self.access(HTTP).user if self.rules.same_login else ""
        return addresses.at_its_host(url, self.places, user)

    def _amqp(self) -> tuple[str, int, Access] | None:
        asked = protocol_of_depth("amqp-management")
        return (*self.endpoint(asked), self.access(asked)) if asked in self.places else None

    @property
    def _comes_up(self) -> bool:
        return self._down or self.commands.has("start")

    @property
    def _refusing(self) -> bool:
        return any(place.refuses for place in self.places.values())

    def _filled(self, text: str, field: str) -> str:
        return fill(text, self.plan.words, field)

    def _unanswered(self, *, final: bool = False) -> str:
        """What is wrong with the answers at its addresses; `final`: only if waiting is useless."""
        for name, place in self.places.items():
            what, hopeless = place.wrong(self._tls(name))
            if what and (hopeless or not final):
                return f"external.urls.{name}: {what}"
        return ""

    def _wait_answers(self, ready_s: float) -> None:
        while what := self._unanswered():
            if wrong := self._unanswered(final=True):
                raise LaunchError(f"{self.plan.source.file.title}: {wrong}. Correct the address")
            if self._late > ready_s:
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

    def _prove(self, refused: RefusedLogins) -> None:
        """Send and receive a message, and retry until the time is over: a recovering broker may refuse it.

        A broker that stores nothing has lost the queue of this message, which is the suite's own. It is declared again.
        When the message comes through, the others are declared again too: without its queue no loss could be counted.
        """
        again = False
        while self._client is not None:
            try:
                self._client.exchange(self, self.queue_of(READY_QUEUE))
            except ClientError as error:
                if refused.final(error) and not self._down:
                    raise LaunchError(f"{self._title} {not_served(error)}", of_broker=error.of_broker) from error
                if self._late > self._ready_s:
                    raise LaunchError(
                        f"{self._title}: no message came through within {self._ready_s:g} s: {error}",
                        failure=StartFailure.LATE if self._down and not isinstance(error, BlockedError) else None,
                        of_broker=error.of_broker,
                    ) from error
                time.sleep(_TICK_S)
                again = self._down and self._existing is None
                if again:
                    with contextlib.suppress(LaunchError):
                        self._queues.declare_one(READY_QUEUE)
            else:
                break
        if again:
            self._queues.declare_again()

    def _check_depth_answer(self) -> None:
        """Ask for a depth once if the broker may lack the plugin that answers: else each drain would fail."""
        depth = self.plan.source.file.depth
        if depth is None or not depth.needs:
            return
        try:
            self._depth_of(self.queue_of(READY_QUEUE))
        except ClientError as error:
            raise LaunchError(f"{self._title}: {error}") from error

    def _depth_of(self, queue: str) -> int:
        return self._client.depth(self, queue) if self._client else 0

    def _drain(self, queue: str) -> None:
        if self._client is not None:
            self._client.drain(self, queue)

    def _ask_to_remove(self, request: Remove, host: str, port: int, access: Access) -> str:
        if self._client is None:
            return f"{request.address}: no client was chosen that could ask it"
        return self._client.remove(request, host, port, access)

    def _resume(self) -> None:
        """Run its owner's `resume` if a pause was not ended, and wait for commands that still run."""
        armed, self._armed = self._armed, []
        begun = [each.name for each in armed if each.was_opened]
        for each in armed:
            with contextlib.suppress(LaunchError):  # its trial is void, and says why
                each.finish()
        if "pause" in begun and "resume" not in begun and "kill" not in begun:
            self.commands.run("resume")
        if {"kill", "stop"} & set(begun):
            self._down = bool(self._unanswered())  # a port may still take a connection of a process that was killed
            if self._down:
                self.wait_gone(_SLOW_S)

    def _bring_back(self) -> None:
        """Run its owner's `start` if it is down, and wait until it is ready: its queues are removed after that.

        An interrupted restart may have run `start` before, and a service refuses that twice. So its error counts only
        if the broker does not get ready.
        """
        if not self._down:
            return
        refused = None
        try:
            self.launch()
        except LaunchError as error:
            refused = error
        try:
            self.wait_ready()
            self.serve()
        except LaunchError as late:
            raise refused or late from None


@dataclasses.dataclass(frozen=True)
class ExternalLauncher(FileLauncher):
    """Uses the broker of an owner by the `rules` of that owner; `here` is the folder of the file that has them."""

    word = "external"
    owned = True

    here: pathlib.Path = pathlib.Path()

    @classmethod
    def of(cls, file: BrokerFile, at: str, here: pathlib.Path, /) -> Self:
        base, home = file.external or External(), here
        if at.endswith(".toml"):
            said, here, where = read_file(pathlib.Path(at), External), pathlib.Path(at).absolute().parent, at
        elif at or base.urls:
            said, where = External(urls={**base.urls, **addresses.urls_by_protocol(at)}), file.name
        else:
            spec = f"{file.name}:external"
            raise UsageError(
                f"{spec}: the address is missing: give {spec}={addresses.examples(file)[0]}, or external=FILE.toml "
                "with its addresses and the commands for its faults"
            )
        try:
            return cls(at, home, complete_rules(file, said), here)
        except UsageError as error:
            raise UsageError(f"{where}: {error}") from error

    @classmethod
    def lacks_here(cls, _: BrokerFile, /) -> str:
        return ""

    def version(self, file: BrokerFile, asked: str | None) -> str:
        return asked or default_version(file)

    def described(self, file: BrokerFile) -> BrokerFile:
        return asked_by(file, self.rules)

    def settings(self, wanted: Mapping[str, Value]) -> Mapping[str, Value]:
        """An external broker has the settings that its owner states, and no others."""
        for name, value in wanted.items():
            if self.rules.settings.get(name) != value:
                raise UsageError(
                    f"{name}={str(value).lower()}: the suite does not reconfigure an external broker; state its "
                    "settings in external.settings"
                )
        return {**self.rules.settings, **wanted}

    def lacks(self, source: BrokerSource, need: Need) -> str:
        return why_not(self.rules, need)

    def able(self, source: BrokerSource) -> Callable[[Wanted], str]:
        return functools.partial(why_not, self.rules)

    def prepare(self, source: BrokerSource, setup: BrokerSetup, *, offline: bool) -> Broker:
        return prepare(source, self.rules, self.here, setup)
