"""From a drawn script to `reproduce.py`: what a maintainer can run without this suite.

Only what the templates (`fixtures/reproduce/`) can do is written; a step, a trigger or a sentence that they cannot do
is named instead. A script that did something else than the trial would prove nothing.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping

import jinja2

from conformance import paths
from conformance.adapters import Adapter
from conformance.clients.modes import MODES
from conformance.scenario import (
    After,
    All,
    Consume,
    ConsumerCrash,
    Drain,
    HeldSync,
    Kill,
    Nth,
    Offer,
    Pause,
    PowerLoss,
    Publish,
    Recovery,
    Restart,
    Scenario,
    Step,
    Stop,
    Watched,
)

TEMPLATES = {"amqp": "amqp.py.j2", "stomp": "stomp.py.j2"}
COMMON = "common.py.j2"

PORTS = {"amqp": 5672, "stomp": 61613}

CHECKS = {
    "lost": 'yield "LOST", notes.confirmed - drained, len(notes.confirmed), "confirmed messages"',
    "gone": 'yield "GONE", left - drained, len(left), "messages that were never acknowledged"',
    "lost_committed": 'yield "LOST", committed - drained, len(committed), "messages of committed transactions"',
    "half": 'yield "HALF", half, len(transactions), "transactions"',
    "uncommitted": 'yield "UNCOMMITTED", loose & drained, len(loose), "messages that nobody committed"',
    "early": 'yield "EARLY", notes.early, len(notes.held), f"answers, with syncs of {HELD} s"',
}
"""What the script can decide, a line of it each."""

BEFORE = {
    "gone": "left = notes.confirmed - notes.acknowledged",
    "lost_committed": "committed = {number for number, each in notes.transaction.items() if each in notes.committed}",
    "half": "half = {each for each, whole in transactions.items() if 0 < len(whole & drained) < len(whole)}",
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
    "committed_before_sync": "early",
}
"""Anomalies of the judge's table that the script decides as well."""

EVENTS = {
    "publish": {"sent", "confirm", "ms"},
    "publish_in_transactions": {"before_commit", "commit_written", "committed", "ms"},
    "consume": {"process"},
}
"""The events that each function of the script counts for a trigger."""

_IMPORTS = {
    "amqp": """
from proton import Delivery, Described, Message, ProtonException, Terminus, Timeout, symbol
from proton.handlers import MessagingHandler
from proton.reactor import AtMostOnce, LinkOption
from proton.utils import BlockingConnection

LOST = (ProtonException, ConnectionError)
""",
    "stomp": "",
}


class CannotError(Exception):
    """A step, or a sentence, that the minimal script has no words for."""


@dataclasses.dataclass
class _Body:
    """The lines of `main`, and which parts of the templates they need."""

    lines: list[str] = dataclasses.field(default_factory=list)
    needs: set[str] = dataclasses.field(default_factory=set)
    held: float = 0.0


@dataclasses.dataclass(frozen=True)
class Reproduction:
    """`text` of the script, empty where it cannot be written; `missing` says what it leaves out, a sentence each."""

    text: str
    missing: tuple[str, ...]

    @property
    def root(self) -> bool:
        """Whether it needs root."""
        return "cut_power" in self.text


def write(
    script: Scenario, anomalies: Iterable[str], adapter: Adapter, protocol: str, queue: str, title: str
) -> Reproduction:
    """The script of one trial: its drawn steps, and the checks of these anomalies as far as it can decide them."""
    wanted = list(dict.fromkeys(anomalies))
    missing = [f"it does not decide `{name}`" for name in wanted if name not in ANOMALIES]
    checks = list(dict.fromkeys(ANOMALIES[name] for name in wanted if name in ANOMALIES))
    if not checks:
        missing.append("nothing that was judged here can be decided by so small a client")
        return Reproduction("", tuple(missing))
    body = _Body()
    try:
        for step in script.steps:
            _step(step, body, missing)
    except CannotError as error:
        return Reproduction("", (*missing, str(error)))
    if script.client == "raw":
        missing.append("the trial looked at every frame; the script reads only what it needs")
    text = _render(script, checks, body, adapter, protocol, queue, title)
    compile(text, "reproduce.py", "exec")
    return Reproduction(text, tuple(missing))


def _step(step: Step, body: _Body, missing: list[str]) -> None:
    match step:
        case Publish():
            _publish(step, body, missing)
        case Consume():
            _consume(step, body)
        case Restart():
            _restart(step, body)
        case Drain():
            body.lines.append("drain(words, notes)")
        case Offer():
            raise CannotError("a broker that is offered settings is not in it")


def _publish(step: Publish, body: _Body, missing: list[str]) -> None:
    if step.ack_event_mode or step.immediate_every:
        raise CannotError("a publish window that the broker is told of is not in it")
    if step.peek or step.unasked_every:
        raise CannotError("a receiver that looks on while others publish, or sends without an answer, are not in it")
    if step.every_ms and step.window > 1 and not step.batch:
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
        words |= {"window": step.window, "size": step.size}
        words |= {} if step.durable else {"durable": False}
    words |= {"every_ms": step.every_ms} if step.every_ms else {}
    words |= {"hold": body.held} if body.held else {}
    _call(function, words, step.until, body, missing)


def _consume(step: Consume, body: _Body) -> None:
    odd = [
        name
        for name in ("refuse", "hold", "rollback_every", "work_ms", "backwards")
        if getattr(step, name) != getattr(Consume(step.mode), name)
    ]
    if odd or MODES[step.mode].transacted:
        raise CannotError(f"a consumer in {step.mode} mode{' with ' + ', '.join(odd) if odd else ''} is not in it")
    body.needs.add("consume")
    words: dict[str, object] = {"mode": step.mode, "prefetch": step.prefetch}
    words |= {"acknowledge": step.acknowledge} if step.acknowledge != 1 else {}
    words |= {"confirm": True} if step.confirm or MODES[step.mode].confirmed else {}
    words |= {"stop": step.stop} if step.stop else {}
    words |= {"until_silent": True} if step.until_silent else {}
    if step.until is not None and not isinstance(step.until, ConsumerCrash):
        raise CannotError(f"{step.until.name} under a consumer is not in it")
    _call("consume", words, step.until, body, [])


def _call(function: str, words: Mapping[str, object], fault: object, body: _Body, missing: list[str]) -> None:
    said = ", ".join(f"{name}={value!r}" for name, value in words.items())
    if fault is None:
        body.lines.append(f"{function}(words, notes, {said})")
        return
    at = ", ".join(f"{event}={k}" for event, k in _trigger(fault, EVENTS[function]).items())
    if isinstance(fault, ConsumerCrash):
        body.needs.add("child")
        body.lines.append(f"fault = Fault(lambda: os.kill(os.getpid(), signal.SIGKILL), {at})")
        body.lines.append(f"notes.in_child(lambda: {function}(words, notes, {said}, fault=fault))")
        return
    body.lines.append(f"fault = Fault({_done(fault, body, missing)}, {at})")
    body.lines.append(f"{function}(words, notes, {said}, fault=fault)")
    body.lines.append("broker.wait_gone()")


def _done(fault: object, body: _Body, missing: list[str]) -> str:
    match fault:
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
                missing.append("it tears no writes: everything that was not synced is gone")
            return "broker.cut_power, dark=True"
    raise CannotError(f"the fault {getattr(fault, 'name', fault)!r} is not in it")


def _trigger(fault: object, known: set[str]) -> dict[str, int]:
    at = getattr(fault, "at", None)
    found: dict[str, int] = {}
    for part in at.parts if isinstance(at, All) else (at,):
        event = "ms" if isinstance(part, After) else part.event if isinstance(part, Nth) else ""
        number = part.ms if isinstance(part, After) else part.k if isinstance(part, Nth) else 0
        if event not in known or event in found or not isinstance(number, int):
            raise CannotError(f"the fault {getattr(fault, 'name', fault)!r} at this point is not in it")
        found[event] = number
    return found


def _restart(step: Restart, body: _Body) -> None:
    if step.until is not None:
        assert isinstance(step.until.at, Recovery)
        raise CannotError("a kill of the broker in its recovery is not in it")
    words = ["clean=True"] if step.clean else []
    body.held = 0.0
    match step.under:
        case HeldSync():
            body.needs.add("strace")
            body.held = step.under.seconds
            words.append("before=HOLD")
        case None | Watched():
            pass
        case _:
            raise CannotError(f"a disk under {step.under.name} is not in it")
    body.lines.append(f"broker.restart({', '.join(words)})")


def _render(
    script: Scenario, checks: list[str], body: _Body, adapter: Adapter, protocol: str, queue: str, title: str
) -> str:
    environment = jinja2.Environment(  # noqa: S701 - what is made is Python
        loader=jinja2.FileSystemLoader(paths.fixtures() / "reproduce"),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    spoken = adapter.file.protocols[protocol]
    held = next(
        (s.under.seconds for s in script.steps if isinstance(s, Restart) and isinstance(s.under, HeldSync)), 0.0
    )
    words = {
        "title": title,
        "says": script.says,
        "protocol": protocol,
        "queue": queue,
        "port": PORTS[protocol],
        "needs": body.needs,
        "imports": _IMPORTS[protocol] + (_hold(held) if held else ""),
        "destination": repr(spoken.destination),
        "send": repr(dict(spoken.send)),
        "subscribe": repr(dict(spoken.subscribe)),
        "checks": [BEFORE[name] for name in checks if name in BEFORE] + [CHECKS[name] for name in checks],
        "body": body.lines,
    }
    client = environment.get_template(TEMPLATES[protocol]).render(words)
    text = environment.get_template(COMMON).render({**words, "client": client})
    return re.sub(r"\n{4,}", "\n\n\n", text)


def _hold(seconds: float) -> str:
    """The words before the command of a broker whose syncs are to be held."""
    calls = "fdatasync,fsync,sync_file_range,syncfs"
    command = [
        *("strace", "-f", "--seccomp-bpf", "-qq", "-o", "reproduce-strace.log", "-e", f"trace={calls}"),
        *("-e", f"inject={calls}:delay_enter={round(seconds * 1e6)}"),
    ]
    return f"\nHELD = {seconds}\nHOLD = {command!r}\n"
