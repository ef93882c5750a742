"""Read the catalogue: what vendors and standards say about acknowledgements, one sentence a claim.

`suites/claims/` holds one YAML file per source, and `catalogue.yaml`, which defines every term that they use. A claim
is data with an address; nothing here says how a product behaves.
"""

from __future__ import annotations

import enum
import functools
import operator
import pathlib
import re
import urllib.parse
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Literal

import msgspec
import yaml

from conformance import paths
from conformance.errors import CatalogueError, UsageError, matching
from conformance.protocols import VENDOR_SURFACES, WIRES

Value = bool | int | str

Evidence = Literal["absence", "return", "delay", "answer", "aside"]
"""The evidence of a check: no delivery, one more, a late one, a send without an answer, or a message set aside."""


class Kind(enum.StrEnum):
    """The kind of a claim, which decides the verdicts that it can get (catalogue.yaml, `kinds`)."""

    SAFETY = "safety"
    LIVENESS = "liveness"
    TIMING = "timing"
    DEFAULT = "default"
    API = "api"
    PERMISSION = "permission"
    OBSERVATION = "observation"


class Scope(enum.StrEnum):
    """The products that a claim binds: all, or those that the document is about."""

    COMMON = "common"
    PROFILE = "profile"


class Subject(enum.StrEnum):
    """Whose behaviour a claim is about; only `BROKER` counts for or against a broker."""

    BROKER = "broker"
    VENDOR_CLIENT = "vendor-client"
    SESSION = "session"


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The address of a sentence: its document, section and opening words.

    `document` is the number of a shared document, or `public`, and then `title` and `vendor` name it. It is `suite`
    for an expectation, which cites no document and has no other field.
    """

    document: str
    section: str = ""
    sentence: str = ""
    elided: bool = False
    also: tuple[str, ...] = ()
    title: str = ""
    vendor: str = ""


SUITE = "suite"
"""The `document` of an expectation: a claim of this suite that no document makes."""


class CatalogueControl(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A known failure of the claim: one product setting, or one liar."""

    setting: str = ""
    liar: str = ""


class Claim(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One atomic sentence about acknowledgement behaviour; `catalogue.yaml` defines each field.

    `checks` are the anomalies of the judge that falsify or witness it. With its faults, modes, surfaces and `ways` they
    say which scenarios decide it (`scenario.load`). A claim without checks says in `untried` why, with the date.
    """

    id: str
    source: Source
    says: str
    kind: Kind
    scope: Scope
    subject: Subject
    modes: tuple[str, ...]
    faults: tuple[str, ...]
    surfaces: tuple[str, ...]
    falsified_by: str
    checks: tuple[str, ...] = ()
    ways: tuple[str, ...] = ()
    untried: str = ""
    basis: str = ""
    binds: tuple[str, ...] = ()
    when: dict[str, Value] = {}
    capabilities: tuple[str, ...] = ()
    needs: str = ""
    control: CatalogueControl | None = None
    note: str = ""
    reason: str = ""
    always_judged: bool = False
    documented: bool = False

    @property
    def judged(self) -> bool:
        """Whether the claim can be violated; permissions are witnessed, observations reported."""
        return self.kind not in (Kind.PERMISSION, Kind.OBSERVATION)

    @property
    def of_profile(self) -> bool:
        """Whether only a profile of the bundled broker can be tried by it, and no product."""
        return set(self.surfaces) == {"reference"}

    @property
    def of_disk(self) -> bool:
        """Whether it speaks of what is on the disk, so that only a fault there decides it."""
        return self.needs == "disk"

    @property
    def is_expectation(self) -> bool:
        """Whether the suite itself makes the claim, for its `reason`, without a document."""
        return self.source.document == SUITE

    def gets_verdict(self, required: Collection[str]) -> bool:
        """Return whether a run that requires these claims can find this one violated.

        An expectation is only observed, unless the user requires it or the catalogue says `always_judged`, or
        `documented`: a capability of the claim says that the documentation of the broker makes it.
        """
        promised = not self.is_expectation or self.always_judged or self.documented
        return self.judged and (promised or self.id in required)


class Exclusion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A policy of a queue: the settings that turn it on, and what the queue then does (`says`).

    `excuses` are kinds of evidence that then accuse no broker (`Anomaly.rests_on`). Claims that rest on them are not
    promised; if `undecided`, they are judged, and a violation is INCONCLUSIVE.
    """

    where: dict[str, Value]
    says: str
    excuses: tuple[Evidence, ...] = ("absence",)
    undecided: bool = False


class Catalogue(msgspec.Struct, frozen=True):
    """Every claim by id, and the definitions of their terms."""

    claims: dict[str, Claim]
    documents: dict[str, dict[str, str]]
    public_documents: list[dict[str, str]]
    definitions: dict[str, str]
    faults: dict[str, str]
    surfaces: dict[str, str]
    capabilities: dict[str, str]
    settings: dict[str, str]
    exclusions: tuple[Exclusion, ...] = ()

    def claim(self, claim_id: str) -> Claim:
        """Return the claim of that id; raises `UsageError` with the closest one."""
        if claim_id not in self.claims:
            raise UsageError.unknown("claim", claim_id, self.claims)
        return self.claims[claim_id]

    def document_title(self, claim: Claim) -> str:
        """Return the title under which a report groups the claim."""
        if claim.is_expectation:
            return "Expectations of this suite"
        entry = self._document(claim.source)
        return f"{entry['vendor']}: {entry['title']}"

    def url(self, claim: Claim) -> str:
        """Return the address of the claim's sentence in its document, as a text fragment; empty for an expectation."""
        if claim.is_expectation:
            return ""
        opening = urllib.parse.quote(claim.source.sentence.removesuffix("...").strip(), safe="")
        return f"{self._document(claim.source)['url']}#:~:text={opening.replace('-', '%2D')}"

    @property
    def untried(self) -> dict[str, str]:
        """By the id of each claim that no scenario decides, the reason with its date."""
        return {claim.id: claim.untried for claim in self.claims.values() if claim.untried}

    def _document(self, source: Source) -> dict[str, str]:
        """Return the entry of a document of the catalogue: a shared one, or a public one by its title."""
        if source.document == "public":
            return next(one for one in self.public_documents if one["title"] == source.title)
        return self.documents[source.document]


@functools.cache
def load(folder: pathlib.Path | None = None) -> Catalogue:
    """Read and validate all claims below `folder` (default: the suite's own).

    Raises `CatalogueError` if a field is unknown, an id occurs twice, or `catalogue.yaml` does not define a term.
    """
    folder = folder or paths.suites() / "claims"
    vocabulary = _yaml(folder / "catalogue.yaml")
    claims: dict[str, Claim] = {}
    for path in sorted(folder.glob("*.yaml")):
        if path.name == "catalogue.yaml":
            continue
        for record in _yaml(path)["claims"]:
            try:
                claim = msgspec.convert(record, Claim)
            except msgspec.ValidationError as error:
                raise CatalogueError(f"{path.name}: {record.get('id', '?')}: {error}") from error
            if claim.id in claims:
                raise CatalogueError(f"{path.name}: {claim.id} occurs twice")
            claims[claim.id] = claim
    words_of = {key: vocabulary[key] for key in Catalogue.__struct_fields__ if key not in ("claims", "exclusions")}
    exclusions = msgspec.convert(vocabulary["exclusions"], tuple[Exclusion, ...])
    catalogue = Catalogue(claims, **words_of, exclusions=exclusions)
    _check_words(catalogue)
    return catalogue


def _yaml(path: pathlib.Path) -> Any:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml: 0.1 s for the catalogue instead of 1.5 s
    with path.open(encoding="utf-8") as stream:
        return yaml.load(stream, loader)  # noqa: S506 - both are safe loaders


def _check_words(catalogue: Catalogue) -> None:
    for claim in catalogue.claims.values():
        for field, used, known in (
            ("faults", claim.faults, catalogue.faults),
            ("surfaces", claim.surfaces, catalogue.surfaces),
            ("capabilities", claim.capabilities, catalogue.capabilities),
            ("when", claim.when, catalogue.settings),
        ):
            for word in used:
                if word not in known:
                    raise CatalogueError(f"{claim.id}: {field} names {word!r}, which catalogue.yaml does not define")
        if (claim.scope is Scope.PROFILE) != bool(claim.binds):
            raise CatalogueError(f"{claim.id}: exactly profile claims have binds")
        if claim.is_expectation != bool(claim.reason):
            raise CatalogueError(f"{claim.id}: exactly claims whose source document is {SUITE!r} have a reason")
        if claim.is_expectation == bool(claim.source.section and claim.source.sentence):
            raise CatalogueError(f"{claim.id}: source needs section and sentence, unless its document is {SUITE!r}")
        if bool(claim.checks) == bool(claim.untried):
            raise CatalogueError(f"{claim.id}: a claim has checks, or else `untried` says why no scenario decides it")
        if (claim.always_judged or claim.documented) and not claim.is_expectation:
            raise CatalogueError(f"{claim.id}: only an expectation has always_judged or documented")
    for exclusion in catalogue.exclusions:
        if unknown := exclusion.where.keys() - catalogue.settings:
            raise CatalogueError(f"exclusions names {unknown.pop()!r}, which catalogue.yaml does not define")


_COMPARE: dict[str, Callable[[int, int], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}


STORAGE = frozenset(
    {"data_sync", "persistence", "sync_acknowledgements", "sync_non_transactional", "sync_transactional"}
)
"""The settings that can weaken a promise about storage: `true` is the strict value of each."""
STORED = "confirm_means_stored"
"""The capability that a broker's file declares from its documentation. Without it a loss is reported, not violated."""


def assumed_settings(when: Mapping[str, Value], values: Mapping[str, Value]) -> tuple[str, ...]:
    """Return the settings of these conditions that the broker's file does not describe; they are assumed to be strict.

    A condition that needs the strict value of such a setting is met. Counter-example: a file without any `[settings.*]`
    whose broker lost every confirmed message, and nothing was violated because "the product has no setting
    persistence". A file can describe a weak setting: `fixed`, with the weak value as its `default`.

    Only the strict value of a storage setting is assumed. A permission needs the weak value (`sync_transactional:
    false`), and a missing setting permits nothing. A default (`absent`) is about a key that a product has. A window, a
    prefetch and whether a call waits are settings of a client or a session: the script or the client's file has them.

    >>> assumed_settings({"persistence": True, "sync_transactional": False, "prefetch": ">0"}, {})
    ('persistence',)
    """
    return tuple(name for name, wanted in when.items() if name in STORAGE and wanted is True and name not in values)


def unmet(when: Mapping[str, Value], values: Mapping[str, Value], absent: Collection[str]) -> str:
    """Return the first condition that the effective settings do not meet, in words; empty if all are met.

    `values` maps a setting to its effective value, `absent` names those whose key is not in the configuration. A
    setting that the product does not have meets no condition, unless its strict value is `assumed`.

    >>> unmet({"sync": True}, {"sync": False}, ())
    'sync is false, the claim needs true'
    >>> unmet({"window": ">0"}, {"window": 5}, ())
    ''
    """
    silent = assumed_settings(when, values)
    for name, wanted in when.items():
        if name in silent or (wanted == "absent" and name in absent):
            continue
        if name not in values:
            return f"the product has no setting {name}"
        if wanted == "absent":
            return f"{name} is set, the claim is about its absence"
        if not _meets(wanted, values[name]):
            return f"{name} is {_shown(values[name])}, the claim needs {_shown(wanted)}"
    return ""


DESTINATIONS = ("dead_letter_destination", "expiry_destination")
"""The settings that name a queue for messages that their own queue discards."""


def in_force(exclusions: Iterable[Exclusion], values: Mapping[str, Value]) -> Iterator[tuple[Exclusion, str]]:
    """Yield each exclusion that these effective settings turn on, with words that name the settings.

    A policy that the broker's file does not describe is off.
    """
    for exclusion in exclusions:
        if not unmet(exclusion.where, values, ()):
            named = ", ".join(f"{name} is {_shown(values[name]) or 'empty'}" for name in exclusion.where)
            yield exclusion, f"{named}: {exclusion.says}"


def set_aside(exclusions: Iterable[Exclusion], values: Mapping[str, Value]) -> tuple[str, ...]:
    """Return the queues to which these effective settings can move a message of a trial instead of discarding it."""
    without = {name: "" for name in DESTINATIONS if name in values}
    bare = {**values, **without}
    used = [exclusion.where for exclusion in exclusions if not unmet(exclusion.where, bare, ())]
    return tuple(
        dict.fromkeys(str(values[name]) for where in used for name in without if name in where and values[name])
    )


def _meets(wanted: Value, actual: Value) -> bool:
    between = re.fullmatch(r"(\d+)\.\.(\d+)", str(wanted))
    if between:
        return int(between[1]) <= int(actual) <= int(between[2])
    match = re.fullmatch(r"(>=|<=|>|<)(-?\d+)", str(wanted))
    if match:
        return _COMPARE[match[1]](int(actual), int(match[2]))
    return wanted == actual


def _shown(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def is_about(claim: Claim, protocol: str, *, bundled: bool) -> bool:
    """Whether the claim is about `protocol`.

    On the bundled broker a claim that names products' own clients, and no other wire protocol, is tried over any.
    """
    if protocol in claim.surfaces:
        return True
    return bundled and "reference" in claim.surfaces and not (set(WIRES) - set(VENDOR_SURFACES)) & set(claim.surfaces)


def words(given: Iterable[str]) -> tuple[str, ...]:
    """Return the words of an option that may be repeated, with several words between commas or blanks.

    >>> words(["AMQP-*,STOMP-*", "EMS-*"])
    ('AMQP-*', 'STOMP-*', 'EMS-*')
    """
    return tuple(word for one in given for word in one.replace(",", " ").split())


def select(patterns: Iterable[str], catalogue: Catalogue) -> list[Claim]:
    """Return the claims that match shell patterns such as `ARTEMIS-*`; raises `UsageError` for an unknown word."""
    return [catalogue.claims[name] for name in matching("claim", patterns, catalogue.claims)]
