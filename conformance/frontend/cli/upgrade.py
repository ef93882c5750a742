"""`conformance upgrade`: the data of one version under the next."""

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
@click.option("--from", "old", required=True, metavar="NAME[@VERSION][:LAUNCHER]", help="Fills the data; is killed.")
@click.option("--to", "new", required=True, metavar="NAME[@VERSION][:LAUNCHER]", help="Is started on that data.")
@click.option("--protocol", default="amqp", show_default=True, metavar="WORD", help="What clients speak: amqp, stomp.")
@click.option("--to-set", "to_settings", multiple=True, metavar="NAME=VALUE", help="A setting of the new one only.")
@click.option("--scenario", "scenarios", multiple=True, metavar="NAME", help="Only this one; repeatable.")
@click.option("--baseline", type=FILE, metavar="REPORT", help="A report about the old version, not played alone then.")
@options(UPGRADE)
def upgrade_command(quiet: bool, verbose: bool, **said: Any) -> int:
    """Try an upgrade: the old version is filled and killed, and the new one started on the same data.

    \b
    conformance upgrade --from artemis@2.44.0 --to artemis@2.56.0
    conformance upgrade --from artemis@2.44.0 --to artemis@2.56.0 --protocol stomp --quick
    conformance upgrade --from artemis@2.44.0 --to artemis@2.56.0 --scenario broker-killed-after-commit --trials 5
    conformance upgrade --from artemis --to artemis --to-set journal_type=ASYNCIO
    conformance upgrade --from ./mybroker-1.toml --to ./mybroker-2.toml --baseline last/before
    conformance upgrade --from ./mybroker-1.toml --to ./mybroker-2.toml --user alice --password-env BROKER_PASSWORD

    Played is every scenario in which a fault ends the broker and it is started again: first by the old version alone,
    then as an upgrade, and the two are compared. Exit 1 for a claim that only the upgrade violates, and for a new
    version that does not start on data on which the old one does; 2 for an answer that was lost. The report is that of
    the upgrade; the one of the old version alone lies in its folder `before`.
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
