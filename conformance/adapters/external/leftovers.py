"""Remove the queues that a killed run left at an external broker.

Each is in the ledger before it is declared, and how it is removed in a file that only its owner reads: an address may
have a password in it. The broker may be down, since the killed run had just killed it: then a later run tries again.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from conformance.adapters import web
from conformance.adapters.credentials import OPEN, Access
from conformance.adapters.launch.process_tree import MARK
from conformance.errors import UsageError
from conformance.ledger import RUN_VARIABLE, StillThereError

KIND = "queue"
PREFIX = "conformance"
"""Every queue that a run declares at an external broker begins with it; no other queue is ever removed."""

_TRIES = 5


class Removal(msgspec.Struct, frozen=True, kw_only=True):
    """How one queue is removed: a request to `url` or `address`, or a `command` run in `here`; with none it stays.

    The request is that of `start_table.Remove`, filled; `host` and `port` are those of the broker's AMQP. `access`
    names the login, and holds no secret.
    """

    url: str = ""
    verb: str = "DELETE"
    headers: dict[str, str] = {}
    status: tuple[int, ...] = (200, 202, 204, 404)
    address: str = ""
    properties: dict[str, str] = {}
    body: str = ""
    field: str = ""
    value: str = ""
    absent: str = ""
    host: str = ""
    port: int = 0
    access: Access = OPEN
    command: tuple[str, ...] = ()
    here: str = ""
    run: str = ""
    seconds: float = 30.0


OverAmqp = Callable[[Removal], str]
_OVER_AMQP: list[OverAmqp] = []


def by_amqp(ask: OverAmqp) -> OverAmqp:
    """Use this client for removals over AMQP: it returns why the queue is still there, empty if it is gone.

    Clients import this package, so that it cannot import one.
    """
    _OVER_AMQP[:] = [ask]
    return ask


def write(path: pathlib.Path, how: Mapping[str, Removal]) -> None:
    """Write down how each queue is removed, in a file that only this user can read."""
    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_bytes(msgspec.json.encode(dict(how)))


def environment(run: str) -> dict[str, str]:
    """Of a command that removes: that of its owner, without the marks by which what a run has left is ended."""
    own = {key: text for key, text in os.environ.items() if key not in (RUN_VARIABLE, MARK)}
    return {**own, "CONFORMANCE_RUN_ID": run, "CONFORMANCE_COMMAND": "remove"}


def release(record: Mapping[str, Any]) -> str:
    """Remove such a queue; the line of a run that finds it. See `ledger.Release`.

    A folder of the run that is gone has nothing to say of it any more: then it is forgotten.
    """
    name, path = str(record.get("name", "")), pathlib.Path(str(record.get("how", "")))
    if not name.startswith(f"{PREFIX}-"):
        return ""
    try:
        how = msgspec.json.decode(path.read_bytes(), type=dict[str, Removal])[name]
    except (OSError, KeyError, msgspec.MsgspecError):
        return ""
    if how.run and not name.startswith(f"{PREFIX}-{how.run.replace('.', '-')}-"):
        return ""  # a name of another run, or of none
    if not (how.url or how.address or how.command):
        return f"queue {name} is left: its owner's file does not say how one is removed"
    why = removed(how)
    if not why:
        return f"removed queue {name}"
    tries = _count(path.with_name(f"{name}.tries"))
    if tries >= _TRIES:
        return f"queue {name} is left, after {tries} tries: {why}"
    raise StillThereError(f"queue {name} is left: {why}; the next run tries again")


def removed(how: Removal) -> str:
    """Remove one queue. Return why it is still there, empty if it is gone."""
    try:
        if how.url:
            return _asked(how)
        if how.address:
            return _OVER_AMQP[0](how) if _OVER_AMQP else f"{how.address}: no AMQP client is loaded to ask it"
        done = subprocess.run(
            how.command,
            cwd=how.here,
            env=environment(how.run),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=how.seconds,
            check=False,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        return f"{how.command[0]} did not end within {how.seconds:g} s"
    except (OSError, UsageError) as error:
        return f"{web.shown(how.url) if how.url else how.command[0]}: {error}"
    tail = " ".join((done.stdout + done.stderr).decode(errors="replace").split())[-200:]
    return f"{how.command[0]} ended with {done.returncode}: {tail}" if done.returncode else ""


def _asked(how: Removal) -> str:
    asked = f"{how.verb} {web.shown(how.url)}"
    status, said = web.ask(how.verb, how.url, how.body, timeout_s=how.seconds, access=how.access, headers=how.headers)
    text = " ".join(said.split())[:200]
    if how.absent and how.absent in said:
        return ""
    if status not in how.status:
        return f"{asked} answered {status}: {text}"
    try:
        wrong = bool(how.field) and web.field_of(said, how.field) != how.value
    except ValueError:
        wrong = True
    return f"{asked} answered without {how.field} {how.value}: {text}" if wrong else ""


def _count(path: pathlib.Path) -> int:
    """One more try; how many that makes."""
    try:
        tries = int(json.loads(path.read_text())) + 1
    except (OSError, ValueError):
        tries = 1
    path.write_text(json.dumps(tries))
    return tries
