"""A cut of the connection, in the minimal script: a relay of its own ends it at the k-th frame of a kind."""

from __future__ import annotations

from collections.abc import Mapping

from conformance.faults.frames.reader import KINDS
from conformance.followup.bundle.body import Body, CannotError, call, cannot
from conformance.scenario import Cut

LARGEST = 4096
"""Bytes of a message that the relay surely sees in one frame; of several it would count each."""

HOW = ("fin", "rst")
"""Not `half_open`: nothing tells a client of it, and it would have to guess how long to wait."""


def over_relay(function: str, words: Mapping[str, object], fault: Cut, body: Body, size: int) -> None:
    """The lines of a step over the relay; `CannotError` where the script has no words for the cut.

    Args:
        function: Of the client.
        words: Its arguments.
        fault: The cut, its number drawn.
        body: Gets the lines.
        size: Of the largest message that crosses, bytes.
    """
    at = fault.at
    if "tls" in body.needs:
        raise CannotError("a cut of a connection in TLS is not in it: its relay counts frames, and can read none")
    if fault.how not in HOW:
        raise cannot(fault, f", {fault.how.replace('_', '-')},")
    if at.kind not in KINDS or not isinstance(at.k, int):
        raise cannot(fault, " at this point")
    if size > LARGEST:
        raise CannotError("a cut among messages that take several frames is not in it")
    body.needs.add("relay")
    body.lines.append(f"fault = Cut(words, {at.kind!r}, {at.k}, {at.at!r}, {fault.how!r})")
    more = "" if function == "consume" else "fault=fault"  # what is consumed counts nothing after the cut
    body.lines.append(f"until_cut(fault, lambda: {call(function, words, over='fault.words', more=more)})")
