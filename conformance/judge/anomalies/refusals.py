"""What can become of a delivery that its consumer gave back."""

from __future__ import annotations

from conformance.judge.anomalies.model import Anomaly

REFUSALS = (
    Anomaly(
        "released_gone",
        "A released message that did not come again.",
        applies="refused_as = 'released' AND durable AND settled",
        offends="received_last_at <= refused_at",
        of="released messages",
        happened="gone",
        happens="takes a released message away",
    ),
    Anomaly(
        "failed_gone",
        "A message that was given back as failed, and did not come again.",
        applies="refused_as = 'failed' AND durable AND settled",
        offends="received_last_at <= refused_at",
        of="messages given back as failed",
        happened="gone",
        happens="takes a failed message away",
    ),
    Anomaly(
        "release_counted",
        "A released message whose next delivery, to the same consumer, carries a higher delivery count.",
        applies="refused_as = 'released' AND handed = 2 AND handed_on_one_link",
        offends="next_count > first_handed_count",
        of="released messages that came again",
        happened="with a higher delivery count",
        happens="counts a release",
    ),
    Anomaly(
        "failure_uncounted",
        "A message given back as failed whose next delivery, to the same consumer, carries no higher delivery count.",
        applies="refused_as = 'failed' AND handed = 2 AND handed_on_one_link",
        offends="next_count <= first_handed_count",
        of="failed messages that came again",
        happened="with the same delivery count",
        happens="does not count a failure",
    ),
    Anomaly(
        "failure_unmarked",
        "A message given back as failed whose next delivery, to the same consumer, is not marked as redelivered.",
        applies="refused_as = 'failed' AND handed = 2 AND handed_on_one_link",
        offends="NOT coalesce(next_marked, true)",
        of="failed messages that came again",
        happened="without the redelivered mark",
        happens="delivers one again without its mark",
    ),
    Anomaly(
        "undeliverable_again",
        "A message given back as undeliverable here that came again on the same link.",
        applies="refused_as = 'undeliverable'",
        offends="handed >= 2 AND handed_on_one_link",
        of="messages undeliverable on a link",
        happened="delivered there again",
        happens="delivers one there again",
    ),
    Anomaly(
        "rejected_again",
        "What became of a rejected message: it was delivered again.",
        applies="refused_as = 'rejected'",
        offends="received_last_at > refused_at",
        of="rejected messages",
        happened="delivered again from their queue",
    ),
    Anomaly(
        "refused_again",
        "What became of a refused message: it was delivered again.",
        applies="refused_at IS NOT NULL",
        offends="received_last_at > refused_at",
        of="refused messages",
        happened="delivered again from their queue",
    ),
)
