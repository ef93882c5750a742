"""`conformance adapters`: list the brokers, and check a user's own."""

from __future__ import annotations

import pathlib
import shlex
import signal
from typing import TYPE_CHECKING, Any

import click

from conformance.frontend.cli import listing
from conformance.frontend.cli.group import cli, options, say, terminated
from conformance.frontend.options import CHECK, access

if TYPE_CHECKING:
    from conformance.followup.contract import Step


@cli.group("adapters", invoke_without_command=True)
@listing.options
@click.pass_context
def adapters_group(context: click.Context, /, **words: bool) -> int:
    """List the brokers: versions, launchers and what they lack here, protocols, capabilities, settings.

    \b
    conformance adapters
    conformance adapters --json
    conformance adapters --schema
    conformance adapters check ./mybroker.toml

    --schema prints the schema of a broker.toml; a TOML editor reads it if the first line is `#:schema PATH`.
    """
    if context.invoked_subcommand is None:
        say(listing.listing(**words), nl=False)
    return 0


@adapters_group.command("check")
@click.argument("adapter")
@click.option("--keep", type=click.Path(path_type=pathlib.Path), help="Keep the broker's folder and its logs here.")
@options(CHECK)
def check_command(adapter: str, offline: bool, keep: pathlib.Path | None, **said: Any) -> int:
    """Check that an adapter does what the suite needs: start, message, kill, restart, message, stop.

    \b
    conformance adapters check reference
    conformance adapters check ./mybroker.toml --keep mybroker
    conformance adapters check mybroker.py:MyBroker
    conformance adapters check ./mybroker.toml --user alice --password-env BROKER_PASSWORD --tls-ca ca.pem

    The TLS and login options apply to each of its protocols; its file can give others ([access.PROTOCOL]). Exit 0 if
    every step passed, 3 if one failed, with the end of the broker's log, 4 for a faulty file.
    """
    from conformance.campaign import credential_words
    from conformance.followup import contract
    from conformance.ledger import Ledger, release_leftovers

    typed = access(said)
    found = contract.opened(adapter, typed)
    signal.signal(signal.SIGTERM, terminated)
    for line in release_leftovers():
        say(f"released what an earlier run left: {line}")
    say(f"{found.file.title} {found.version} ({found.launcher})")
    with contract.place(keep) as folder, Ledger(folder, contract.run_id(found)) as ledger:
        contract.check(found, folder / "broker", ledger, _tell, offline=offline)
    if assumed := contract.assumptions(found):
        say("assumed to be promised, because the file does not describe these settings:")
        for line in assumed:
            say(f"  {line}")
        say("  If it does not promise one, describe it: [settings.NAME] with fixed = true and default = false.")
    if unstored := contract.unstored(found):
        say("not judged, because the file does not declare confirm_means_stored:")
        for line in unstored:
            say(f"  {line}")
        say("  If its documentation says that a confirmed message survives a restart, add it to the capabilities.")
    words = ["conformance", "run", "--adapter", adapter, *credential_words(typed)]
    say(f"{found.file.title} can be tried: {shlex.join(words)}")
    return 0


def _tell(step: Step) -> None:
    word = "passed" if step.tried else "not tried"
    took = f"{step.seconds:6.2f} s" if step.tried else " " * 8
    say(f"  {word:9} {took}  {step.name}{f': {step.detail}' if step.detail else ''}")
