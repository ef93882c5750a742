"""Durable queues, declared at a broker that runs: over HTTP, or by the product's own command (`[queues]`)."""

from __future__ import annotations

import os
import subprocess
import urllib.parse
from collections.abc import Mapping

from conformance.adapters import web
from conformance.adapters.placeholders import fill
from conformance.adapters.planned import Plan
from conformance.errors import LaunchError


def declare(plan: Plan, environment: Mapping[str, str]) -> None:
    """Declare every queue of the plan, in order; nothing where the file has no `[queues]`.

    Args:
        plan: The broker, which is ready.
        environment: What a command gets besides the environment of the suite: the broker's own, and its marks.

    Raises:
        LaunchError: A queue could not be declared; it names the field, and what was answered.
    """
    rules = plan.source.file.queues
    if rules is None:
        return
    for queue in plan.queues:
        if rules.method == "http":
            _by_http(plan, queue)
        else:
            _by_command(plan, queue, environment)


def _by_http(plan: Plan, queue: str) -> None:
    rules = plan.source.file.queues
    assert rules is not None  # the caller has looked
    url = fill(rules.url, {**plan.words, "queue": urllib.parse.quote(queue, safe="")}, "queues.url")
    body = fill(rules.body, {**plan.words, "queue": queue}, "queues.body")
    asked = f"queues.url: {rules.verb} {web.shown(url)}"
    try:
        status, said = web.ask(rules.verb, url, body, content_type=rules.content_type, timeout_s=rules.seconds)
    except OSError as error:
        raise LaunchError(f"{asked}: {error}") from error
    if status not in rules.status:
        wanted = ", ".join(map(str, rules.status))
        raise LaunchError(f"{asked} answered {status}, not {wanted} (queues.status): {' '.join(said.split())[:300]}")


def _by_command(plan: Plan, queue: str, environment: Mapping[str, str]) -> None:
    rules = plan.source.file.queues
    assert rules is not None  # the caller has looked
    command = [fill(part, {**plan.words, "queue": queue}, "queues.command") for part in rules.command]
    log = plan.folder / "queues.log"  # a file: a helper that the command leaves running would keep a pipe open
    try:
        with log.open("wb") as stream:
            done = subprocess.run(
                command,
                env={**os.environ, **environment},
                cwd=plan.working_folder,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                timeout=rules.seconds,
                check=False,
                start_new_session=True,
            )
    except subprocess.TimeoutExpired as error:
        raise LaunchError(f"queues.command: {command[0]} did not end within {rules.seconds:g} s") from error
    except OSError as error:
        raise LaunchError(f"queues.command: {command[0]} cannot be started: {error.strerror}") from error
    if done.returncode:
        said = " ".join(log.read_text(errors="replace").split())[-300:]
        raise LaunchError(f"queues.command: {command[0]} ended with {done.returncode} for queue {queue}: {said}")
