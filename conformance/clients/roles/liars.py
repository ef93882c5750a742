"""Roles of session liars over every protocol: each is wrong in one way, which `modes.SESSION_LIARS` says."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

from typing_extensions import override

from conformance.clients.roles.consumer import ConsumerRole
from conformance.clients.roles.publisher import PublisherRole
from conformance.clients.session import Received, SendOutcome
from conformance.history import message_id

_OVER = 10
"""How many sends one of them has too many."""


class _IgnoresItsWindow(PublisherRole):
    @override
    def _window_size(self) -> int:
        return self.step.window + _OVER


class _BlocksAtHalf(PublisherRole):
    @override
    def _window_size(self) -> int:
        return self.step.window // 2


class _NeverReopensItsWindow(PublisherRole):
    @override
    def _send_what_fits(self, most: float = math.inf) -> None:
        if not self.waiting.has_begun:
            super()._send_what_fits(most)


class _ReportsRanges(PublisherRole):
    @override
    def _heard(self, outcome: SendOutcome) -> SendOutcome:
        first = message_id(self.job.work.producer, 1)
        return dataclasses.replace(outcome, first=first, last=outcome.message)


class _AcknowledgesPrefetched(ConsumerRole):
    @override
    def _covered(self) -> list[Received]:
        return [*self.open, *self.session.incoming]


class _ForgetsAcknowledgements(ConsumerRole):
    @override
    def _send_acknowledgement(self, covered: Sequence[Received]) -> None:
        pass


PUBLISHERS: Mapping[str, type[PublisherRole]] = {
    "ignores-its-window": _IgnoresItsWindow,
    "blocks-at-half-its-window": _BlocksAtHalf,
    "never-reopens-its-window": _NeverReopensItsWindow,
    "reports-ranges": _ReportsRanges,
}

CONSUMERS: Mapping[str, type[ConsumerRole]] = {
    "acknowledges-prefetched": _AcknowledgesPrefetched,
    "forgets-acknowledgements": _ForgetsAcknowledgements,
}
