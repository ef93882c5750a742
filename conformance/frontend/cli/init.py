"""`conformance init`: write a first file for your own broker."""

from __future__ import annotations

import pathlib
import shlex
import sys
from typing import Any

import click

from conformance.errors import UsageError
from conformance.frontend.cli.group import FILE, cli, say
from conformance.frontend.options import PORT_WORDS, WIRE_WORDS
from conformance.protocols import WIRES, describe

_NEEDED = {
    "command": ("COMMAND", f"Command line that starts the broker, with {PORT_WORDS}"),
    "depth_url": ("--depth-url", "HTTP address that says how many messages {queue} holds"),
    "depth_field": ("--depth-field", "Field of its JSON answer, such as depth or 0.messages"),
}
"""Required values: the name on the command line, and the question on a terminal.

`--depth-command` replaces the last two."""

_UNSURE = {word: traits.confirm for word in WIRES if not (traits := describe(word).traits).confirm_stores}
"""The protocols whose answer to a send promises no storage, and the name of that answer."""

_DEPTH_COMMAND = "Command that prints how many messages {queue} holds"
_NO_DEPTH = (
    "no depth: without it the suite cannot tell an empty queue from a stuck one, so it could decide nothing about "
    "losses; give --depth-url and --depth-field, or --depth-command; docs/how-to/broker-file.md, [depth], has one "
    "way more"
)


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
    "--protocol", "protocols", multiple=True, metavar="WORD[=PORT]", help=f"{WIRE_WORDS}.  [default: by the ports]"
)
@click.option(
    "--destination", "destinations", multiple=True, metavar="WORD=TEXT", help="A queue's address, stomp=/queue/{queue}."
)
@click.option("--env", "environment", multiple=True, metavar="NAME=VALUE", help="A variable of its environment.")
@click.option("--each-queue", default="", metavar="TEXT", help="Arguments for each queue, such as '--queue {queue}'.")
@click.option("--declare", default="", metavar="URL", help="The address of a PUT that creates {queue}.")
@click.option("--depth-url", default="", metavar="URL", help="Returns how many messages {queue} holds.")
@click.option("--depth-field", default="", metavar="FIELD", help="The field of its JSON answer.")
@click.option("--depth-command", default="", metavar="TEXT", help="Prints how many messages {queue} holds, instead.")
@click.option(
    "--receipt-stores",
    is_flag=True,
    help=f"Its documentation says that a {' or '.join(dict.fromkeys(_UNSURE.values()))} means: it is stored.",
)
@click.option("--ready-log", default="", metavar="PATTERN", help="What it prints when it is ready.")
def init_broker(command: tuple[str, ...], out: pathlib.Path, **values: Any) -> int:
    """Write a broker.toml for a broker that a command line starts.

    \b
    conformance init broker --depth-url URL --depth-field depth -- ./mybroker --amqp '{amqp_port}'
    conformance adapters check ./broker.toml

    Write {amqp_port}, {stomp_port} or {NAME_port} where the command line takes a port, and {data_dir} where it takes
    the folder of its data; docs/how-to/broker-file.md lists all such words. On a terminal you are asked for what is
    missing.
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
    if values["depth_command"]:
        missing = [name for name in missing if name == "command"]
    if missing and not sys.stdin.isatty():
        raise UsageError(
            "missing: "
            + "; ".join(f"{_NEEDED[name][0]} ({_NEEDED[name][1]})" for name in missing)
            + (f"; or --depth-command ({_DEPTH_COMMAND})" if "depth_url" in missing else ""),
            code="missing",
            names=tuple(missing),
        )
    if "command" in missing:
        values["command"] = click.prompt(_NEEDED["command"][1], value_proc=_with_a_port)
    if len(values["command"]) == 1:
        values["command"] = tuple(shlex.split(values["command"][0]))
    values |= _asked_depth(values, missing)
    unsure = [name for word, name in _UNSURE.items() if f"{{{word}_port}}" in " ".join(values["command"])]
    if missing and not values["receipt_stores"] and unsure:
        question = f"Does its documentation say that a {' or '.join(unsure)} means that the message is stored?"
        values["receipt_stores"] = click.confirm(question)
    return values


def _with_a_port(text: str) -> tuple[str, ...]:
    """Split a command line; click asks again if it takes no port: the suite starts each broker at free ones."""
    if "_port}" not in text:
        raise click.UsageError(f"it takes no port: write {PORT_WORDS} where it does")
    return tuple(shlex.split(text))


def _asked_depth(values: dict[str, Any], missing: list[str]) -> dict[str, str]:
    """Ask how the broker says the depth of a queue. An empty answer leads to the next way, and then to an error."""
    found: dict[str, str] = {}
    if "depth_url" in missing:
        found["depth_url"] = click.prompt(f"{_NEEDED['depth_url'][1]} (empty: by a command)", "", show_default=False)
    if "depth_field" in missing and (values["depth_url"] or found["depth_url"]):
        found["depth_field"] = click.prompt(_NEEDED["depth_field"][1])
    if "depth_url" in missing and not found["depth_url"]:
        found["depth_command"] = click.prompt(f"{_DEPTH_COMMAND} (empty: none)", "", show_default=False)
        if not found["depth_command"]:
            raise UsageError(_NO_DEPTH, code="no-depth")
    return found


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
