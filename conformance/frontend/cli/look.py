"""Commands that show or fetch: claims, suites, the machine, the bundled broker."""

from __future__ import annotations

import difflib
import pathlib
from collections.abc import Sequence
from typing import Any

import click
import msgspec

from conformance.errors import LISTED, UsageError, matching
from conformance.frontend.cli.group import cli, say

_CLAIMS = ("list", "show")


@cli.command("fetch")
@click.argument("adapter")
@click.option("--to", "folder", type=click.Path(path_type=pathlib.Path), help="Folder  [default: the cache]")
def fetch_command(adapter: str, folder: pathlib.Path | None) -> int:
    """Download a broker's distribution and check it; with --to for a machine without network.

    \b
    conformance fetch artemis@2.56.0 --to dist/
    CONFORMANCE_DIST=dist/ conformance run --adapter artemis --offline
    """
    from conformance import adapters
    from conformance.frontend.progress import downloading

    with downloading(adapter) as progress:
        found = adapters.find(adapter)
        made = adapters.fetch_to(adapter, folder, progress) if folder else [found.install(progress)]
    for path in made:
        say(path)
    return 0


@cli.command("claims")
@click.argument("words", nargs=-1, metavar="[list | show] [PATTERN...]")
@click.option("--json", "as_json", is_flag=True, help="For machines: each claim with its address and its scenarios.")
def claims_command(words: tuple[str, ...], as_json: bool) -> int:
    """List the claims, or show some in full.

    \b
    conformance claims
    conformance claims 'ARTEMIS-SEND-*'
    conformance claims show SOLCD-ACK-01 'ARTEMIS-SEND-*'
    conformance claims list 'AMQP-*' --json
    """
    from conformance import claims

    catalogue = claims.load()
    does = words[0] if words else "list"
    if does not in _CLAIMS and difflib.get_close_matches(does, _CLAIMS):
        raise UsageError.unknown("word", does, _CLAIMS)
    patterns = claims.words(words[1:] if does in _CLAIMS else words)
    if does == "show" and not patterns:
        raise UsageError(f"claims show: name a claim or a pattern, such as 'AMQP-*'; {LISTED['claim']}", code="missing")
    chosen = claims.select(patterns or ["*"], catalogue)
    if as_json:
        say(_claims_json(chosen, catalogue))
        return 0
    for claim in chosen:
        say(_claim_text(claim, catalogue) if does == "show" else f"{claim.id:16} {claim.kind:11} {claim.says}")
    return 0


@cli.command("scenarios")
@click.argument("patterns", nargs=-1, metavar="[PATTERN...]")
def scenarios_command(patterns: tuple[str, ...]) -> int:
    """List the scenarios, with what happens in each and the claims that it decides.

    \b
    conformance scenarios
    conformance scenarios 'broker-killed-*'
    """
    from conformance import claims, scenario

    scenarios = scenario.load(claims.load())
    for name in matching("scenario", claims.words(patterns) or ["*"], scenarios):
        item = scenarios[name]
        say(f"{name}{' (only with --thorough)' if item.thorough else ''}")
        say(f"    {item.says}")
        say(f"    decides: {', '.join(item.decides)}")
    return 0


def _claims_json(chosen: Sequence[Any], catalogue: Any) -> str:
    """Return a JSON list: each claim as in its file, the address of its sentence, and the scenarios that decide it."""
    from conformance import scenario

    scenarios = scenario.load(catalogue).values()
    found = [
        {
            **msgspec.to_builtins(claim),
            "url": catalogue.url(claim),
            "scenarios": [item.id for item in scenarios if claim.id in item.decides],
        }
        for claim in chosen
    ]
    return msgspec.json.format(msgspec.json.encode(found), indent=1).decode()


def _claim_text(claim: Any, catalogue: Any) -> str:
    conditions = ", ".join(f"{name}={str(value).lower()}" for name, value in claim.when.items()) or "none"
    title = catalogue.document_title(claim)
    lines = {
        "source": f"{title}, {claim.source.section!r}: {claim.source.sentence}" if claim.source.sentence else title,
        "says": claim.says,
        "reason": claim.reason,
        "kind": f"{claim.kind}, {claim.scope}{' of ' + ', '.join(claim.binds) if claim.binds else ''}, {claim.subject}",
        "conditions": conditions,
        "faults": ", ".join(claim.faults),
        "falsified by": claim.falsified_by,
        "note": claim.note,
    }
    return "\n".join([claim.id, *(f"  {name:13} {text}" for name, text in lines.items() if text), ""])


@cli.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def doctor_command(as_json: bool) -> int:
    """Show what this machine has: Java, Docker, strace, root, disks; and what each missing part would enable.

    \b
    conformance doctor
    conformance doctor --json

    It changes nothing. Exit 0 if the bundled broker can be tested, else 3. If this command does not start, use
    `python -m conformance.frontend.doctor`, which needs no package.
    """
    from conformance.frontend import doctor

    checks = doctor.examine()
    say(doctor.as_json(checks) if as_json else doctor.text(checks), nl=False)
    return int(doctor.exit_code(checks))


@cli.command("suites")
def suites_command() -> int:
    """Print the folder of the scenarios, for pytest.

    \b
    conformance suites
    pytest $(conformance suites) --adapter=reference -k SOLCD
    """
    from conformance import paths

    say(paths.suites())
    return 0


@cli.command("broker", context_settings={"ignore_unknown_options": True}, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def broker_command(arguments: tuple[str, ...]) -> int:
    """Run the bundled reference broker by itself.

    \b
    conformance broker --amqp-port 5672 --http-port 8161 --data data/ --queue orders
    """
    from conformance.reference.command import main as broker

    return broker(list(arguments)) or 0
