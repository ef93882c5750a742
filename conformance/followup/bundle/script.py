"""Write a drawn script as `reproduce.py`, which a maintainer can run without this suite.

Only what the templates (`fixtures/reproduce`) can do is written; a step, a trigger or a check that they cannot do is
named instead. A script that did something else than the trial would prove nothing.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping

import jinja2
import msgspec

from conformance import paths
from conformance.adapters import Adapter
from conformance.adapters.credentials import PLAIN, SCRAM, Access, mechanism_of, scheme_of
from conformance.adapters.opening import credentials_of
from conformance.clients.roles.modes import MODES
from conformance.errors import visible
from conformance.faults.disk.injection import FILLED, SYNCS
from conformance.followup.upgrade.broker import pair_of
from conformance.protocols import REPRODUCERS, SCHEMES
from conformance.protocols.reader import KINDS
from conformance.scenario import Scenario
from conformance.scenario.needs import SESSION_EXPIRY
from conformance.scenario.options import options_of, properties
from conformance.scenario.reading import singles
from conformance.scenario.script import (
    After,
    All,
    Ask,
    Consume,
    ConsumerCrash,
    Corrupt,
    Cut,
    DiskFull,
    Drain,
    FailedSync,
    HeldSync,
    Kill,
    Nth,
    Offer,
    Pause,
    PowerLoss,
    Publish,
    Recovery,
    Restart,
    Step,
    Stop,
    Together,
    Watched,
)

FOLDER = paths.fixtures() / "reproduce"

COMMON = "common.py.j2"
PARTS = {"relay": "relay.py.j2", "recovery": "recovery.py.j2", "strace": "disk.py.j2"}
"""The template parts of each fault."""

MODULES = {
    "": "argparse os select shlex signal subprocess sys time uuid",
    "child": "json",
    "power": "fcntl struct",
    "recovery": "ctypes socket struct",
    "relay": "fcntl socket struct threading",
    "strace": "re",
}
"""The imports of each part."""

VARIABLE = "BROKER_PASSWORD"
"""The environment variable for a password that the trial read from a file."""

CHECKS = {
    "lost": 'yield "LOST", notes.confirmed - drained, len(notes.confirmed), "confirmed messages"',
    "gone": 'yield "GONE", left - drained, len(left), "messages that were never acknowledged"',
    "lost_committed": 'yield "LOST", committed - drained, len(committed), "messages of committed transactions"',
    "half": 'yield "HALF", half, len(transactions), "transactions"',
    "uncommitted": 'yield "UNCOMMITTED", loose & drained, len(loose), "messages that were never committed"',
    "unstored": 'yield "UNSTORED", wrong, len(risk), "messages that no sync after them stored"',
    "early": 'yield "EARLY", notes.early, len(notes.held), f"answers, with syncs of {HELD} s"',
}
"""The checks of the script, a line of Python each."""

BEFORE = {
    "gone": "left = notes.confirmed - notes.acknowledged",
    "lost_committed": "committed = {number for number, each in notes.transaction.items() if each in notes.committed}",
    "half": "half = {each for each, whole in transactions.items() if 0 < len(whole & drained) < len(whole)}",
    "unstored": "wrong, risk = unstored(notes)",
    "uncommitted": "loose = {number for number, each in notes.transaction.items() if each not in notes.asked}",
}

ANOMALIES = {
    "lost": "lost",
    "gone": "gone",
    "gone_after_acknowledge": "gone",
    "lost_committed": "lost_committed",
    "half_applied": "half",
    "available_undischarged": "uncommitted",
    "confirmed_before_sync": "early",
    "confirmed_though_sync_failed": "unstored",
    "committed_before_sync": "early",
}
"""Anomalies of the judge's table that the script decides as well."""

EVENTS = {
    "publish": {"sent", "confirm", "ms"},
    "publish_in_transactions": {"before_commit", "commit_written", "committed", "ms"},
    "consume": {"process"},
}
"""The events that each function of the script counts for a trigger."""

FIRST = "p1:1"
"""The message whose application properties all messages of the script have."""

LARGEST = 4096
"""A message of so many bytes fits into one frame; the relay would count each of several frames."""

HOW = ("fin", "rst")
"""Not `half_open`: a client never notices it, and would have to guess how long to wait."""


class CannotError(Exception):
    """A step that the minimal script cannot express."""


@dataclasses.dataclass
class Body:
    """The lines of `main`, the parts of the templates that they `need`, and a sentence for each part that is `missing`.

    `files` are the names of the journal's files, `largest` the bytes of the largest message, `words` are values of the
    templates. `held` (s) and `failing` say what the disk does to the next steps.
    """

    protocol: str
    files: tuple[str, ...] = ()
    largest: int = 0
    lines: list[str] = dataclasses.field(default_factory=list)
    needs: set[str] = dataclasses.field(default_factory=set)
    missing: list[str] = dataclasses.field(default_factory=list)
    words: dict[str, object] = dataclasses.field(default_factory=dict)
    held: float = 0.0
    failing: bool = False


@dataclasses.dataclass(frozen=True)
class Reproduction:
    """The `text` of the script, empty if it cannot be written; `missing` has a sentence for each part left out.

    `needs` are the parts of it that ask for more than a broker: `power`, `strace`, `journal`.
    """

    text: str
    missing: tuple[str, ...]
    needs: frozenset[str] = frozenset()

    @property
    def root(self) -> bool:
        return "power" in self.needs


def write(
    script: Scenario, anomalies: Iterable[str], adapter: Adapter, protocol: str, queue: str, title: str
) -> Reproduction:
    """Write the script of one trial: its drawn steps, and the checks of these anomalies that it can decide."""
    wanted = list(dict.fromkeys(anomalies))
    sizes = [step.size for step in singles(script.steps) if isinstance(step, Publish)]
    body = Body(protocol, adapter.file.journal.files, max(sizes, default=0))
    if credentials_of(adapter, protocol).tls is not None:
        body.needs.add("tls")
    if pair_of(adapter) is not None:
        body.needs.add("upgrade")
    body.missing += [f"it does not decide `{name}`" for name in wanted if name not in ANOMALIES]
    checks = list(dict.fromkeys(ANOMALIES[name] for name in wanted if name in ANOMALIES))
    if not checks:
        return Reproduction("", (*body.missing, "nothing that was judged here can be decided by so small a client"))
    try:
        for step in script.steps:
            _step(step, body)
        _end(body)
        _check_known(checks, script, body)
    except CannotError as error:
        return Reproduction("", (*body.missing, str(error)))
    if script.client == "raw":
        body.missing.append("the trial looked at every frame; the script reads only what it needs")
    text = _render(script, checks, body, adapter, queue, title)
    compile(text, "reproduce.py", "exec")
    return Reproduction(text, tuple(body.missing), frozenset(body.needs))


def _check_known(checks: Iterable[str], script: Scenario, body: Body) -> None:
    """Raise `CannotError` for a check that only another disk fault can decide."""
    for name, known in (("early", "held" in body.words), ("unstored", bool(body.words.get("fails")))):
        if name in checks and not known:
            raise CannotError(f"what {script.id} asks of the disk is not in it")


def _step(step: Step, body: Body) -> None:
    match step:
        case Publish():
            _publish(step, body)
        case Consume():
            _consume(step, body)
        case Restart():
            if step.beside:
                raise CannotError("clients beside a restart are not in it")
            if step.until is not None:
                if body.failing or body.held:
                    raise CannotError("a kill in recovery after a fault at the disk is not in it")
                if step.clean and "upgrade" in body.needs:
                    raise CannotError("a kill of the old version while it is started again is not in it")
                if step.clean:
                    body.lines.append("broker.stop()")
                _in_recovery(step.until, body)
                step = msgspec.structs.replace(step, clean=False)
            _restart(step, body)
        case Drain():
            body.lines.append("drain(words, notes)")
        case Offer():
            raise CannotError("a broker that is offered settings is not in it")
        case Together():
            raise CannotError("clients beside each other are not in it")
        case Ask():
            raise CannotError("questions are not in it")


def _publish(step: Publish, body: Body) -> None:
    if not step.size:
        raise CannotError("messages without a body are not in it")
    _check_written(step)
    if step.every_ms and step.window > 1 and not step.batch and step.until is not None:
        raise CannotError("sends at a fixed rate beside unanswered ones are not in it")
    function = "publish_in_transactions" if step.batch else "publish"
    body.needs.add("transactions" if step.batch else "publish")
    words: dict[str, object] = {"count": step.count}
    if step.batch:
        words |= {"batch": step.batch, "size": step.size}
        words |= {"rollback_every": step.rollback_every} if step.rollback_every else {}
        if not step.durable:
            raise CannotError("transactions of non-persistent messages are not in it")
    else:
        # Without a fault the pace counts: then one at a time is as good.
        words |= {"window": 1 if step.every_ms else step.window, "size": step.size}
        words |= {} if step.durable else {"durable": False}
    words |= {"every_ms": step.every_ms} if step.every_ms else {}
    words |= {"lives_ms": step.lives_ms} if step.lives_ms else {}
    words |= {"properties": given} if (given := properties(step, FIRST)) else {}
    words |= {"hold": body.held} if body.held else {}
    if body.failing:
        if step.batch or step.until is not None:
            raise CannotError("transactions, or another fault, on a disk that fails are not in it")
        words["failing"] = True
    _until(function, words, step.until, body, step.size)


def _consume(step: Consume, body: Body) -> None:
    if MODES[step.mode].transacted:
        raise CannotError(f"a consumer in {step.mode} mode is not in it")
    _check_written(step)
    body.needs.add("consume")
    words: dict[str, object] = {"mode": step.mode, "prefetch": step.prefetch}
    words |= {"acknowledge": step.acknowledge} if step.acknowledge != 1 else {}
    words |= {"confirm": True} if step.confirm or MODES[step.mode].confirmed else {}
    words |= {"stop": step.stop} if step.stop else {}
    words |= {"until_silent": True} if step.until_silent else {}
    if step.until is not None and not isinstance(step.until, ConsumerCrash | Cut):
        raise CannotError(f"{step.until.name} under a consumer is not in it")
    _until("consume", words, step.until, body, body.largest)


def _check_written(step: Publish | Consume) -> None:
    for option in options_of(step):
        if option.unwritten:
            raise CannotError(f"{option.unwritten} not in it")


def _until(function: str, words: Mapping[str, object], fault: object, body: Body, size: int) -> None:
    if fault is None:
        body.lines.append(call(function, words))
    elif isinstance(fault, Cut):
        _over_relay(function, words, fault, body, size)
    else:
        _under_fault(function, words, fault, body)


def call(function: str, words: Mapping[str, object], *, over: str = "words", more: str = "") -> str:
    """Write a call of one of the client's functions.

    >>> call("publish", {"count": 9, "window": 1}, more="fault=fault")
    'publish(words, notes, count=9, window=1, fault=fault)'
    """
    given = [over, "notes", *(f"{name}={value!r}" for name, value in words.items()), *([more] if more else [])]
    return f"{function}({', '.join(given)})"


def _cannot(fault: object, where: str = "") -> CannotError:
    return CannotError(f"the fault {getattr(fault, 'name', fault)!r}{where} is not in it")


def _trigger(fault: object, known: set[str]) -> str:
    """Return the arguments of a `Fault` for its trigger; `CannotError` if the client does not count such events."""
    at = getattr(fault, "at", None)
    found: dict[str, int] = {}
    for part in at.parts if isinstance(at, All) else (at,):
        event = "ms" if isinstance(part, After) else part.event if isinstance(part, Nth) else ""
        number = part.ms if isinstance(part, After) else part.k if isinstance(part, Nth) else 0
        if event not in known or event in found or not isinstance(number, int):
            raise _cannot(fault, " at this point")
        found[event] = number
    return ", ".join(f"{event}={k}" for event, k in found.items())


def _restart(step: Restart, body: Body) -> None:
    words = ["clean=True"] if step.clean else []
    hurt = body.held or body.failing
    body.held, body.failing = 0.0, False
    if isinstance(step.under, Corrupt):
        raise CannotError("damage to what the broker has stored is not in it")
    if not isinstance(step.under, Watched | None):
        _under(step.under, body)
        words.append("before=hurt_disk(words)")
    body.lines.append(f"broker.restart({', '.join(words)})")
    if hurt:
        body.lines.append("prove_disk_hurt(notes)")


def _end(body: Body) -> None:
    """Stop a broker whose disk still fails after the last step, so that strace records the end."""
    if body.held or body.failing:
        body.held, body.failing = 0.0, False
        body.lines += ["broker.stop()", "prove_disk_hurt(notes)"]


def _under(fault: HeldSync | FailedSync | DiskFull, body: Body) -> None:
    if "strace" in body.needs:
        raise CannotError("a second fault at the disk is not in it")
    if not body.files:
        raise CannotError(f"a disk under {fault.name} is not in it: nothing says what the journal's files are called")
    body.needs |= {"strace", "journal"}
    body.held = getattr(fault, "seconds", 0.0)
    body.failing = not body.held
    calls, done = _injection(fault)
    traced, injected = _set([*SYNCS, *FILLED]), f"{_set(calls)}:{done}"
    body.words |= {"traced": traced, "injected": injected, "files": repr(body.files), "fails": body.failing}
    if body.held:
        body.words["held"] = body.held


def _injection(fault: HeldSync | FailedSync | DiskFull) -> tuple[list[str], str]:
    """Return the system calls that fail or wait, and how, as `strace -e inject` takes them."""
    match fault:
        case HeldSync(seconds):
            return SYNCS, f"delay_enter={round(seconds * 1e6)}"
        case FailedSync(int(k)):
            return SYNCS, f"error=EIO:when={k}+"
        case DiskFull(int(k)):
            return FILLED, f"error=ENOSPC:when={k}+"
    raise _cannot(fault, " at this point")


def _set(names: list[str]) -> str:
    """Join the names, each with `?`: a machine may not have that system call."""
    return ",".join(f"?{name}" for name in names)


def _over_relay(function: str, words: Mapping[str, object], fault: Cut, body: Body, size: int) -> None:
    """Add the lines of a step over the relay; `CannotError` if the script cannot express the cut.

    `function` is one of the client, with the arguments `words`; `size` is that of the largest message, in bytes.
    """
    at = fault.at
    if "tls" in body.needs:
        raise CannotError("a cut of a connection in TLS is not in it: its relay counts frames, and can read none")
    if not REPRODUCERS[body.protocol].relays:
        raise CannotError("a cut of a connection is not in it: its relay does not count the frames of this protocol")
    if fault.how not in HOW:
        raise _cannot(fault, f", {fault.how.replace('_', '-')},")
    if at.kind not in KINDS or at.last or not isinstance(at.k, int):
        raise _cannot(fault, " at this point")
    if size > LARGEST:
        raise CannotError("a cut among messages that take several frames is not in it")
    body.needs.add("relay")
    body.lines.append(f"fault = Cut(words, {at.kind!r}, {at.k}, {at.at!r}, {fault.how!r})")
    more = "" if function == "consume" else "fault=fault"  # what is consumed counts nothing after the cut
    body.lines.append(f"until_cut(fault, lambda: {call(function, words, over='fault.words', more=more)})")


def _under_fault(function: str, words: Mapping[str, object], fault: object, body: Body) -> None:
    """Add the lines of a step that ends in such a fault; `CannotError` if the script cannot express it."""
    at = _trigger(fault, EVENTS[function])
    if isinstance(fault, ConsumerCrash):
        body.needs.add("child")
        body.lines.append(f"fault = Fault(lambda: os.kill(os.getpid(), signal.SIGKILL), {at})")
        body.lines.append(f"notes.in_child(lambda: {call(function, words, more='fault=fault')})")
        return
    body.lines.append(f"fault = Fault({_done(fault, body)}, {at})")
    body.lines.append(call(function, words, more="fault=fault"))
    body.lines.append("broker.wait_gone()")


def _done(fault: object, body: Body) -> str:
    match fault:
        case Kill(delay_us=int(delay), delay_percent=int(percent)) if delay or percent:
            if percent:
                body.needs.add("late")
            late = f"{percent / 100} * sorted(fault.answers)[len(fault.answers) // 2]" if percent else f"{delay / 1e6}"
            return f"lambda: (time.sleep({late}), broker.signal(signal.SIGKILL))"
        case Kill():
            return "lambda: broker.signal(signal.SIGKILL)"
        case Stop():
            return "lambda: broker.signal(signal.SIGTERM)"
        case Pause(then_kill=True, hold_s=seconds):
            body.needs.add("halt")
            return f"lambda: broker.halt({seconds})"
        case PowerLoss():
            body.needs.add("power")
            if fault.torn:
                body.missing.append("it tears no writes: everything that was not synced is gone")
            if fault.filesystem != "ext4":
                body.missing.append(f"make the disk with mkfs.{fault.filesystem}, where it says mkfs.ext4")
            return "broker.cut_power, dark=True"
    raise _cannot(fault)


def _in_recovery(fault: Kill, body: Body) -> None:
    if not (isinstance(fault.at, Recovery) and isinstance(fault.at.k, int)):
        raise _cannot(fault, " at this point")
    if "power" in body.needs:
        raise CannotError("a kill in the recovery after a loss of power is not in it")
    body.needs |= {"recovery", "journal"}
    body.lines.append(f"kill_in_recovery(words, broker, {fault.at.k})")


def docstring(text: str) -> str:
    """Write any text as a Python literal between three quotes.

    Control characters are spelled out: the text may come from a run's folder.
    """
    text = visible(text)
    escaped = text.replace("\\", "\\\\")
    if '"""' in text or text.endswith('"'):
        escaped = escaped.replace('"', '\\"')
    return f'"""{escaped}"""'


def _render(script: Scenario, checks: list[str], body: Body, adapter: Adapter, queue: str, title: str) -> str:
    environment = jinja2.Environment(  # noqa: S701 - what is made is Python
        loader=jinja2.FileSystemLoader(FOLDER),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters.update(docstring=docstring, repr=repr)
    protocol, reproducer = body.protocol, REPRODUCERS[body.protocol]
    spoken, access = adapter.file.protocols[protocol], credentials_of(adapter, protocol)
    held = body.words.get("held")
    words = {
        **body.words,
        "title": title,
        "says": script.says,
        "protocol": protocol,
        "queue": queue,
        "port": port_of(protocol, access),
        "needs": body.needs,
        "names": checks,
        "modules": _modules(body),
        "words_of_needs": _needed(body, access),
        "imports": reproducer.imports.format(tls=reproducer.tls_name if "tls" in body.needs else "")
        + (f"\nHELD = {held}\n" if held else ""),
        **_access(access),
        "options": spoken.options,
        "session_expiry_s": dict(script.queue).get(SESSION_EXPIRY, 0),
        "destination": repr(spoken.destination),
        "checks": [BEFORE[name] for name in checks if name in BEFORE] + [CHECKS[name] for name in checks],
        "body": body.lines,
    }
    parts = [reproducer.template, *(file for need, file in PARTS.items() if need in body.needs)]
    client = "\n\n".join(environment.get_template(file).render(words) for file in parts)
    text = environment.get_template(COMMON).render({**words, "client": client})
    return re.sub(r"\n{4,}", "\n\n\n", text)


def port_of(protocol: str, access: Access) -> int:
    return SCHEMES[scheme_of(protocol, secure=access.tls is not None)][1].port


def password_of(access: Access) -> str:
    """Return the environment variable that the script reads the password from."""
    return (access.password.env if access.password else "") or VARIABLE


def _access(access: Access) -> dict[str, object]:
    """Describe the credentials of the trial's clients; secrets and files of one machine are only named."""
    mechanism = mechanism_of(access)
    given = access.mechanism or mechanism not in (PLAIN, "ANONYMOUS")
    return {
        "user": access.user,
        "password_env": password_of(access),
        "mechanism": repr(mechanism) if given else '"PLAIN" if words.user else "ANONYMOUS"',
        "certificate": bool(access.tls and access.tls.certificate),
        "server_name": access.tls.server_name if access.tls else "",
    }


def _modules(body: Body) -> list[str]:
    parts = (*MODULES.items(), *REPRODUCERS[body.protocol].modules.items())
    return sorted({name for need, names in parts if need in {"", *body.needs} for name in names.split()})


def _needed(body: Body, access: Access) -> str:
    """Say what the script needs beside Python, as the end of a sentence."""
    reproducer = REPRODUCERS[body.protocol]
    needed = [*(reproducer.sasl_packages if access.mechanism in SCRAM else reproducer.packages)]
    needed += ["strace 5.6 or later"] if "strace" in body.needs else []
    return f", and {' and '.join(needed)}" if needed else "; nothing else"
