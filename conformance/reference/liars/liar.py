"""What a liar is: the honest broker, wrong in exactly one way.

`Honest` names the points at which a broker could lie; a liar overrides exactly one of them, and its docstring is its
description. The honest path asks these questions and never learns who answers.
"""

from __future__ import annotations

from conformance.reference.honest import Honest

PERIOD = 100
"""Scenarios publish some 300 messages and consume some 150 before a fault, so a lie comes within the first 100
operations and again every 100."""

TENTH = 10


class LiarBroker(Honest):
    """One way of being wrong. The class's name, in kebab case, is what `--liar` takes.

    `breaks` are the claims of the catalogue that it breaks, none where no claim speaks of it. `fault` is what has to
    happen for that to show: a fault of the suite, or `none`. `needs` is the profile under which it can be seen.
    """

    breaks: tuple[str, ...] = ()
    fault = "none"
    needs = "standard"
