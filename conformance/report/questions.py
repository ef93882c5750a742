"""The six questions of the first screen, each answered by failure model, and the headline above them.

A cell rests on rows of verdicts alone: it counts them, and never judges. What is known of the version of a broker
stands beside it, whether or not this run has seen it.
"""

from __future__ import annotations

import dataclasses
import functools
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType

import msgspec

from conformance import paths
from conformance.claims import Kind
from conformance.counting import plural
from conformance.judge.anomalies import ANOMALIES
from conformance.judge.anomalies.fates import ACCOUNT
from conformance.judge.reasons import UNSHOWN, count_faults
from conformance.judge.rows import Judgement, Verdict, VerdictRow
from conformance.judge.rules import UNPLAYED
from conformance.records import RunRecord
from conformance.report.phrases import UNTRIED, settings_words
from conformance.scenario import Scenario
from conformance.scenario.faults import FAULTS, Cause

QUESTIONS: Mapping[str, frozenset[str]] = {
    "Are confirmed messages safe?": frozenset(
        """confirmed_before_sync confirmed_missing confirmed_though_sync_failed corrupt lost lost_immediate
        lost_in_range lost_silently lost_though_old lost_unacknowledged non_persistent_missing outcome_changed phantom
        receipt_untrue unanswered_absent unanswered_either_way unasked_missing""".split()
    ),
    "Do acknowledged messages stay away?": frozenset(
        """acknowledged_again acknowledged_before_sync acknowledgement_refused answered_acknowledgement
        came_otherwise_than_other covered_wrongly delivered_after_acknowledgement delivered_after_restart
        delivered_twice drained_twice not_exactly_one not_once out_of_order_refused processed_again
        processed_again_unlike_other refused_again rejected_again returned_after_close settled_again
        two_owners""".split()
    ),
    "Are transactions whole?": frozenset(
        """available_early available_undischarged committed_before_sync committed_missing committed_though_sync_failed
        half_applied lost_committed outcome_not_in_effect returned_after_commit rollback_refused
        rolled_back_before_sync transacted_acknowledgement transaction_torn undischarged_gone""".split()
    ),
    "Does it block and answer as promised?": frozenset(
        """acknowledge_returned acknowledge_waited acknowledged_after_processing acknowledged_at_all acknowledged_early
        acknowledged_in_bulk acknowledged_late acknowledged_lazily acknowledged_undelivered acknowledged_unhanded
        acknowledged_unreceived answered_afterwards answered_late answered_unreached answered_within_window
        asynchronous_send_waited blocked_early commit_returned denied event_for_several flag_differs flag_missing
        flag_set frames_of_acknowledgements
        immediate_waited not_each_passed over_prefetch over_window rates_of_delivery_modes rates_of_sending
        rollback_returned send_returned send_waited sent_ahead sooner_than_round_trip threshold_moved
        transacted_send_waited unanswered_send waited_for_timer window_stayed_shut""".split()
    ),
    "Does it recover and deliver everything?": frozenset(
        """came_back counted_at_first delivered_early delivered_expired failed_gone failure_uncounted failure_unmarked
        first_acquirer_twice gone gone_after_acknowledge many_unacknowledged not_alive not_recovered not_served
        outranked overlooked overtaken release_counted released_gone reordered_by_restart
        reordered_by_rollback retained_otherwise starved stuck undeliverable_again
        unmarked unselected""".split()
    ),
    "Does nothing leave silently?": frozenset(
        """confirmed_nowhere confirmed_without_queue expired_nowhere given_back_nowhere refusal_hidden refused_delivered
        refused_with_room set_aside_early unprocessed_gone unsent_gone""".split()
    ),
}
"""By question, the anomalies whose checks answer it. A test holds that each anomaly is in one of them."""
FIRST = next(iter(QUESTIONS))

MODELS: Mapping[str, frozenset[str]] = {
    cause.value: frozenset(
        (*(name for name, kind in FAULTS.items() if kind.cause is cause), *(["none"] if cause is Cause.NOTHING else []))
    )
    for cause in Cause
}
"""By failure model, the faults of scenarios (`VerdictRow.fault`) that are it."""

_SELDOM = (Cause.SHORTAGE, Cause.DAMAGE, Cause.NODES, Cause.NETWORK)

NAMED = 3
"""So many undecided scenarios are named, and the others are counted."""

_ENDS = (Cause.KILL, Cause.DISK, Cause.POWER)
NOT_STORED = ("confirmed_before_sync", "confirmed_though_sync_failed")
"""Messages that were confirmed and are not on the disk, so that a power loss would lose them."""
LOST = "lost"
_NOUNS: Sequence[tuple[str, Sequence[str]]] = (
    ("wrong", ()),
    ("came back", ("again", "delivered", "returned", "twice", "once")),
    ("broken", ("",)),
    ("wrong", ()),
    ("failed", ("",)),
    ("gone", ("gone", "nowhere")),
)
"""For each question the word for its anomalies whose names have one of these parts; any other is `wrong`."""

FAIR, STRONG = 10, 59
"""A pass of fewer faults is weak, of fewer than `STRONG` fair. After 59, at most 5 % of the faults could still fail."""
_JUDGED = (Verdict.VIOLATED, Verdict.HARNESS_ERROR, Verdict.INCONCLUSIVE, Verdict.HOLDS)
_OPEN = (Verdict.HARNESS_ERROR, Verdict.INCONCLUSIVE)
_WORDS = {
    Verdict.VIOLATED: "fails",
    Verdict.HARNESS_ERROR: "error of the suite",
    Verdict.INCONCLUSIVE: "undecided",
    Verdict.HOLDS: "holds",
    Verdict.WITNESSED: "allowed, and seen",
    Verdict.NOT_WITNESSED: "allowed, not seen",
    Verdict.OBSERVED: "observed",
    Verdict.NOT_TRIED: "not tried",
}


@dataclasses.dataclass(frozen=True)
class Cell:
    """What rows say together: the worst verdict, and in how many of how many faults (or trials) it was seen.

    Permissions and observations count only where nothing was judged. What was tried and is not promised is OBSERVED:
    then the counts are of failures. `counts` has (fault, seen, all) of each fault, and none where nothing could fail.
    `noun` is what is counted, `offences` how many messages. `partly`: other scenarios of this cell were left out, so
    its answer rests on a part of what the suite has.
    """

    verdict: Verdict
    counts: tuple[tuple[str, int, int], ...] = ()
    noun: str = ""
    offences: int = 0
    partly: bool = False

    @property
    def word(self) -> str:
        """The verdict in a word; empty if there was nothing to try."""
        return "not promised" if self.verdict is Verdict.OBSERVED and self.counts else _WORDS.get(self.verdict, "")

    @property
    def strength(self) -> str:
        """How strong the evidence of a pass is, by its number of faults; empty for any other verdict."""
        faults = sum(every for _, _, every in self.counts) if self.verdict is Verdict.HOLDS else 0
        return "" if not faults else "weak" if faults < FAIR else "fair" if faults < STRONG else "strong"

    @property
    def shown(self) -> bool:
        """Whether something was tried."""
        return self.verdict not in UNTRIED

    @property
    def fact(self) -> str:
        """`0 lost in 42 kills`, `lost in 3 of 15 kills`; the word if nothing was counted."""
        if not self.counts:
            return self.word
        if self.verdict in (Verdict.HOLDS, Verdict.OBSERVED) and not (self.verdict is Verdict.OBSERVED and self.seen):
            return f"0 {self.noun} in {self.tried}"
        return f"{_WORDS[self.verdict] if self.verdict in _OPEN else self.noun} in {self.seen}"

    @property
    def note(self) -> str:
        """What stands beside the fact: how strong it is, and whether it is promised and was tried in full."""
        unpromised = self.word if self.verdict is Verdict.OBSERVED and self.counts else ""
        return ", ".join(filter(None, [self.strength, unpromised, "partly tried" if self.partly else ""]))

    @property
    def text(self) -> str:
        """The fact with its note: `0 lost in 7 kills (weak, partly tried)`."""
        return f"{self.fact} ({self.note})" if self.note else self.fact

    @property
    def share(self) -> str:
        """`3 of 15 kills`, `0 of 42 kills`: in how many of the faults that took effect something was wrong."""
        wrong = self.seen if self.verdict in (Verdict.VIOLATED, Verdict.OBSERVED) else ""
        return (wrong or f"0 of {self.tried}") if self.counts else self.word

    @property
    def tried(self) -> str:
        """`42 kills`, or `71 faults` of several kinds."""
        total = sum(every for _, _, every in self.counts)
        kinds = {count_faults(fault, total) for fault, _, _ in self.counts}
        return kinds.pop() if len(kinds) == 1 else f"{total:,} faults"

    @property
    def seen(self) -> str:
        """`3 of 5 full disks and 1 of 15 kills`: in which faults it was seen."""
        return listed([f"{count:,} of {count_faults(fault, every)}" for fault, count, every in self.counts if count])


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """A finding, or a bug that a version is known to have (`fixtures/findings/findings.toml`, `fixtures/bugs`).

    `page` is the folder of `fixtures` whose README has it, `name` the row there. A check of one of the `claims` in one
    of the `scenarios` shows it, with these `settings`; without claims none does. An empty protocol or client means any.
    `remedy` says what to set or do against it, and `link` is where it is described.
    """

    page: str
    name: str
    title: str
    adapter: str
    versions: tuple[str, ...]
    protocol: str = ""
    client: str = ""
    settings: dict[str, str | int | bool] = {}
    claims: tuple[str, ...] = ()
    scenarios: tuple[str, ...] = ()
    remedy: str = ""
    link: str = ""

    def concerns(self, run: RunRecord) -> bool:
        """Whether it is about the product and version of a run, over its protocol and client."""
        of_run = (run.adapter, self.protocol and run.protocol, self.client and run.vendor)
        return of_run == (self.adapter, self.protocol, self.client) and run.version in self.versions

    def is_shown_by(self, row: VerdictRow) -> bool:
        """Whether the check of this row shows it; the checks of every trial judge its scenarios too."""
        return row.claim in self.claims and (row.standing or row.scenario in self.scenarios)

    def anomalies(self, scripts: Mapping[str, Scenario]) -> set[str]:
        """Return the anomalies of the checks that show it."""
        checks = [item.decides for item in scripts.values() if item.standing or item.id in self.scenarios]
        return {decides[claim].anomaly for decides in checks for claim in self.claims if claim in decides}

    @property
    def text(self) -> str:
        """`a new queue is forgotten (queue_type=quorum)`."""
        return f"{self.title} ({settings_words(self.settings)})" if self.settings else self.title


@functools.cache
def problems() -> tuple[Problem, ...]:
    """Return the findings, and the bugs that a version was seen to have."""
    table = tomllib.loads((paths.fixtures() / "findings" / "findings.toml").read_text("utf-8"))
    found = [{**entry, "page": "findings", "name": entry["script"]} for entry in table["finding"]]
    for path in sorted((paths.fixtures() / "bugs").glob("*.toml")):
        bug = tomllib.loads(path.read_text("utf-8"))
        if "not_shown" not in bug:
            remedy = f"Version {bug['good']} does not do it." if "good" in bug else ""
            found.append({"remedy": remedy, **bug, "page": "bugs", "name": path.name, "versions": [bug["bad"]]})
    return tuple(msgspec.convert(found, list[Problem]))


def known_problems(run: RunRecord) -> list[Problem]:
    """Return what is known of the product and version of a run, over its protocol and client."""
    return [one for one in problems() if one.concerns(run)]


@dataclasses.dataclass(frozen=True)
class Line:
    """One question, or claim: cells in the order of `MODELS`, that of the checks of every trial, that of all rows.

    `known` are the known problems of this version whose checks belong to it.
    """

    name: str
    cells: tuple[Cell, ...]
    everywhere: Cell | None
    whole: Cell
    rows: tuple[VerdictRow, ...]
    known: tuple[Problem, ...] = ()

    def below(self, columns: Collection[str]) -> list[Cell]:
        """Return the cells of these failure models, in the order of `MODELS`."""
        return [cell for model, cell in zip(MODELS, self.cells, strict=True) if model in columns]


@dataclasses.dataclass(frozen=True)
class LeftOut:
    """A check that a run could have made and did not, and the fault of its scenario."""

    claim: str
    anomaly: str
    fault: str


def left_out(judgement: Judgement, scenarios: Mapping[str, Scenario]) -> list[LeftOut]:
    """Return the checks that the selection left out, and those of faults that this machine cannot inject.

    What the broker cannot be given (a kind of queue, a setting, a second node) is not among them: no run could try it.
    """
    run, unable = judgement.run, judgement.run.unable.keys() - MODELS[Cause.NODES] - MODELS[Cause.NETWORK]
    found = [
        LeftOut(row.claim, row.anomaly, row.fault or "none")
        for row in judgement.rows
        if row.verdict is Verdict.NOT_TRIED and (row.reason in UNPLAYED or row.fault in unable)
    ]
    for item in (scenarios[name] for name in run.left_to_thorough if name in scenarios):
        names = [name for fault in item.faults for name in fault.names] or ["none"]
        found += [LeftOut(claim, check.anomaly, name) for claim, check in item.decides.items() for name in names]
    return found


def question_of(anomaly: str) -> str:
    """Return the question that a check of this anomaly answers, empty without one."""
    return next((asks for asks, anomalies in QUESTIONS.items() if anomaly in anomalies), "")


def answers(asks: str, anomaly: str) -> bool:
    """Whether a check answers this question. A commit confirms its messages, so their loss answers the first too."""
    return anomaly in QUESTIONS[asks] or (asks == FIRST and is_loss(anomaly))


def noun_of(anomaly: str) -> str:
    """Return the word for one anomaly: `lost`, `came back`."""
    if is_loss(anomaly):
        return LOST
    for (noun, parts), anomalies in zip(_NOUNS, QUESTIONS.values(), strict=True):
        if anomaly in anomalies and any(part in anomaly for part in parts):
            return noun
    return "wrong"


def is_loss(anomaly: str) -> bool:
    """Whether it is the loss of confirmed messages."""
    return anomaly.startswith("lost") or anomaly in NOT_STORED


def is_unpromised(row: VerdictRow) -> bool:
    """Whether it is of an expectation, and not about damage to stored data, which no broker can keep."""
    return _is_expectation(row) and row.fault not in MODELS[Cause.DAMAGE]


def _is_expectation(row: VerdictRow) -> bool:
    return row.verdict is Verdict.OBSERVED and row.kind != Kind.OBSERVATION


def is_failed(row: VerdictRow) -> bool:
    """Whether so many trials have shown its anomaly as a violation of it needs."""
    return row.offended >= (ANOMALIES[row.anomaly].trials if row.anomaly else 1)


def cell(rows: Iterable[VerdictRow], asks: str = "") -> Cell:
    """Return what rows say together, those of one question if `asks` is it.

    What is not promised and was seen to fail stands before what holds. Counter-example: Mosquitto 2.0.11 lost all of
    369,874 confirmed messages in its kills, which no document forbids, and the cell said "0 wrong in 18 faults".
    """
    open_ = _open(rows)
    tried = [row for row in open_ if not row.reason.endswith(UNSHOWN)]
    expected = list(filter(_is_expectation, tried))
    for word in _JUDGED:
        if word is Verdict.HOLDS and any(map(is_failed, expected)):
            return _counted(Verdict.OBSERVED, expected, asks)
        if any(row.verdict is word for row in open_):
            return _counted(word, [row for row in open_ if row.verdict in _JUDGED], asks)
    found = next((word for word in _WORDS if any(row.verdict is word for row in tried)), None)
    if found is None:
        return Cell(Verdict.NOT_TRIED if open_ and not tried else Verdict.NOT_APPLICABLE)
    if found is not Verdict.OBSERVED:
        return Cell(found)
    return _counted(found, expected, asks)


def _open(rows: Iterable[VerdictRow]) -> list[VerdictRow]:
    """Leave out what a stronger scenario has decided, unless there is nothing else."""
    every = list(rows)
    return [row for row in every if not row.decided_by] or every


def _counted(word: Verdict, judged: Sequence[VerdictRow], asks: str) -> Cell:
    """Count the faults of each scenario once: its claims rest on the same. Of the first question losses come first.

    A pass counts trials without a fault only where there are no others.
    """
    seen = [row for row in judged if row.verdict is word]
    nouns = {noun_of(row.anomaly) for row in [row for row in seen if row.offended] or seen}
    if asks == FIRST and LOST in nouns:
        judged, nouns = [row for row in judged if is_loss(row.anomaly)], {LOST}
    scenarios: dict[str, list[VerdictRow]] = {}
    for row in judged:
        scenarios.setdefault(row.scenario, []).append(row)
    sums: dict[str, tuple[int, int]] = {}
    offences = 0
    for rows in scenarios.values():
        seen = [row for row in rows if row.verdict is word]
        count = max((row.faults if word in (*_OPEN, Verdict.HOLDS) else row.offended_faults for row in seen), default=0)
        before, every = sums.get(rows[0].fault or "none", (0, 0)), max(row.faults for row in rows)
        sums[rows[0].fault or "none"] = (before[0] + count, before[1] + every)
        offences += max((row.offences for row in seen), default=0)
    faults = [fault for fault in sums if sums[fault][1] and fault not in MODELS[Cause.NOTHING]]
    if not faults or (word is not Verdict.HOLDS and any(count for count, _ in sums.values())):
        faults = [fault for fault in sums if sums[fault][1]]
    ordered = sorted(faults, key=lambda fault: _ORDER.get(fault, 0))
    noun = nouns.pop() if len(nouns) == 1 else "broken" if nouns == {LOST, "broken"} else "wrong"
    return Cell(word, tuple((fault, *sums[fault]) for fault in ordered), noun, offences)


_ORDER = {fault: place for place, faults in enumerate(MODELS.values()) for fault in sorted(faults)}


def line(
    name: str, rows: Iterable[VerdictRow], left: Iterable[LeftOut] = (), known_problems: Iterable[Problem] = ()
) -> Line:
    """Return the line of these rows; `left` are the checks of the same question, or claim, that were left out."""
    every, untried = tuple(rows), {one.fault for one in left}
    apart = [row for row in every if not row.standing]
    everywhere = [row for row in every if row.standing and row.verdict not in UNTRIED]
    cells = [
        _marked(cell((row for row in apart if (row.fault or "none") in faults), name), untried & faults)
        for faults in MODELS.values()
    ]
    whole, alone = cell(every, name), cell(apart, name)
    whole = alone if alone.verdict is whole.verdict and alone.noun == whole.noun else whole
    shared = cell(everywhere, name) if everywhere else None
    return Line(name, tuple(cells), shared, _marked(whole, untried), every, tuple(known_problems))


def _marked(found: Cell, untried: Collection[str]) -> Cell:
    return dataclasses.replace(found, partly=found.shown and bool(untried))


def lines(judgement: Judgement, scenarios: Mapping[str, Scenario] = MappingProxyType({})) -> list[Line]:
    """Return the six questions with their cells; `scenarios` are all, also those that were left to `--thorough`."""
    left, of_version = left_out(judgement, scenarios), known_problems(judgement.run)
    return [
        line(
            asks,
            (row for row in judgement.rows if answers(asks, row.anomaly)),
            (one for one in left if answers(asks, one.anomaly)),
            (one for one in of_version if asks in map(question_of, one.anomalies(scenarios))),
        )
        for asks in QUESTIONS
    ]


def models(judgement: Judgement) -> list[str]:
    """Return the failure models with a column: those of `_SELDOM` only where they were tried."""
    tried = {row.fault for row in judgement.rows if row.trials}
    return [model for model, faults in MODELS.items() if model not in _SELDOM or tried & faults]


def sentence(judgement: Judgement) -> str:
    """Say in one sentence whether confirmed messages were safe, in the figures of the cells of the first question.

    `Artemis 2.56.0 lost no confirmed message in 71 faults.` What is missing and undecided follows.
    """
    product, first = judgement.run.product, lines(judgement)[0]
    losses, whole = [row for row in _open(first.rows) if is_loss(row.anomaly)], first.whole
    undecided = [row for row in losses if row.verdict is Verdict.INCONCLUSIVE]
    doubtful = {row.scenario for row in losses if row.verdict in (Verdict.INCONCLUSIVE, Verdict.HARNESS_ERROR)}
    kept = [row for row in losses if row.verdict is Verdict.HOLDS and row.scenario not in doubtful]
    if whole.verdict is Verdict.VIOLATED and whole.noun == LOST:
        total = sum(judgement.account.values())
        of = f" of {total:,}" if total >= whole.offences else ""
        return f"{product} lost {whole.offences:,}{of} confirmed messages, in {whole.seen}."
    tried = line(FIRST, kept if whole.verdict is Verdict.HOLDS else [row for row in kept if not row.standing]).whole
    unpromised = cell([row for row in losses if is_unpromised(row)], FIRST)
    if unpromised.offences and not tried.counts:
        said = f"{product} lost {unpromised.offences:,} confirmed messages, in {unpromised.seen}: {_UNPROMISED}."
    elif unpromised.offences:
        said = f"{product} lost no confirmed message in {tried.tried} where it promises that, and "
        said += f"{unpromised.offences:,} in {unpromised.seen}: {_UNPROMISED}."
    elif tried.counts:
        said = f"{product} lost no confirmed message in {tried.tried}."
    elif any(row.verdict not in UNTRIED for row in first.rows):
        said = f"Whether {product} loses confirmed messages was not decided."
    else:
        said = f"Whether {product} loses confirmed messages was not tried."
    return " ".join([said, *_missing(undecided)])


_UNPROMISED = "no document promises to keep them there"
_FAILURES = (
    "Confirmed messages were not safe",
    "Acknowledged messages did not stay away",
    "Transactions were not whole",
    "It did not block and answer as promised",
    "It did not recover and deliver everything",
    "Messages left silently",
)


def failures(judgement: Judgement, claims: Collection[str]) -> list[str]:
    """Say for each question which of these violated claims answer it, and in how many faults; without lost messages."""
    found = []
    for said, one in zip(_FAILURES, lines(judgement), strict=True):
        bad = [row for row in one.rows if row.verdict is Verdict.VIOLATED and row.claim in claims]
        bad = [row for row in bad if not is_loss(row.anomaly)]
        if names := list(dict.fromkeys(row.claim for row in bad)):
            whole = one.whole if one.whole.noun != LOST else cell(bad)
            found.append(f"{said} in {whole.seen} ({', '.join(_cut(names, 'claim'))}).")
    return found


def limits(judgement: Judgement) -> str:
    """Say what the sentence about confirmed messages does not cover; empty if nothing is missing.

    A scenario that decided nothing is named: a pass of another one says nothing about it. Those in which confirmed
    messages are missing are in the sentence itself.
    """
    first = lines(judgement)[0]
    rows = [row for row in _open(first.rows) if is_loss(row.anomaly)]
    decided = [row for row in rows if row.verdict in (Verdict.VIOLATED, Verdict.HOLDS)]
    tried = {row.fault for row in decided if row.faults and not row.standing}
    undecided = [row for row in rows if row.verdict is Verdict.INCONCLUSIVE and not row.decided_by]
    left = [f"if {name}" for name in _ENDS if not MODELS[name] & tried] if decided else []
    clean = dict.fromkeys(row.scenario for row in undecided if not row.offended)
    left += _cut([name for name in clean if name not in {row.scenario for row in undecided if row.offended}])
    parts = [f"Not decided: {', '.join(left)}."] if left else []
    return " ".join([*parts, *_queues(judgement, [row for row in decided if not row.standing])])


def _missing(undecided: Iterable[VerdictRow]) -> list[str]:
    """Name the undecided scenarios in which confirmed messages are missing, with how often; empty without one."""
    missing: dict[str, VerdictRow] = {}
    for row in sorted((row for row in undecided if row.offended), key=lambda row: -row.offended_faults):
        missing.setdefault(row.scenario, row)
    found = [
        f"{name} ({row.offended_faults} of {count_faults(row.fault, row.faults)})" for name, row in missing.items()
    ]
    return [f"Undecided, with confirmed messages missing: {', '.join(_cut(found))}."] if found else []


def _cut(names: Sequence[str], noun: str = "scenario") -> list[str]:
    """Name the first ones and count the others."""
    return [*names[:NAMED], *([f"{plural(len(names) - NAMED, 'more ' + noun)}"] if len(names) > NAMED else [])]


def account(judgement: Judgement) -> str:
    """Say in which accounts the confirmed messages of the run ended, those of its controls left out; empty without one.

    `Of 9 confirmed messages 7 were delivered and acknowledged, 1 is undecided and 0 unexplained.`
    """
    sums, always = judgement.account, ("undecided", "unexplained")
    named = [(sums.get(name, 0), words) for name, words in ACCOUNT.items() if sums.get(name) or name in always]
    found = [f"{count:,} {words}" for count, words in named]
    return f"Of {sum(sums.values()):,} confirmed messages: {listed(found)}." if sums else ""


def opening(judgement: Judgement) -> list[str]:
    """Return what is said between the headline and the questions: what is not decided, and the account."""
    return [text for text in (limits(judgement), account(judgement)) if text]


_KINDS = {"created": "queues that clients make by naming them", "subscribed": "durable subscriptions"}
_DECLARED = "declared queues"


def _queues(judgement: Judgement, rows: Iterable[VerdictRow]) -> list[str]:
    """Name the kinds of queues that these rows are about; empty if only declared queues of a stock broker were tried.

    A user's own file may be about one kind only, so the sentence must not seem to speak of all.
    """
    scenarios = {row.scenario for row in rows}
    options = [{*trial.queue} for trial in judgement.trials if trial.scenario in scenarios and trial.arm == "subject"]
    kinds = [next((word for name, word in _KINDS.items() if name in each), _DECLARED) for each in options]
    found = [word for word in (_DECLARED, *_KINDS.values()) if word in kinds]
    named = found and (judgement.run.configuration or set(found) - {_DECLARED})
    return [f"Tried: {listed(found)}."] if named else []


def listed(parts: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))
