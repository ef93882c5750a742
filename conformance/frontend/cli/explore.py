"""The command that lets the suite look by itself: explore."""

from __future__ import annotations

import math
import shlex
import signal
import sys
from typing import Any

from conformance.frontend.cli.group import GroupedCommand, cli, end_on_sigterm, options, say
from conformance.frontend.options import EXPLORE, run_options, seconds

AN_HOUR_S = 3_600


@cli.command("explore", cls=GroupedCommand)
@options(EXPLORE)
def explore_command(quiet: bool, **values: Any) -> int:
    """Let the suite look for itself: draw scripts and faults, play and judge them, make smaller what fails.

    \b
    conformance explore --adapter reference --for 10m
    conformance explore --adapter artemis@2.44.0 --protocol stomp --trials 200 --seed 7
    conformance explore --adapter ./mybroker.toml --require SOLCD-ACK-01 --known-failures known.toml
    conformance explore --adapter ./mybroker.toml --resume runs/mybroker --for 2h

    Values, repetition, company, restarts and faults are drawn from a space of edges at which brokers break, pairs that
    were not met before first. A violation is repeated, and its script made simpler while it still fails; the result is
    a scenario file that pytest plays. Equal findings are one. What was met, and what never, is in explored.html. Exit
    code 1 if a claim was violated that --known-failures does not expect; another call with --resume goes on.
    """
    from conformance import claims
    from conformance.campaign import Watcher
    from conformance.errors import ExitCode, Interrupted
    from conformance.followup import explore
    from conformance.followup.explore import page
    from conformance.report.expectations import Expected

    wanted = explore.ExploreRequest(
        options=run_options(values),
        for_s=seconds(values["for"], "--for") or (math.inf if values["trials"] else AN_HOUR_S),
        scripts=sys.maxsize if values["trials"] is None else values["trials"],
        expected=Expected.read(claims.load(), values["known_failures"], None, ()),
    )
    prepared, explored = explore.prepare(wanted)
    signal.signal(signal.SIGTERM, end_on_sigterm)
    shown = (lambda _: None) if quiet else say
    shown(f"{explored.adapter} over {explored.protocol}, seed {explored.seed}, into {prepared.folder}")
    explorer = explore.Explorer(wanted, prepared, explored, Watcher(), shown)
    try:
        explorer.run()
    except (KeyboardInterrupt, Interrupted) as error:
        again = f"{explored.command} --resume {shlex.quote(str(prepared.folder))}"
        raise Interrupted(f"what was explored is in {prepared.folder}; to go on: {again}") from error
    finally:
        explorer.save()
        if explored.drawn:
            page.write(explored, prepared.folder)
    new = [finding for finding in explored.findings if not finding.known]
    for line in explore.summary(explored):
        say(line)
    say(f"page: {prepared.folder / explore.PAGE}")
    return ExitCode.VIOLATED if new else ExitCode.CONFORMANT
