"""Limits on what a broker can make the suite keep, read or wait for: one table, each with its reason.

A broker under test may send garbage, send without end, or send nothing. None of that may exhaust this machine or hang
the run. A broker that goes over a limit ends the client with a `ClientError` that names the limit. The trial is then
void: it does not accuse the broker, and its history stays readable.
"""

from __future__ import annotations

AMQP_FRAME = 1 << 20
"""Bytes of one AMQP frame. The client says so in its open, as max-frame-size (AMQP 1.0 section 2.7.1), so that a larger
frame breaks the protocol. Brokers send frames of 64 to 128 KiB."""

AMQP_FRAME_LEAST = 8
"""Bytes of the frame header (AMQP 1.0 section 2.3.1): a smaller size has no end, and its reader would not advance."""

STOMP_HEAD = 1 << 18
"""Bytes of the command and the headers of one STOMP frame. Ours have less than 1 KiB. The bundled broker takes as much,
and STOMP 1.2 (Size Limits) lets a server limit them."""

MESSAGE = 1 << 24
"""Bytes of one message. The largest body that a scenario sends has 4 MiB."""

BACKLOG = 1 << 28
"""Bytes of deliveries that wait in one client. STOMP has no credit, so a broker may send a whole queue at once: the
largest queue of a scenario has some 100 MB."""

OVERHEAD = 1 << 10
"""Bytes that a delivery without a body counts for. Python objects are not free: a million empty messages take 1 GB."""

ENDPOINTS = 256
"""Sessions and links that a broker may open in one AMQP connection. The suite expects none but the answers to its own
four."""

UNTRUE_RECEIPTS = 10_000
"""RECEIPT frames of one connection that answer nothing. One is enough to judge; each is an event of the history."""

DIGITS = 18
"""Digits of a number in a text: it fits in 64 bits. Python raises a ValueError for more than 4,300 digits."""

QUOTED = 400
"""Characters of a broker's text that an error or an event quotes."""

EVENT_BYTES = 180
"""Bytes of an event in a history, about."""

HISTORY = 1 << 28
"""Bytes of the history of one process: two million events. The largest history of a scenario has 2 MB."""

HTTP_ANSWER = 1 << 24
"""Bytes of the answer to one HTTP request. The largest answer of a management interface that we know has 200 KB."""

LOG = 1 << 24
"""Bytes of a broker's log that are searched for its ready line, from the end. A start of a known broker logs 100 KB
at most."""

HANDSHAKE_S = 10.0
"""Seconds of a TLS handshake with a broker that is asked whether it is ready. A slow machine takes 0.1 s."""

CLIENT_S = 600.0
"""Seconds of one client process. The slowest waits for ten times the healthy maximum of a liveness claim."""

TRIAL_S = 1_800.0
"""Seconds in which the clients of one trial must end. A trial has at most three that wait for the liveness bound."""


def limit_sentence(what: str, most: float, unit: str = "bytes") -> str:
    """Return the sentence about a limit that a broker went over.

    >>> limit_sentence("a frame", AMQP_FRAME)
    'the broker went over a limit of this suite: a frame of more than 1,048,576 bytes'
    """
    return f"the broker went over a limit of this suite: {what} of more than {most:,.0f} {unit}"


def quote(text: object) -> str:
    """Return the text of a broker, cut if it is too long to be shown.

    >>> len(quote("x" * 100_000)) < 450
    True
    """
    shown = str(text)
    return shown if len(shown) <= QUOTED else f"{shown[:QUOTED]}... ({len(shown):,} characters)"
