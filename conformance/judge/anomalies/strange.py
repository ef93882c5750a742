"""What no broker may do whatever the claim is: it decides none, and allows no HOLDS."""

from __future__ import annotations

from conformance.judge.anomalies.model import Anomaly

STRANGE = (
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
