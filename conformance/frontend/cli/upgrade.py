"""`conformance upgrade`: the data of one version under the next."""

from __future__ import annotations

import contextlib
import pathlib
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from conformance.frontend.cli.access import credentials
from conformance.frontend.cli.group import FILE, cli, say, terminated, write_report

if TYPE_CHECKING:
    from conformance.campaign import Campaign, Watcher
    from conformance.judge.rows import Judgement


@cli.command("upgrade")
@click.option("--from", "old", required=True, metavar="NAME[@VERSION][:LAUNCHER]", help="Fills the data; is killed.")
@click.option("--to", "new", required=True, metavar="NAME[@VERSION][:LAUNCHER]", help="Is started on that data.")
@click.option("--protocol", default="amqp", show_default=True, metavar="WORD", help="What clients speak: amqp, stomp.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting of both; repeatable.")
@click.option("--to-set", "to_settings", multiple=True, metavar="NAME=VALUE", help="A setting of the new one only.")
@click.option(
    "--claims", multiple=True, metavar="PATTERNS", help="Claims to try, as 'AMQP-*'; repeatable.  [default: *]"
)
@click.option("--scenario", "scenarios", multiple=True, metavar="NAME", help="Only this one; repeatable.")
@click.option("--baseline", type=FILE, metavar="REPORT", help="A report about the old version, not played alone then.")
@click.option("--trials", default=3, show_default=True, help="Trials of each scenario.")
@click.option("--seed", type=int, help="Repeats it: the same trigger points.  [default: random, printed]")
@credentials
@click.option("--out", type=click.Path(path_type=pathlib.Path), help="Folder  [default: runs/<date>-<adapter>]")
@click.option("--offline", is_flag=True, help="Download nothing; see `conformance fetch --to`.")
@click.option("--quick", is_flag=True, help="The ten strongest claims.")
@click.option("-q", "--quiet", is_flag=True, help="Only the summary.")
@click.option("-v", "--verbose", is_flag=True, help="What each trial does: its drawn numbers, restarts, controls.")
def upgrade_command(
    quiet: bool, verbose: bool, claims: tuple[str, ...], scenarios: tuple[str, ...], **words: Any
) -> int:
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
        upgrade.UpgradeRequest(claims=patterns(claims or ["*"]), scenarios=patterns(scenarios), **words)
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
