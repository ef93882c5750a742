"""`conformance init`: write a first file for your own broker."""

from __future__ import annotations

import pathlib
import shlex
import sys
from typing import Any

import click

from conformance.errors import UsageError
from conformance.frontend.cli.group import FILE, cli, say

_NEEDED = {
    "command": ("COMMAND", "Command line that starts the broker, with {amqp_port} or {stomp_port}"),
    "depth_url": ("--depth-url", "HTTP address that says how many messages {queue} holds"),
    "depth_field": ("--depth-field", "Field of its JSON answer, such as depth or 0.messages"),
}
"""Required values: the name on the command line, and the question on a terminal."""


@cli.group("init")
def init_group() -> None:
    """Write a first file for your own broker.

    \b
    conformance init broker
    conformance init broker --out mybroker.toml
    """


@init_group.command("broker")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
@click.option("--out", type=FILE, default=pathlib.Path("broker.toml"), show_default=True, metavar="FILE")
@click.option("--name", default="mybroker", show_default=True, metavar="WORD", help="One word, in lower case.")
@click.option("--title", default="", metavar="TEXT", help="Its name in reports.  [default: the name]")
@click.option("--vendor", default="unknown", show_default=True, metavar="TEXT")
@click.option("--version", default="1.0", show_default=True, metavar="TEXT")
@click.option(
    "--protocol", "protocols", multiple=True, metavar="WORD[=PORT]", help="amqp or stomp.  [default: by the ports]"
)
@click.option(
    "--destination", "destinations", multiple=True, metavar="WORD=TEXT", help="A queue's address, stomp=/queue/{queue}."
)
@click.option("--env", "environment", multiple=True, metavar="NAME=VALUE", help="A variable of its environment.")
@click.option("--each-queue", default="", metavar="TEXT", help="Arguments for each queue, such as '--queue {queue}'.")
@click.option("--declare", default="", metavar="URL", help="The address of a PUT that creates {queue}.")
@click.option("--depth-url", default="", metavar="URL", help="Returns how many messages {queue} holds; required.")
@click.option("--depth-field", default="", metavar="FIELD", help="The field of its JSON answer; required.")
@click.option("--ready-log", default="", metavar="PATTERN", help="What it prints when it is ready.")
def init_broker(command: tuple[str, ...], out: pathlib.Path, **values: Any) -> int:
    """Write a broker.toml for a broker that a command line starts.

    \b
    conformance init broker --depth-url URL --depth-field depth -- ./mybroker --amqp '{amqp_port}'
    conformance adapters check ./broker.toml

    Write {amqp_port}, {stomp_port} or {NAME_port} where the command line takes a port, and {data_dir} where it takes
    the folder of its data; docs/brokers-toml.md lists all such words. On a terminal you are asked for what is missing.
    """
    from conformance import claims
    from conformance.frontend.draft import Draft

    _check_new(out)
    words = _completed({**values, "command": command})
    draft = Draft(**words)
    text = draft.text(claims.load().capabilities, out.absolute().parent)
    _write(out, text)
    say(f"{out} is written. Check what is unknown:")
    for line in draft.unknown():
        say(f"  {line}")
    say(f"next: conformance adapters check {shlex.quote(str(out if out.is_absolute() else f'./{out}'))}")
    return 0


def _check_new(out: pathlib.Path) -> None:
    if out.exists():
        raise UsageError(f"--out {out}: it exists; name another file", code="file-exists", file=out)


def _write(out: pathlib.Path, text: str) -> None:
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        text = f"--out {out}: cannot be written: {error.strerror}"
        raise UsageError(text, code="not-written", file=out) from error


def _completed(values: dict[str, Any]) -> dict[str, Any]:
    """Ask for missing values on a terminal; otherwise raise `UsageError` that names all of them."""
    missing = [name for name in _NEEDED if not values[name]]
    if missing and not sys.stdin.isatty():
        raise UsageError(
            "missing: " + "; ".join(f"{_NEEDED[name][0]} ({_NEEDED[name][1]})" for name in missing),
            code="missing",
            names=tuple(missing),
        )
    values |= {name: click.prompt(_NEEDED[name][1]) for name in missing}
    command = values["command"]
    if isinstance(command, str) or len(command) == 1:
        values["command"] = tuple(shlex.split(command if isinstance(command, str) else command[0]))
    return values


@init_group.command("external")
@click.argument("name", metavar="NAME[@VERSION]")
@click.argument("urls", metavar="URL[,URL]")
@click.option("--out", type=FILE, default=pathlib.Path("external.toml"), show_default=True, metavar="FILE")
def init_external(name: str, urls: str, out: pathlib.Path) -> int:
    """Write a file for an external broker: its addresses, its queues, and a place for your commands.

    \b
    conformance init external artemis amqp://127.0.0.1:5672
    conformance init external rabbitmq amqp://127.0.0.1:5672,http://127.0.0.1:15672
    conformance adapters check artemis:external=external.toml
    """
    from conformance import adapters
    from conformance.frontend import draft

    _check_new(out)
    text = draft.text(adapters.find(name).file, urls)
    _write(out, text)
    say(f"{out} is written: add your commands and settings")
    say(f"next: conformance adapters check {shlex.quote(f'{name}:external={out}')}")
    return 0
