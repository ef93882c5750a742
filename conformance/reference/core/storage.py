"""Where effects meet the journal: when they are stored, when they are applied, and when a peer has its answer."""

from __future__ import annotations

import functools
from collections.abc import Callable

from conformance.reference.core.effects import Effect
from conformance.reference.core.refusal import LIMIT, Refusal, Refused
from conformance.reference.honest import LAZY_S, Answered, Asked, Honest
from conformance.reference.settings import Settings
from conformance.reference.store.commit import Done, GroupCommit
from conformance.reference.store.records import Change, Committed, Record

_STORED = Answered.STORED
"""Python 3.11 takes 0.1 us to find a member of an enum by its name: this is needed for every message."""

_Add = Callable[[Record | None, Done, Callable[[str], None] | None], None]


class Storage:
    """Stores the effects of one broker as its settings ask, and as its behaviour says."""

    def __init__(self, settings: Settings, behaviour: Honest, commit: GroupCommit) -> None:
        self._behaviour = behaviour
        self._commit = commit
        self._adders: dict[Answered, _Add] = {
            Answered.STORED: commit.add,
            Answered.WRITTEN: commit.add_unsynced,
            Answered.NEVER_SYNCED: functools.partial(commit.add_unsynced, ever=False),
            Answered.AT_ONCE: commit.add_late,
            Answered.LAZY: lambda record, done, _: commit.add_lazy(record, done, LAZY_S),
        }
        acknowledgements = settings.sync_acknowledgements and settings.sync_non_transactional
        self._synced = {
            Asked.SEND: settings.sync_non_transactional,
            Asked.URGENT_SEND: settings.sync_non_transactional,
            Asked.COMMIT: settings.sync_transactional,
            Asked.ACKNOWLEDGEMENT: acknowledgements,
            None: acknowledgements,
        }

    def perform(
        self,
        effects: list[Effect],
        done: Done,
        asked: Asked | None,
        send: int = 0,
        *,
        refused: Refused | None = None,
        lazy: bool = False,
    ) -> None:
        """Stores the effects as one, then applies them in their order, and then calls `done`.

        `asked` is what is answered by it, `send` the number of sends so far. A `lazy` one is answered at once and
        stored `LAZY_S` later. Where the disk has no room the effects are undone, the last first, if there is somebody
        to be told by `refused`.
        """
        answered = self._behaviour.answered(asked, send) if asked is not None else _STORED
        records: tuple[Change, ...] = ()
        for effect in effects:
            records += effect.records

        def stored() -> None:
            for effect in effects:
                effect.apply()
            done()

        def failed(reason: str) -> None:
            for effect in reversed(effects):
                effect.undo()
            if refused is not None:
                refused(Refusal(LIMIT, reason))

        record = Committed(records) if len(records) > 1 else records[0] if records else None
        if lazy:
            self._commit.add_lazy(record, stored, LAZY_S)
            return
        if self._behaviour.covers_unstored and asked is Asked.SEND and send % 10 == 0:
            self._commit.add_slowly(record, stored, LAZY_S)
            return
        add = self._adders[answered] if self._synced[asked] else self._commit.add_early
        add(record, stored, None if refused is None else failed)
