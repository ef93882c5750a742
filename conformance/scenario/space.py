"""The space that scripts are drawn from: dimensions with their edges, what goes together, and what a script has met.

A drawn script is a scenario like any other. It names no check of its own: what the judge looks for in every trial of
every scenario decides (`judge.rules`).
"""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from conformance.errors import CatalogueError
from conformance.scenario import Check, Scenario, validate
from conformance.scenario.faults import ClientFault, ConsumerCrash, Cut, Kill, Pause, PowerLoss, Stop
from conformance.scenario.reading import singles
from conformance.scenario.script import LONG_LIFE_MS, SETTLE, Consume, Fault, Publish, Restart, Step, Together
from conformance.scenario.triggers import Between, Frame, Nth

DRAWN = "drawn-"
"""How the id of a drawn scenario begins."""

DAY_MS = 86_400_000

ONE_AFTER_THE_OTHER = "one after the other"
BETWEEN, AFTER = "between sends and receives", "after receives"


@dataclasses.dataclass(frozen=True)
class Edge:
    """A value of a dimension, and why a broker may break there. A script meets it by its name."""

    name: str
    value: Any
    why: str


@dataclasses.dataclass(frozen=True)
class Dimension:
    """Something that a script may do in several ways. The first edge is the usual one."""

    name: str
    edges: tuple[Edge, ...]

    def __getitem__(self, name: str) -> Any:
        return next(edge.value for edge in self.edges if edge.name == name)


VALUES: tuple[Dimension, ...] = (
    Dimension(
        "size",
        (
            Edge("256 bytes", 256, "a usual message"),
            Edge("no body", 0, "a buffer of no bytes"),
            Edge("4,096 bytes", 4_096, "a page of memory: with its header a message is larger"),
            Edge("65,400 bytes", 65_400, "with its header about a frame of 64 KiB"),
            Edge("102,300 bytes", 102_300, "a header less than 100 KiB, where Artemis begins to store in a file"),
            Edge("102,500 bytes", 102_500, "more than 100 KiB"),
            Edge("400,000 bytes", 400_000, "several frames, and a file of its own in many brokers"),
        ),
    ),
    Dimension(
        "time to live",
        (
            Edge("none", 0, "a message without end"),
            Edge("1 ms", 1, "over before anything is received"),
            Edge("1 second", 1_000, "over while a script goes on"),
            Edge("4 seconds", 4_000, "over after a restart, and not before it"),
            Edge("1 hour", LONG_LIFE_MS, "usual in production"),
            Edge("24 days", 24 * DAY_MS, "less than 2^31 milliseconds"),
            Edge("25 days", 25 * DAY_MS, "more than 2^31 milliseconds"),
            Edge("2^31 - 1 ms", 2**31 - 1, "the largest signed number of 32 bits"),
            Edge("49 days", 49 * DAY_MS, "less than 2^32 milliseconds: added to a time, it may overflow"),
            Edge("2^32 - 1 ms", 2**32 - 1, "the largest unsigned number of 32 bits"),
        ),
    ),
    Dimension(
        "properties",
        (
            Edge("none", {}, "a message with its id only"),
            Edge(
                "of several types", {"headers": True}, "text beyond the BMP, empty, true, a number, large, a fraction"
            ),
            Edge("correlation-ids", {"correlates": True}, "text, number, UUID and binary, over AMQP"),
            Edge("selected by", {"parity": True}, "consumers may select by it"),
        ),
    ),
    Dimension(
        "persistence",
        (
            Edge("persistent", True, "the usual one"),
            Edge("not persistent", False, "kept in memory only: it may be lost, but not torn, doubled or altered"),
        ),
    ),
    Dimension(
        "sends",
        (
            Edge("100 in flight", {"window": 100}, "a publisher that goes on"),
            Edge("one at a time", {"window": 1}, "a publisher that waits for each answer"),
            Edge("in transactions", {"window": 50, "batch": 10}, "transactions of ten"),
            Edge(
                "in transactions, some rolled back",
                {"window": 50, "batch": 5, "rollback_every": 3},
                "one after a rollback",
            ),
            Edge("paced", {"window": 20, "every_ms": 5}, "a broker that is idle in between"),
        ),
    ),
    Dimension(
        "receives",
        (
            Edge("individual", {"mode": "individual"}, "each acknowledged by itself"),
            Edge("every second one", {"mode": "individual", "acknowledge": 2}, "gaps between acknowledged ones"),
            Edge("the last one first", {"mode": "individual", "acknowledge": 3, "backwards": 10}, "out of order"),
            Edge("auto", {"mode": "auto"}, "acknowledged after its processing"),
            Edge("client", {"mode": "client", "acknowledge": 10}, "one acknowledgement for all so far"),
            Edge("in transactions", {"mode": "transacted", "acknowledge": 5}, "acknowledged at a commit"),
            Edge("settled", {"mode": "no_ack"}, "nothing is acknowledged"),
            Edge("given back", {"mode": "individual", "refuse": ("released",), "refuse_every": 5}, "comes again"),
            Edge("given back as failed", {"mode": "individual", "refuse": ("failed",), "refuse_every": 7}, "counted"),
        ),
    ),
    Dimension(
        "prefetch",
        (
            Edge("50", 50, "some"),
            Edge("1", 1, "credit for one: each acknowledgement asks for the next"),
            Edge("1,000", 1_000, "more than there are messages"),
        ),
    ),
)

SHAPES: tuple[Dimension, ...] = (
    Dimension(
        "company",
        (
            Edge(ONE_AFTER_THE_OTHER, (1, 1, 1), "a publisher, then a consumer"),
            Edge("one of each", (1, 1, 1), "a publisher beside a consumer"),
            Edge("two of each", (2, 2, 1), "publishers and consumers beside each other"),
            Edge("six consumers", (1, 6, 1), "each has a part of the queue"),
            Edge("six receivers of one session", (1, 1, 6), "an acknowledgement has to find its receiver"),
            Edge("a hundred receivers of one session", (1, 1, 100), "most of them wait"),
        ),
    ),
    Dimension(
        "wait",
        (
            Edge("none", 0, "what is sent is received at once"),
            Edge("3 seconds", 30, "brokers look for what has expired, or is idle, at intervals"),
        ),
    ),
    Dimension(
        "repetition",
        (
            Edge("once", 1, "the first time"),
            Edge("twice", 2, "what was left over is there the second time"),
            Edge("three times", 3, "a broker may keep count wrongly"),
        ),
    ),
    Dimension(
        "restart",
        (
            Edge("none", None, "the broker runs on"),
            Edge(BETWEEN, None, "what is received was read from the disk"),
            Edge(AFTER, None, "what was acknowledged is read from the disk"),
        ),
    ),
    Dimension(
        "leaves",
        (
            Edge("nothing", False, "the queue is emptied"),
            Edge("a half", True, "messages stay behind, to be received in the next round"),
        ),
    ),
)

FAULTS = Dimension(
    "fault",
    (
        Edge("none", None, "most bugs need none"),
        Edge("kill", Kill, "the broker dies"),
        Edge("stop", Stop, "the broker is stopped in order"),
        Edge("pause", Pause, "the broker stands still"),
        Edge("crash of the client", ConsumerCrash, "a client dies"),
        Edge("cut", Cut, "a connection is reset"),
        Edge("power loss", PowerLoss, "what was not synced is lost"),
    ),
)
MOMENTS = Dimension(
    "moment",
    (
        Edge("a send", ("sent", "send"), "before the broker has stored it"),
        Edge("a confirm", ("confirm", "answer"), "when it has been stored"),
        Edge("a commit", ("commit_written", "commit"), "while it is being committed"),
        Edge("a commit's answer", ("committed", "commit_answer"), "when it was committed"),
        Edge("a delivery", ("process", "deliver"), "while a consumer has it"),
        Edge("an acknowledgement", ("ack_written", "acknowledge"), "before the broker has stored it"),
    ),
)
_OF_PUBLISHER = frozenset({"a send", "a confirm", "a commit", "a commit's answer"})
_OF_COMMIT = frozenset({"a commit", "a commit's answer"})

SPACE = (*VALUES, *SHAPES, FAULTS, MOMENTS)
BY_NAME: Mapping[str, Dimension] = {dimension.name: dimension for dimension in SPACE}

Point = Mapping[str, str]
"""The names of the edges of a script, by dimension."""
Pair = tuple[tuple[str, str], tuple[str, str]]

SEVERAL = 8
"""So many points are drawn for a script: the one that meets most pairs for the first time is played."""

TRIES = 400
FAULTY = 0.6
"""The share of scripts with a fault: most bugs that strangers meet need none, or an orderly restart."""

ENDLESS = 10_000
"""So many messages outlast a fault that comes. If it never does, since a broker loses what it waits for, they end."""

LARGE = 60_000
"""Of messages from this size on, few are sent."""


@dataclasses.dataclass(frozen=True)
class Drawn:
    """A script with the point of the space at which it was drawn."""

    script: Scenario
    point: Point

    @property
    def pairs(self) -> frozenset[Pair]:
        """Every two edges that the script has together."""
        return frozenset(itertools.combinations(sorted(self.point.items()), 2))


def draw(seed: int, number: int, met: Collection[Pair], plays: Callable[[Scenario], bool]) -> Drawn:
    """Return the script of that number: of several that the broker can be asked to play, the one with most new pairs.

    Raises `CatalogueError` if the broker can play none of many.
    """
    rng = random.Random(f"{seed}:{number}")
    faulty = rng.random() < FAULTY
    tried = (_drawn(f"{DRAWN}{number}", rng, faulty=faulty) for _ in range(TRIES))
    found = list(itertools.islice((drawn for drawn in tried if drawn and plays(drawn.script)), SEVERAL))
    if not found:
        raise CatalogueError(f"of {TRIES} scripts that were drawn this broker can play none")
    known = frozenset(met)
    return max(found, key=lambda drawn: len(drawn.pairs - known))


def every_pair() -> Iterator[Pair]:
    """Yield every two edges of different dimensions."""
    for one, other in itertools.combinations(sorted(SPACE, key=lambda each: each.name), 2):
        yield from (((one.name, a.name), (other.name, b.name)) for a in one.edges for b in other.edges)


def scenario_of(name: str, steps: Iterable[Step]) -> Scenario:
    """Return the scenario of drawn steps. Its one check only says what its trials count: it decides no claim."""
    steps = tuple(steps)
    modes = [step.mode for step in singles(steps) if isinstance(step, Consume)]
    says = "Drawn from the space of scripts."
    counted = (Check("lost", exposure="confirmed"),)
    mode = modes[0] if modes else "async_ack"
    return Scenario(name, says, mode, steps, {}, checks=counted, varies=False)


def _drawn(name: str, rng: random.Random, *, faulty: bool) -> Drawn | None:
    """Return a script at a point drawn, or None if that point contradicts itself."""
    point = {dimension.name: rng.choice(dimension.edges).name for dimension in SPACE}
    if not faulty:
        point["fault"] = "none"
    if point["fault"] == "none":
        del point["moment"]
    if not _agrees(point):
        return None
    script = scenario_of(name, (*_rounds(point, rng), *SETTLE))
    try:
        validate(script)
    except CatalogueError:
        return None
    return Drawn(script, point)


def _agrees(point: Point) -> bool:
    """Whether the fault has such a moment, and nothing is in two kinds of transactions at once."""
    sends, moment, fault = "transactions" in point["sends"], point.get("moment", ""), point["fault"]
    receives = point["receives"] == "in transactions"
    if sends and receives:
        return False
    if moment in _OF_COMMIT and not (sends or receives):
        return False
    if moment in ("a send", "a confirm") and sends:
        return False
    # What is not stored is not there for the consumer whose fault is to come.
    gone = point["persistence"] == "not persistent" and point["restart"] == BETWEEN
    if gone and moment and not _is_of_publisher(point):
        return False
    if moment == "an acknowledgement" and point["receives"] in ("settled", "in transactions"):
        return False
    beside = _beside(point)
    if beside and point["wait"] != "none":
        return False
    if _is_short(point) and moment and not _is_of_publisher(point):
        return False
    if beside and fault in ("crash of the client", "cut", "power loss"):
        return False
    # Its client begins last: the others may have taken everything, unless their publishers go on.
    if beside and fault == "pause" and not _is_of_publisher(point):
        return False
    return bool(BY_NAME["prefetch"][point["prefetch"]] >= _held(point))


def _is_short(point: Point) -> bool:
    """Whether its messages may have expired when their consumer comes."""
    lives_ms: int = BY_NAME["time to live"][point["time to live"]]
    return 0 < lives_ms < LONG_LIFE_MS


def _held(point: Point) -> int:
    """Return how many deliveries a consumer may have open before it gives credit back."""
    receives = BY_NAME["receives"][point["receives"]]
    if receives["mode"] == "individual" and receives.get("acknowledge", 1) > 1:
        return 2 * _count(point)
    return int(receives.get("acknowledge", 1))


def _rounds(point: Point, rng: random.Random) -> Iterator[Step]:
    times = BY_NAME["repetition"][point["repetition"]]
    for number in range(times):
        yield from _round(point, rng, last=number == times - 1)


def _round(point: Point, rng: random.Random, *, last: bool) -> Iterator[Step]:
    """Yield the steps of one round; the fault comes in the last one."""
    publishers, consumers, _ = BY_NAME["company"][point["company"]]
    together = _beside(point)
    fault = _fault(point, rng, consumers) if last else None
    of_publisher = fault is not None and _is_of_publisher(point)
    ends = fault is not None and fault.ends_broker
    endless = ends and together
    publish = _publish(point, fault if of_publisher else None, endless=endless)
    consume = _consume(point, publish, None if of_publisher else fault, share=consumers)
    started = (Restart(),) if ends else ()
    waits = BY_NAME["wait"][point["wait"]]
    idle = (Publish(waits, window=1, every_ms=100),) if waits else ()
    between = (Restart(clean=True),) if point["restart"] == BETWEEN else ()
    if together:
        others = [_publish(point, None, endless=endless) for _ in range(publishers - 1)]
        takers = [_consume(point, publish, None, share=consumers, endless=endless) for _ in range(consumers - 1)]
        yield from (Together((consume, *takers, publish, *others)), *started)
    elif of_publisher:
        yield from (publish, *(started or between), *idle, consume)
    else:
        yield from (publish, *between, *idle, consume, *started)
    if point["restart"] == AFTER and not ends:
        yield Restart(clean=True)


def _beside(point: Point) -> bool:
    """Whether publishers and consumers work at the same time."""
    return point["company"] != ONE_AFTER_THE_OTHER


def _is_of_publisher(point: Point) -> bool:
    if point["moment"] in _OF_COMMIT:
        return "transactions" in point["sends"]
    return point["moment"] in _OF_PUBLISHER


def _fault(point: Point, rng: random.Random, share: int) -> Fault | None:
    """Return the fault at its moment, which a half of the messages of a consumer's share is sure to reach."""
    kind = BY_NAME["fault"][point["fault"]]
    if kind is None:
        return None
    event, frame = BY_NAME["moment"][point["moment"]]
    each = 1
    if point["moment"] in _OF_COMMIT:
        each = 15  # the largest transactions have ten, and some are rolled back
    elif point["moment"] == "an acknowledgement":
        each = BY_NAME["receives"][point["receives"]].get("acknowledge", 1)
    reached = _count(point) // (4 * share) // each
    if kind is Cut and frame in ("answer", "acknowledge"):
        reached = min(reached, 4)  # one frame may answer or acknowledge many
    low = rng.randint(1, max(reached // 2, 1))
    k = Between(low, low + reached // 2)
    if kind is Cut:
        return Cut(Frame(frame, k, at=rng.choice(("before", "middle", "after"))))
    made: ClientFault = kind(Nth(event, k))
    return made


def _count(point: Point) -> int:
    """Return how many messages a publisher sends in a round."""
    return 40 if BY_NAME["size"][point["size"]] >= LARGE else 200


def _publish(point: Point, fault: Fault | None, *, endless: bool = False) -> Publish:
    size = BY_NAME["size"][point["size"]]
    sends = BY_NAME["sends"][point["sends"]]
    endless = endless or (fault is not None and fault.ends_broker)
    if size >= LARGE:
        sends = {**sends, "window": min(sends["window"], 10)}
    return Publish(
        ENDLESS if endless else _count(point),
        size=size,
        durable=BY_NAME["persistence"][point["persistence"]],
        lives_ms=BY_NAME["time to live"][point["time to live"]],
        until=fault,
        **sends,
        **BY_NAME["properties"][point["properties"]],
    )


def _consume(point: Point, publish: Publish, fault: Fault | None, *, share: int = 1, endless: bool = False) -> Consume:
    """Return a consumer that takes its share, or a half of it; with an end of the broker it takes what it gets."""
    receives = BY_NAME["receives"][point["receives"]]
    ends = endless or any(each is not None and each.ends_broker for each in (fault, publish.until))
    half = max(_count(point) // (4 * share), 1) if BY_NAME["leaves"][point["leaves"]] else None
    taken: dict[str, Any] = {"stop": half, "until_silent": True}
    if fault is not None or (ends and _beside(point)):
        taken = {}
    if publish.parity:
        taken["selects"] = "odd"
    _, _, taken["receivers"] = BY_NAME["company"][point["company"]]
    return Consume(prefetch=BY_NAME["prefetch"][point["prefetch"]], until=fault, **receives, **taken)
