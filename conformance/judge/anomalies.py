"""What can go wrong with a message: one anomaly, one sentence, two expressions.

`applies` and `offends` are SQL over the one row of a message that `relations` makes; its columns are described there.
A check that applies to no message has decided nothing. The tables are text, so that they load without a JVM.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from conformance.errors import CatalogueError


@dataclasses.dataclass(frozen=True)
class Anomaly:
    """One anomaly, or one witness of a permission.

    `of`, `happened`, `happens` and `control` are its words in a reason: "0 of 9 <of> <happened>", "the chance that one
    fault <happens>", "the control <control> in 3 of 3". `drained`: its absence counts only where the queue was drained
    to silence. `order` is the column whose order tells the prefix, the middle and the tail of a loss apart. `beside`
    names an anomaly that must be seen as well, in any trial, before this one is witnessed.
    """

    name: str
    sentence: str
    applies: str
    offends: str
    of: str
    happened: str
    happens: str = ""
    control: str = "failed"
    drained: bool = True
    order: str = ""
    beside: str = ""


@dataclasses.dataclass(frozen=True)
class Exposure:
    """What could have offended. `counts` is SQL over the same row.

    `window` names the anomaly whose strong control shows how long before the fault things are at risk, and `since` is
    the column of the instant at which they became so: only what lies within that time of the fault counts.
    """

    name: str
    sentence: str
    counts: str
    window: str = ""
    since: str = ""


KEPT = "confirmed AND durable AND settled"

ANOMALIES: Mapping[str, Anomaly] = {
    anomaly.name: anomaly
    for anomaly in (
        Anomaly(
            "lost",
            """A message the broker confirmed and nobody ever received.

            Decidable only where the queue was settled after the last fault (two drains to silence with a clean restart
            between, and nothing new in the second): before that, a message may merely still be waiting.
            """,
            applies=KEPT,
            offends="received = 0",
            of="confirmed messages",
            happened="lost",
            happens="loses a confirmed message",
            control="lost messages",
            order="confirmed_at",
        ),
        Anomaly(
            "confirmed_missing",
            "The witness of a permission to lose what was confirmed: such a message that nobody ever received.",
            applies=KEPT,
            offends="received = 0",
            of="confirmed messages",
            happened="missing after the fault",
            order="confirmed_at",
        ),
        Anomaly(
            "unanswered_either_way",
            "A message whose send has no answer, and which is there after recovery; another one must be absent.",
            applies="unanswered AND settled",
            offends="received > 0",
            of="sends without an answer",
            happened="found after recovery",
            beside="unanswered_absent",
        ),
        Anomaly(
            "unanswered_absent",
            "A message whose send has no answer, and which is not there after recovery.",
            applies="unanswered AND settled",
            offends="received = 0",
            of="sends without an answer",
            happened="absent after recovery",
        ),
        Anomaly(
            "unanswered_send",
            """A persistent send without an answer within the liveness bound, on an open connection.

            A send that lost its connection is unknown, and neither applies nor offends.
            """,
            applies="attempted AND durable AND (answered OR overdue)",
            offends="overdue AND NOT answered",
            of="persistent sends",
            happened="left without an answer",
            happens="leaves a send without an answer",
            drained=False,
        ),
        Anomaly(
            "outcome_changed",
            "A send that was given two different outcomes (accepted, rejected, released, modified) on one link.",
            applies="answered",
            offends="outcomes > 1",
            of="answered sends",
            happened="given a second, different outcome",
            happens="changes an outcome",
            drained=False,
        ),
        Anomaly(
            "stuck",
            """A confirmed message that a waiting consumer with credit was not given within the liveness bound.

            Its queue said a depth above zero all the while. It may come after a restart: then it was stuck and is late,
            not lost.
            """,
            applies="confirmed AND (stuck_at IS NOT NULL OR silent_drains > 0)",
            offends="ack_sent_at IS NULL AND stuck_at < coalesce(redelivered_at, stuck_at + 1)",
            of="confirmed messages",
            happened="stuck in the queue",
            happens="leaves a message stuck",
            drained=False,
        ),
        Anomaly(
            "gone",
            """A delivered message, no acknowledgement of which ever left the client, that did not come back.

            Decidable only where the queue was settled after the death of its consumer.
            """,
            applies="handed > 0 AND ack_sent_at IS NULL AND durable AND settled",
            offends="redelivered = 0",
            of="delivered and unacknowledged messages",
            happened="gone",
            happens="takes such a message away",
            order="handed_at",
        ),
        Anomaly(
            "gone_after_acknowledge",
            "A message delivered after the last acknowledge of its session, which took it away as well.",
            applies="handed_after_acknowledge AND ack_sent_at IS NULL AND durable AND settled",
            offends="redelivered = 0",
            of="messages delivered after the last acknowledge",
            happened="gone",
            happens="takes such a message away",
            order="handed_at",
        ),
        Anomaly(
            "delivered_after_acknowledgement",
            """A message that the same run of the broker delivered again after it had settled the acknowledgement.

            After a restart it is another sentence's matter: `delivered_after_restart`.
            """,
            applies="acked_at IS NOT NULL AND ack_epoch = first_epoch",
            offends="early_received_at > acked_at",
            of="messages with a confirmed acknowledgement",
            happened="delivered again",
            happens="brings such a message back",
        ),
        Anomaly(
            "delivered_after_restart",
            "A message that came again after a restart, although its acknowledgement had been confirmed before.",
            applies="acked_at IS NOT NULL",
            offends="last_epoch > ack_epoch",
            of="messages with a confirmed acknowledgement",
            happened="delivered again after the restart",
            happens="brings such a message back",
            control="brought messages back",
        ),
        Anomaly(
            "acknowledged_early",
            """An acknowledgement that left before the processing of its message had ended.

            A message whose processing the crash cut short and which was acknowledged all the same is such a one.
            """,
            applies="ack_sent_at IS NOT NULL",
            offends="processed_at IS NULL OR ack_sent_at < processed_at",
            of="acknowledged messages",
            happened="acknowledged before their processing ended",
            happens="leads to such an acknowledgement",
            drained=False,
        ),
        Anomaly(
            "acknowledged_undelivered",
            """An acknowledge that covered a message not yet handed over, or left out one handed over before.

            For sessions whose acknowledge covers everything so far (CLIENT).
            """,
            applies="ack_sent_at IS NOT NULL OR handed_before_acknowledge",
            offends="ack_sent_at IS NULL OR handed_at IS NULL OR ack_sent_at < handed_at",
            of="messages that an acknowledge was due for",
            happened="wrongly covered or left out",
            happens="leads to such an acknowledge",
            drained=False,
        ),
        Anomaly(
            "counted_at_first",
            """A fresh message whose first delivery, before any fault, already carried a delivery count above zero.

            What came only after the fault may have been transferred to the dead consumer unseen: it does not apply.
            """,
            applies="fresh_at IS NOT NULL AND attempted",
            offends="first_count > 0",
            of="first deliveries",
            happened="counted above zero",
            happens="counts a first delivery",
            drained=False,
        ),
        Anomaly(
            "first_acquirer_twice",
            """A delivery that claims to be the first acquirer although another link had been given the message before.

            Within the first run of the broker only. Smallest counter-example to counting claims: two claims on one
            link are honest, one claim on the second of two links is not.
            """,
            applies="claims > 0 AND links_differ",
            offends="claim_links_differ OR claim_link <> first_link",
            of="messages given to a second link",
            happened="claimed as first acquired again",
            happens="makes such a claim",
        ),
        Anomaly(
            "many_unacknowledged",
            "The witness of a large backlog: a delivery with which its session held more than 1,000 unacknowledged.",
            applies="handed > 0",
            offends="held > 1000",
            of="deliveries",
            happened="held beside 1,000 other unacknowledged ones",
        ),
        Anomaly(
            "phantom",
            "A message that somebody received and nobody sent. It decides no claim, and allows no HOLDS.",
            applies="received > 0",
            offends="NOT attempted",
            of="received messages",
            happened="never sent",
        ),
        Anomaly(
            "corrupt",
            "A message that arrived altered. It decides no claim, and allows no HOLDS.",
            applies="received > 0",
            offends="altered",
            of="received messages",
            happened="altered",
        ),
    )
}
"""Every anomaly by its name; `Check.anomaly` of a scenario is one of these."""

EXPOSURES: Mapping[str, Exposure] = {
    exposure.name: exposure
    for exposure in (
        Exposure(
            "confirmed_in_window",
            "durable sends confirmed within the loss window before the fault, or read after it",
            "confirmed AND durable",
            window="lost",
            since="confirmed_at",
        ),
        Exposure(
            "acknowledged_in_window",
            "acknowledgements confirmed within the loss window before the fault, or read after it",
            "acked_at IS NOT NULL",
            window="delivered_after_restart",
            since="acked_at",
        ),
        Exposure("sends", "durable sends that the connection outlived", "attempted AND durable AND NOT disconnected"),
        Exposure("confirmed", "confirmed sends", "confirmed"),
        Exposure("answered", "sends with an outcome", "answered"),
        Exposure("unanswered", "sends without an outcome", "unanswered"),
        Exposure("acknowledged", "messages whose acknowledgement left", "ack_sent_at IS NOT NULL"),
        Exposure("acknowledgements_confirmed", "acknowledgements the broker settled", "acked_at IS NOT NULL"),
        Exposure(
            "delivered_unacknowledged",
            "messages delivered to a consumer that never acknowledged them",
            "handed > 0 AND ack_sent_at IS NULL",
        ),
        Exposure(
            "delivered_after_acknowledge",
            "messages delivered after the last acknowledge of their session",
            "handed_after_acknowledge AND ack_sent_at IS NULL",
        ),
        Exposure("first_deliveries", "messages delivered for the first time", "fresh_at IS NOT NULL"),
        Exposure(
            "claimed_first",
            "messages claimed as first acquired by one link and given to another as well",
            "claims > 0 AND links_differ",
        ),
    )
}
"""Every exposure by its name; `Check.exposure` of a scenario is one of these."""


def check_names(used: Iterable[tuple[str, str]]) -> None:
    """Refuse names that the tables do not define.

    `used` are pairs of anomaly and exposure. Raises `CatalogueError`.
    """
    for anomaly, exposure in used:
        if anomaly not in ANOMALIES:
            raise CatalogueError(f"a scenario names the anomaly {anomaly!r}, which the judge does not define")
        if exposure not in EXPOSURES:
            raise CatalogueError(f"a scenario names the exposure {exposure!r}, which the judge does not define")
