"""Declare durable queues at a running broker: over HTTP, or by the product's own command (`[queues]`).

This process sends the request. The launcher runs the command beside the broker.
"""

from __future__ import annotations

import pathlib
import subprocess
import urllib.parse
from collections.abc import Callable, Mapping, Sequence

from conformance.adapters import web
from conformance.adapters.file.launch_tables import QueuesTable
from conformance.adapters.file.placeholders import fill
from conformance.adapters.interface import Broker, QueueClient
from conformance.adapters.launch.plan import Plan
from conformance.errors import ClientError, LaunchError
from conformance.ledger import child_environment

Run = Callable[[Sequence[str], float], tuple[int, str]]
"""Runs a command beside the broker, for so many seconds at most; returns its exit status and output.

Raises `subprocess.TimeoutExpired`, `OSError`.
"""


def declare(plan: Plan, run: Run, moved: Callable[[str], str] = str) -> None:
    """Declare every queue of the plan, in order; nothing if the file has no `[queues]`.

    Args:
        plan: The broker, which is ready.
        run: Runs a command beside it.
        moved: Turns an address of the file into the address to use.

    Raises:
        LaunchError: A queue could not be declared; it names the field and the answer.
    """
    rules = plan.source.file.queues
    if rules is None or rules.method == "client":
        return
    for queue in plan.queues:
        words = {"queue": plan.named(queue), "options": _options(plan, rules, queue)}
        if rules.method == "http":
            _by_http(plan, rules, words, moved)
        else:
            _by_command(plan, rules, words, run)


def make(client: QueueClient | None, broker: Broker, queues: Sequence[str]) -> None:
    """Let the client make these queues, if its protocol has it so. Raises `LaunchError`."""
    if client is None:
        return
    for queue in queues:
        try:
            client.make(broker, broker.service.queue_of(queue))
        except ClientError as error:
            raise LaunchError(f"no client could make {queue}: {error}") from error


def lasting(plan: Plan) -> bool:
    """Whether declared queues survive a restart under the settings of this broker."""
    rules = plan.source.file.queues
    return rules is None or fill(rules.lasting, plan.words, "queues.lasting") != "false"


def _by_http(plan: Plan, rules: QueuesTable, words: Mapping[str, str], moved: Callable[[str], str]) -> None:
    quoted = urllib.parse.quote(words["queue"], safe="")
    url = moved(fill(rules.url, {**plan.words, "queue": quoted}, "queues.url"))
    body = fill(rules.body, {**plan.words, **words}, "queues.body")
    asked = f"queues.url: {rules.verb} {web.without_login(url)}"
    try:
        status, said = web.ask(
            rules.verb, url, body, content_type=rules.content_type, timeout_s=rules.seconds, access=plan.http_access
        )
    except OSError as error:
        raise LaunchError(f"{asked}: {error}") from error
    if status not in rules.status:
        wanted = ", ".join(map(str, rules.status))
        raise LaunchError(f"{asked} answered {status}, not {wanted} (queues.status): {' '.join(said.split())[:300]}")


def _by_command(plan: Plan, rules: QueuesTable, words: Mapping[str, str], run: Run) -> None:
    command = [fill(part, {**plan.own_words, **words}, "queues.command") for part in rules.command]
    try:
        status, said = run(command, rules.seconds)
    except subprocess.TimeoutExpired as error:
        raise LaunchError(f"queues.command: {command[0]} did not end within {rules.seconds:g} s") from error
    except OSError as error:
        raise LaunchError(f"queues.command: {command[0]} cannot be started: {error.strerror}") from error
    if status:
        tail = " ".join(said.split())[-300:]
        raise LaunchError(f"queues.command: {command[0]} ended with {status} for queue {words['queue']}: {tail}")


def _options(plan: Plan, rules: QueuesTable, queue: str) -> str:
    """The value of `{options}`; empty for a queue without rules of its own."""
    words = {**plan.words, "queue": queue}
    chosen = [(name, str(value).lower()) for name, value in plan.options.get(queue, ())]
    return "".join(fill(rules.options[name], {**words, "value": text}, "queues.options") for name, text in chosen)


def run_here(
    command: Sequence[str], seconds: float, *, environment: Mapping[str, str], folder: pathlib.Path, log: pathlib.Path
) -> tuple[int, str]:
    """Run it as a process of this machine; see `Run`. `log` is a file: a process that stays would keep a pipe open."""
    with log.open("wb") as stream:
        done = subprocess.run(
            command,
            env={**child_environment(), **environment},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            timeout=seconds,
            check=False,
            start_new_session=True,
        )
    return done.returncode, log.read_text(errors="replace")
