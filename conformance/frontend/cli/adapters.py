"""`conformance adapters`: list the brokers, and check a user's own."""

from __future__ import annotations

import functools
import json
import pathlib
import shlex
import signal
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from conformance.frontend.cli.group import cli, end_on_sigterm, options, say
from conformance.frontend.options import CHECK, access

if TYPE_CHECKING:
    from conformance.adapters import Adapter
    from conformance.adapters.file.model import BrokerFile
    from conformance.adapters.launch.launcher import FileLauncher
    from conformance.followup.contract import Step


_WIDE = 12
_COLUMNS = 110


@cli.group("adapters", invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="For machines.")
@click.option("--schema", is_flag=True, help="Print the JSON Schema of a broker.toml instead.")
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
        say(listing(**words), nl=False)
    return 0


@adapters_group.command("show")
@click.argument("names", nargs=-1, required=True, metavar="ADAPTER...")
def show_command(names: tuple[str, ...]) -> int:
    """List one broker or several, also by your own file.

    \b
    conformance adapters show artemis
    conformance adapters show ./mybroker.toml
    """
    from conformance import adapters

    for name in names:
        say("\n".join(_block(_description(adapters.find(name), name))))
    return 0


@adapters_group.command("check")
@click.argument("adapter")
@click.option("--keep", type=click.Path(path_type=pathlib.Path), help="Keep the broker's folder and its logs here.")
@options(CHECK)
def check_command(adapter: str, offline: bool, keep: pathlib.Path | None, **values: Any) -> int:
    """Check that an adapter does what the suite needs: start, message, kill, restart, message, stop.

    \b
    conformance adapters check reference
    conformance adapters check ./mybroker.toml --keep mybroker
    conformance adapters check mybroker.py:MyBroker
    conformance adapters check reference --set nodes=2
    conformance adapters check ./mybroker.toml --user alice --password-env BROKER_PASSWORD --tls-ca ca.pem

    The TLS and login options apply to each of its protocols; its file can give others ([access.PROTOCOL]). Exit 0 if
    every step passed, 3 if one failed, with the end of the broker's log, 4 for a faulty file.
    """
    from conformance.campaign import credential_words
    from conformance.followup import contract
    from conformance.run.leftovers import open_ledger, release_leftovers

    typed = access(values)
    opened = contract.open_adapter(adapter, typed, values["set"])
    found = opened.adapter
    signal.signal(signal.SIGTERM, end_on_sigterm)
    for line in release_leftovers():
        say(f"released what an earlier run left: {line}")
    say(f"{found.file.title} {found.version} ({found.launcher.word})")
    with contract.folder_of(keep) as folder, open_ledger(folder, contract.run_id(found)) as ledger:
        contract.check(found, folder / "broker", ledger, _tell, offline=offline, overrides=opened.overrides)
    if assumed := contract.assumptions(found):
        say("assumed to be promised, because the file does not describe these settings:")
        for line in assumed:
            say(f"  {line}")
        say("  If it does not promise one, describe it: [settings.NAME] with fixed = true and default = false.")
    if unstored := contract.unstored_claims(found):
        say("not judged, because the file does not declare confirm_means_stored:")
        for line in unstored:
            say(f"  {line}")
        say("  If its documentation says that a confirmed message survives a restart, add it to the capabilities.")
    chosen = (word for setting in values["set"] for word in ("--set", setting))
    words = ["conformance", "run", "--adapter", adapter, *chosen, *credential_words(typed)]
    say(f"{found.file.title} can be tried: {shlex.join(words)}")
    return 0


def _tell(step: Step) -> None:
    word = "passed" if step.tried else "not tried"
    took = f"{step.seconds:6.2f} s" if step.tried else " " * 8
    say(f"  {word:9} {took}  {step.name}{f': {step.detail}' if step.detail else ''}")


def listing(*, as_json: bool = False, schema: bool = False) -> str:
    """Describe every broker, those of other packages last, as text or JSON; or return the schema of their files.

    It checks what each launcher lacks on this machine, and starts no broker.
    """
    if schema:
        from conformance.adapters.file import schema as schema_of

        return schema_of.text()
    from conformance import adapters

    brokers = [_described(name) for name in [*adapters.names(), *sorted(adapters.plugged_adapters())]]
    if as_json:
        return json.dumps(brokers, indent=2) + "\n"
    return "\n".join("\n".join([*_block(broker), ""]) for broker in brokers)


def _described(name: str) -> dict[str, Any]:
    """Describe one broker, or say why it cannot be loaded."""
    from conformance import adapters
    from conformance.errors import UsageError

    try:
        return _description(adapters.find(name), name)
    except UsageError as error:
        return {"name": name, "faulty": str(error)}


def _description(adapter: Adapter, name: str) -> dict[str, Any]:
    from conformance.adapters import vendor_clients
    from conformance.adapters.launchers import LAUNCHERS
    from conformance.protocols import WIRES, describe

    file = adapter.file
    everywhere = file.capabilities.difference(*(describe(word).without for word in file.protocols))
    clients = {word: vendor_clients.over(word) for word in file.protocols}
    return {
        "name": name,
        "title": file.full_title,
        "vendor": file.vendor,
        "versions": _versions(adapter, name),
        "other_versions": file.fetch is not None and bool(file.fetch.artifact),
        "source": _source(file),
        "launchers": [{"name": word, "lacks": _lacks(each, file)} for word, each in LAUNCHERS.items()],
        "capabilities": sorted(everywhere),
        "protocols": {
            word: {
                "client": word in WIRES or bool(clients[word]),
                "clients": clients[word],
                "capabilities": sorted(protocol.capabilities | file.capabilities - describe(word).without - everywhere),
            }
            for word, protocol in file.protocols.items()
        },
        "profiles": list(file.profiles),
        "settings": {
            name: {
                "default": entry.default,
                "stock": entry.default if entry.stock is None else entry.stock,
                "settable": entry.settable,
                "description": entry.description,
            }
            for name, entry in file.settings.items()
        },
        "variants": {name: variant.description for name, variant in file.variants.items()},
    }


def _source(file: BrokerFile) -> str:
    if file.is_external:
        return "external"
    return "fetched" if file.fetch else "installed" if file.installed else "bundled"


def _versions(adapter: Adapter, name: str) -> list[dict[str, Any]]:
    """List the versions that the file names, then others in the cache; `fetched`: on this machine, unpacked or not.

    An external broker has the version that its owner says: none is on this machine.
    """
    from conformance import adapters
    from conformance.adapters.distribution import fetch
    from conformance.adapters.file.launch_tables import order

    named = dict.fromkeys([adapter.version, *adapter.file.versions])
    there = set() if adapter.file.is_external or fetch.not_installed(adapter.file) else set(named)
    if adapter.file.fetch is not None:
        before, _, after = adapter.file.fetch.folder.partition("{version}")
        unpacked = [path.name for path in fetch.dist().glob(f"{before}[0-9]*{after}") if path.is_dir()]
        there = {name.removeprefix(before).removesuffix(after) for name in unpacked}
        made = {word: adapters.find(f"{name}@{word}").artifacts for word in named}
        there |= {word for word, files in made.items() if all((fetch.dist() / one.file).is_file() for one in files)}
    words = [*named, *sorted(there - named.keys(), key=order)]
    return [{"version": word, "default": word == adapter.version, "fetched": word in there} for word in words]


def _lacks(launcher: type[FileLauncher], file: BrokerFile) -> str:
    """Say what the file or this machine lacks to run its broker so; empty if they lack nothing."""
    return launcher.lacks_here(file) or (_engine_lacks() if launcher.contained else "")


@functools.cache
def _engine_lacks() -> str:
    from conformance.frontend import doctor

    seen = doctor.check("docker")
    return "" if seen.state == "ok" else f"{seen.says}; see `conformance doctor`"


def _block(broker: dict[str, Any]) -> Iterator[str]:
    from conformance.adapters.launchers import is_owned

    if "faulty" in broker:
        yield f"{broker['name']}: cannot be used: {broker['faulty']}"
        return
    yield f"{broker['name']}: {broker['title']}"
    versions = [_version(version, broker["source"]) for version in broker["versions"]]
    versions += ["or any other"] * broker["other_versions"]
    if broker["source"] == "external":
        versions = [f"as you say: {broker['name']}@VERSION"]
    yield from _wrapped("versions", versions)
    for launcher in broker["launchers"]:
        possible = "at its address" if is_owned(launcher["name"]) else "can be started here"
        lacking = f"not here: {launcher['lacks']}" if launcher["lacks"] else ""
        yield f"    {launcher['name']:{_WIDE}} {lacking or possible}"
    yield from _wrapped("capabilities", broker["capabilities"])
    for word, protocol in broker["protocols"].items():
        clients = [f"--client={name}" for name in protocol["clients"]]
        untried = [] if protocol["client"] else ["and no client of this suite speaks it"]
        yield from _wrapped(f"over {word}", ["the same", *protocol["capabilities"], *clients, *untried])
    for name, setting in broker["settings"].items():
        given = str(setting["stock"]).lower() if isinstance(setting["stock"], bool) else setting["stock"]
        yield f"    {name}={given or '...'}{'' if setting['settable'] else ' (fixed)'}: {setting['description']}"
    for name, says in broker["variants"].items():
        yield f"    --set profile={name}: {says}"


def _version(version: dict[str, Any], source: str) -> str:
    marks = [word for mark, word in (("default", "default"), ("fetched", source)) if version[mark]]
    return f"{version['version']} ({', '.join(marks)})" if marks else str(version["version"])


def _wrapped(name: str, words: list[str]) -> Iterator[str]:
    first, rest = f"    {name:{_WIDE}} ", " " * (_WIDE + 5)
    text = ", ".join(words)
    yield from textwrap.wrap(text, _COLUMNS, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)
