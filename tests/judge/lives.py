"""Lives of messages: how one is sent, what consumers do with it, and where it is in the end."""

import itertools

from judge_words import (
    ack_lost,
    ack_refused,
    ack_sent,
    acked,
    again,
    came,
    committed,
    confirmed,
    crashed,
    given_back,
    handed,
    killed,
    no_answer,
    pause,
    put,
    refused,
    rolled_back,
    sent,
    set_aside,
    silent,
    stuck,
)

from conformance.history import Phase

TX = "t{}"
ANSWERS = (Phase.OK, Phase.FAIL, Phase.INFO, None)
FAULTS = (list, crashed, lambda: killed("publisher-3"))
"""No fault, the death of a consumer, and a kill of the broker."""


def sendings(n):
    """How a message is sent, and what its publisher learns: lists of steps, in order."""
    tx, other = TX.format(n), TX.format(n + 500_000)
    return [
        [sent(n), confirmed(n)],
        [put(tx, n), committed(tx)],
        [sent(n, durable=False), confirmed(n)],
        [sent(n, lives=1), confirmed(n)],
        [sent(n, lives=10_000_000), confirmed(n)],
        [sent(n)],
        [sent(n), no_answer(n)],
        *[[sent(n), refused(n, word)] for word in ("rejected", "released", "modified")],
        [sent(n), refused(n), confirmed(n)],
        [sent(n), confirmed(n), refused(n)],
        [sent(n), sent(n), confirmed(n)],
        [sent(n), refused(n), sent(n), no_answer(n)],
        *[[sent(n), no_answer(n), again(other, n), committed(other, answer, "publisher-2")] for answer in ANSWERS],
        [],
        *[[put(tx, n), committed(tx, answer)] for answer in ANSWERS[1:]],
        *[[put(tx, n), rolled_back(tx, answer)] for answer in (Phase.OK, None)],
        [put(tx, n)],
        [put(tx, n), refused(n, tx=tx), committed(tx)],
        [put(tx, n), refused(n, "rejected outside its transaction", tx=tx), committed(tx)],
        [put(tx, n), committed(tx, Phase.FAIL), again(other, n), committed(other, by="publisher-2")],
    ]


def takings(n, tx, consumer=1):
    """What a consumer does with one delivery: lists of steps."""
    own = [handed(n, consumer=consumer)]
    if consumer > 1:  # the words for an answer are those of the first consumer
        return [own, [*own, ack_sent(n, consumer=consumer)]]
    acknowledged, by = [*own, ack_sent(n, tx=tx)], "consumer-1"
    return [
        own,
        [*own, acked(n)],
        [*own, ack_sent(n)],
        [*own, ack_sent(n), ack_refused(n)],
        [*own, ack_sent(n), ack_lost(n)],
        *[[*own, given_back(n, word)] for word in ("released", "failed", "undeliverable", "rejected")],
        [*own, given_back(n, "its receiver ended")],
        *[[*acknowledged, committed(tx, answer, by)] for answer in ANSWERS],
        *[[*acknowledged, rolled_back(tx, answer, by)] for answer in (Phase.OK, None)],
        acknowledged,
    ]


def courses(n):
    """Return what the clients do with a message: lists of steps. At most two deliveries, before or after the answer."""
    first, second = TX.format(n + 1_000_000), TX.format(n + 2_000_000)
    taken = [*takings(n, first), *takings(n, first, consumer=2)]
    found = []
    for place, sending in enumerate(sendings(n)):
        found += [sending, *[[*sending, *taking] for taking in taken]]
        if len(sending) > 1:
            found += [[*sending[:-1], *taking, sending[-1]] for taking in taken]
        if place < TWICE:
            found += [[*sending, *taking, *more] for taking in taken for more in takings(n, second)]
    return found


TWICE = 2
"""The first ways to send a message; the messages that are sent in one of these are taken twice as well."""

NOWHERE, FIRST, SECOND, ASIDE = "nowhere", "first", "second", "aside"
"""Where a message is found in the end: by the first drain, by the second, or in another queue."""


def ended(numbers, where, epoch, depth):
    """The drains of a trial, which find its messages there, and how many the broker counts after them."""
    found = {
        FIRST: lambda n: came(n, epoch=epoch),
        SECOND: lambda n: came(n, drain=2, epoch=epoch + 1),
        ASIDE: set_aside,
        NOWHERE: lambda n: [],
    }[where]
    events = [event for n in numbers for event in found(n)]
    first = [*events, *silent(1, epoch=epoch)] if where == FIRST else silent(1, epoch=epoch)
    second = silent(2, epoch=epoch + 1) if depth is None else stuck(2, epoch=epoch + 1, depth=depth)
    return [*first, *(events if where == SECOND else []), *second, *(events if where == ASIDE else [])]


ENDS = [(FIRST, None), (SECOND, None), (ASIDE, None), (NOWHERE, None), (NOWHERE, 1_000_000), (NOWHERE, 0), (ASIDE, 0)]
"""Where the messages of a trial are in the end, and its last depth; None for a queue that is drained to the end."""


def whole(course, fault, end):
    """The history of a trial in which each message has one of these courses, by its number."""
    epoch = 2 if fault is FAULTS[-1] else 1
    events = [event for steps in course.values() for step in steps for event in step]
    return [*events, *pause(5), *fault(), *ended(course, end[0], epoch, end[1])]


def every(size=400):
    """All lives, as histories by name, each of so many messages at most."""
    chosen = {n: courses(n)[n - 1] for n in range(1, len(courses(1)) + 1)}
    for (at, fault), (place, end) in itertools.product(enumerate(FAULTS), enumerate(ENDS)):
        for begin in range(1, len(chosen) + 1, size):
            some = {n: chosen[n] for n in range(begin, begin + size) if n in chosen}
            yield f"{at}-{place}-{begin}", whole(some, fault, end)
