"""`conformance upgrade`: start one version on the data of another."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from conformance.frontend.cli.group import FILE, cli, options, say, terminated, write_report
from conformance.frontend.options import UPGRADE, access

if TYPE_CHECKING:
    from conformance.campaign import Campaign, Watcher
    from conformance.judge.rows import Judgement


@cli.command("upgrade")
@click.option(
    "--from",
    "old",
    required=True,
    metavar="NAME[@VERSION][:LAUNCHER]",
    help="The old version: it writes the data and is killed.",
)
@click.option(
    "--to", "new", required=True, metavar="NAME[@VERSION][:LAUNCHER]", help="The new version: it starts on that data."
)
@click.option(
    "--protocol", default="amqp", show_default=True, metavar="WORD", help="Protocol of the clients: amqp or stomp."
)
@click.option(
    "--to-set",
    "to_settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting of the new version only; repeatable.",
)
@click.option("--scenario", "scenarios", multiple=True, metavar="NAME", help="Play only this scenario; repeatable.")
@click.option(
    "--baseline", type=FILE, metavar="REPORT", help="A report about the old version; it is then not tested alone."
)
@options(UPGRADE)
def upgrade_command(quiet: bool, verbose: bool, **said: Any) -> int:
    """Test an upgrade: the old version writes data and is killed, and the new one starts on that data.

    \b
    conformance upgrade --from artemis@2.44.0 --to artemis@2.56.0
    conformance upgrade --from artemis@2.44.0 --to artemis@2.56.0 --protocol stomp --quick
    conformance upgrade --from artemis@2.44.0 --to artemis@2.56.0 --scenario broker-killed-after-commit --trials 5
    conformance upgrade --from artemis --to artemis --to-set journal_type=ASYNCIO
    conformance upgrade --from ./mybroker-1.toml --to ./mybroker-2.toml --baseline last/before
    conformance upgrade --from ./mybroker-1.toml --to ./mybroker-2.toml --user alice --password-env BROKER_PASSWORD

    Every scenario in which a fault ends the broker and it starts again is played twice: by the old version alone, and
    as an upgrade. Exit 1 if only the upgrade violates a claim, or if the new version does not start on data on which
    the old one starts; exit 2 if the upgrade left undecided what the old version decided. The report is about the
    upgrade; the folder `before` has the report about the old version.
    """
    from conformance.claims import words as patterns
    from conformance.followup import upgrade

    prepared = upgrade.prepare(
        upgrade.UpgradeRequest(
            old=said["old"],
            new=said["new"],
            protocol=said["protocol"],
            settings=said["set"],
            to_settings=said["to_settings"],
            claims=patterns(said["claims"] or ["*"]),
            scenarios=patterns(said["scenarios"]),
            baseline=said["baseline"],
            quick=said["quick"],
            trials=said["trials"],
            seed=said["seed"],
            out=said["out"],
            offline=said["offline"],
            access=access(said),
        )
    )
    for note in prepared.notes:
        say(f"note: {note}")
    signal.signal(signal.SIGTERM, terminated)

    @contextlib.contextmanager
    def watching(campaign: Campaign) -> Iterator[Watcher]:
        from conformance.frontend.progress import Show

        with Show(campaign, quiet=quiet, verbose=verbose) as show:
            yield show.watcher

    result = upgrade.execute(prepared, watching, _report_before)
    code = write_report(result.judgement, prepared.after.folder, result.expected)
    for line in result.lines:
        say(line)
    return code


def _report_before(judgement: Judgement, campaign: Campaign) -> None:
    from conformance import report

    report.write_all(judgement, campaign.catalogue, campaign.scenarios, campaign.folder, None)
