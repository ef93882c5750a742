"""Offer a broker settings that it may refuse to start with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from conformance.adapters.interface import Adapter
from conformance.errors import LaunchError
from conformance.run.broker_pool import RunningBroker
from conformance.run.trial.jobs import offer_words


def offered(
    running: RunningBroker, adapter: Adapter, settings: Iterable[str]
) -> Iterator[tuple[str, Sequence[str] | None]]:
    """Start a broker that is down with each setting alone, and stop it; yield the words that it took, None if none.

    Raises `LaunchError` if it fails for another reason than the setting.
    """
    for setting in settings:
        words = offer_words(adapter, setting)
        try:
            running.start(more=words)
        except LaunchError:
            if running.node.target.exit_status != adapter.file.start.refused_status:
                raise
            yield setting, None
        else:
            running.broker.stop()
            yield setting, words
