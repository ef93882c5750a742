"""Frames on a link, beside what the client records and its application receives."""

from judge_frames import disposed, framed, reached, settled_on_link, transferred, unreadable
from judge_histories import LINK_091, ack_sent, acked, came, case, crashed, handed, kept, processed, settled

from conformance.history import Phase

CAME = crashed() + settled(1, epoch=1)

NOTHING_CAME = crashed() + settled(epoch=1)


def flagged(*numbers, words="persistent"):
    """Sends as a link saw them."""
    return [
        e for n in numbers for e in framed(f"transfer handle=0 {words}".rstrip(), message=f"p1:{n}", delivery=str(n))
    ]


def unflagged(*numbers, words=""):
    return flagged(*numbers, words=words)


PREFETCHED = kept(1, 2) + transferred(1, 2) + reached(2) + handed(1)

"""Two messages came, and the application got one of them."""


def took_in_turn(*numbers):
    """Handed over and processed, one after the other."""
    return [event for number in numbers for event in (*handed(number), *processed(number))]


def brought(n):
    """AMQP 0-9-1: a delivery whose tag is the number of its message."""
    return framed("basic.deliver persistent", to="to_client", link=LINK_091, message=f"p1:{n}", delivery=str(n))


def acknowledged(covers, *, multiple):
    """AMQP 0-9-1: one frame, and what it settles."""
    word = str(multiple).lower()
    return framed(f"basic.ack multiple={word} accepted covers={covers}", link=LINK_091)


BROUGHT = kept(1, 2) + brought(1) + brought(2) + handed(1) + handed(2)

LINK = {
    "settled_again": {
        "settled, there, never handed over, and again": case(1, 1, kept(1), settled_on_link(1), reached(1), CAME),
        "settled, there, processed, and again": case(
            1, 1, kept(1), settled_on_link(1), handed(1), processed(1), reached(1), CAME
        ),
        "settled, there, and never again": case(1, 0, kept(1), settled_on_link(1), reached(1), NOTHING_CAME),
        "settled, there, and again after a restart": case(
            1, 0, kept(1), settled_on_link(1), reached(1), crashed(), settled(1, epoch=2)
        ),
        "settled and one byte short": case(0, 0, kept(1), settled_on_link(1), reached(1, short=1), CAME),
        "settled and passed on, with an unknown arrival": case(0, 0, kept(1), settled_on_link(1), CAME),
        "the last one of two did not get there": case(
            1, 1, kept(1, 2), settled_on_link(1, 2), reached(2, short=1), crashed(), settled(1, 2, epoch=1)
        ),
        "settled twice on one link": case(1, 1, kept(1), settled_on_link(1, 1), reached(2), NOTHING_CAME),
        "settled on one link, and then on another": case(
            1, 1, kept(1), settled_on_link(1), settled_on_link(1, link=2), reached(1), reached(1, link=2), NOTHING_CAME
        ),
        "settled, and sent again to a client that got nothing of it": case(
            1, 0, kept(1), settled_on_link(1), settled_on_link(1, link=2), reached(1), NOTHING_CAME
        ),
        "settled on one link, and on another after a restart": case(
            1,
            0,
            kept(1),
            settled_on_link(1),
            settled_on_link(1, link=2, epoch=2),
            reached(1),
            reached(1, link=2),
            NOTHING_CAME,
        ),
        "unsettled, and then settled": case(
            1, 0, kept(1), transferred(1), settled_on_link(1), reached(2), NOTHING_CAME
        ),
        "unsettled twice": case(0, 0, kept(1), transferred(1, 1), reached(2), CAME),
        "settled in two frames, the last of which was cut": case(
            0, 0, kept(1), transferred(1, words="settled more"), settled_on_link(1, phase=Phase.FAIL), reached(2), CAME
        ),
        "settled in two frames": case(
            1, 1, kept(1), transferred(1, words="settled more"), settled_on_link(1), reached(2), CAME
        ),
        "settled, there, and aborted": case(0, 0, kept(1), transferred(1, words="settled aborted"), reached(1), CAME),
        "handed over twice with no link between": case(0, 0, kept(1), handed(1), CAME),
        "a settled transfer of an unknown message": case(
            0, 0, kept(1), framed("transfer handle=0 settled", to="to_client", delivery="1"), reached(1), CAME
        ),
        "settled on a link that could not be read to its end": case(
            0, 0, kept(1), settled_on_link(1), unreadable(), reached(1), CAME
        ),
    },
    "acknowledged_early": {
        "acknowledged on the link before its processing ended": case(
            1, 1, kept(1), transferred(1), handed(1), ack_sent(1), disposed(1), processed(1)
        ),
        "acknowledged on the link and never processed": case(
            1, 1, kept(1), transferred(1), handed(1), ack_sent(1), disposed(1), crashed()
        ),
        "acknowledged on the link after its processing": case(
            1, 0, kept(1), transferred(1), handed(1), processed(1), ack_sent(1), disposed(1)
        ),
        # The client records that it acknowledged early, but the link did not see it early.
        "asked for before, and seen after its processing": case(
            1, 0, kept(1), transferred(1), handed(1), ack_sent(1), processed(1), disposed(1)
        ),
        "one range over two that were processed, and one between that was not": case(
            3,
            1,
            kept(1, 2, 3),
            transferred(1, 2, 3),
            handed(1),
            handed(2),
            handed(3),
            processed(1),
            processed(3),
            disposed(1, 3),
            processed(2),
        ),
        "one range over three that were processed": case(
            3, 0, kept(1, 2, 3), transferred(1, 2, 3), processed(1), processed(2), processed(3), disposed(1, 3)
        ),
        "acknowledged early in a transaction": case(
            1, 1, kept(1), transferred(1), disposed(1, words="transactional accepted"), processed(1)
        ),
        "given back early": case(0, 0, kept(1), transferred(1), disposed(1, words="released settled"), processed(1)),
        "settled early without an outcome": case(
            0, 0, kept(1), transferred(1), disposed(1, words="settled"), processed(1)
        ),
        "settled by the broker before its processing ended": case(
            0,
            0,
            kept(1),
            transferred(1),
            disposed(1, words="accepted settled by the sender", to="to_client"),
            processed(1),
        ),
        "acknowledged early with no link between": case(0, 0, kept(1), handed(1), ack_sent(1), processed(1)),
        "an early acknowledgement of what no link has carried": case(0, 0, kept(1), disposed(1), processed(1)),
        "an early acknowledgement in another session": case(
            0, 0, kept(1), transferred(1), disposed(1, words="accepted settled session=2"), processed(1)
        ),
        "acknowledged early on another link": case(0, 0, kept(1), transferred(1), disposed(1, link=2), processed(1)),
        "an early acknowledgement that was cut has left all the same": case(
            1,
            1,
            kept(1),
            transferred(1),
            framed("disposition accepted settled, not passed on", first=1, last=1, phase=Phase.FAIL),
            processed(1),
        ),
    },
    "acknowledged_unhanded": {
        "acknowledged on the link before it was handed over": case(
            1, 1, kept(1), transferred(1), disposed(1), handed(1)
        ),
        "acknowledged on the link and lying prefetched": case(
            2, 1, kept(1, 2), transferred(1, 2), handed(1), disposed(1, 2), crashed()
        ),
        "acknowledged on the link after it was handed over": case(
            1, 0, kept(1), transferred(1), handed(1), disposed(1)
        ),
        "handed over, then acknowledged by one range with its neighbours": case(
            3, 0, kept(1, 2, 3), transferred(1, 2, 3), handed(1), handed(2), handed(3), disposed(1, 3)
        ),
        "prefetched in the middle of a range": case(
            3, 1, kept(1, 2, 3), transferred(1, 2, 3), handed(1), handed(3), disposed(1, 3), handed(2)
        ),
        "acknowledged by a drain on a link": case(1, 0, kept(1), transferred(1), came(1), disposed(1)),
        "acknowledged unhanded with no link between": case(0, 0, kept(1), ack_sent(1), handed(1)),
        "acknowledged unhanded under an unknown number": case(0, 0, kept(1), transferred(1), disposed(7, 9), handed(1)),
    },
    "acknowledged_undelivered": {
        "covered on the link before it was handed over": case(
            2, 1, kept(1, 2), transferred(1, 2), handed(1), disposed(1, 2), handed(2)
        ),
        "covered on the link and never handed over": case(1, 1, kept(1), transferred(1), disposed(1), crashed()),
        "left out by an acknowledge that was answered": case(
            2, 1, kept(1, 2), transferred(1, 2), handed(1), handed(2), disposed(2), acked(2), reached(2)
        ),
        "left out by an acknowledge without an answer": case(
            1, 0, kept(1, 2), transferred(1, 2), handed(1), handed(2), disposed(2), ack_sent(2), reached(2)
        ),
        "handed over after the last acknowledge on the link": case(
            1, 0, kept(1, 2), transferred(1, 2), handed(1), disposed(1), acked(1), handed(2), crashed(), reached(2)
        ),
        # Its own answer was read after that of the acknowledge: it was not due before the call.
        "handed over between an acknowledge and its answer": case(
            1,
            0,
            kept(1, 2),
            transferred(1, 2),
            handed(1),
            acked(1)[:1],
            handed(2),
            disposed(1),
            acked(1)[1:],
            reached(2),
        ),
        "left out where no link was between": case(0, 0, kept(1, 2), handed(1), handed(2), acked(2)),
        "left out on a link that could not be read to its end": case(
            0, 0, kept(1, 2), transferred(1, 2), handed(1), handed(2), unreadable(), acked(2), reached(2)
        ),
    },
    "acknowledged_at_all": {
        "acknowledged where nothing is to be": case(
            2, 1, kept(1, 2), transferred(1, 2), handed(1), handed(2), disposed(2), reached(2)
        ),
        "processed and not acknowledged": case(1, 0, kept(1), settled_on_link(1), handed(1), processed(1), reached(1)),
        "given back where nothing is to be acknowledged": case(
            1, 0, kept(1), transferred(1), handed(1), disposed(1, words="released settled"), reached(1)
        ),
        "two of three acknowledged by a range where nothing is to be": case(
            3, 2, kept(1, 2, 3), transferred(1, 2, 3), disposed(2, 3), reached(3)
        ),
        "said to be acknowledged, and nothing seen": case(
            1, 0, kept(1), transferred(1), handed(1), acked(1), reached(1)
        ),
        "acknowledged with no link between": case(0, 0, kept(1), handed(1), acked(1)),
        "not acknowledged on a link that could not be read to its end": case(
            0, 0, kept(1), transferred(1), handed(1), unreadable(), reached(1)
        ),
    },
    "flag_missing": {
        "a persistent message without the flag": case(2, 1, kept(1, 2), unflagged(1), flagged(2)),
        "a persistent message with its flag": case(1, 0, kept(1), flagged(1)),
        "a persistent message that the link did not see": case(0, 0, kept(1)),
        "another message without the flag": case(0, 0, kept(1, durable=False), unflagged(1)),
        "a persistent message whose second frame has no header": case(
            1, 0, kept(1), flagged(1, words="more persistent"), unflagged(1, words="continued")
        ),
    },
    "flag_set": {
        "a message that is not persistent, with the flag": case(
            2, 1, kept(1, 2, durable=False), flagged(1), unflagged(2)
        ),
        "a message that is not persistent, without the flag": case(1, 0, kept(1, durable=False), unflagged(1)),
        "a persistent message with the flag": case(0, 0, kept(1), flagged(1)),
    },
    "flag_differs": {
        "flags of another mode, one of each": case(
            4, 2, kept(1, 2), kept(3, 4, durable=False), flagged(1, 3), unflagged(2, 4)
        ),
        "flags of their own modes": case(2, 0, kept(1), kept(2, durable=False), flagged(1), unflagged(2)),
    },
    "acknowledged_unreceived": {
        "prefetched, never received, and acknowledged": case(1, 1, PREFETCHED, disposed(1, 2)),
        "prefetched, never received, and left alone": case(1, 0, PREFETCHED, disposed(1)),
        "acknowledged before receive() returned": case(
            0, 0, kept(1), transferred(1), reached(1), disposed(1), handed(1)
        ),
        "prefetched by a client that was killed": case(0, 0, PREFETCHED, disposed(1, 2), crashed()),
    },
    "not_each_passed": {
        "passed and acknowledged, each of two": case(2, 0, PREFETCHED, handed(2), disposed(1), disposed(2)),
        "passed without an acknowledgement": case(2, 1, PREFETCHED, handed(2), disposed(2)),
        "acknowledged and never passed": case(2, 1, PREFETCHED, disposed(1, 2)),
        "neither passed nor acknowledged": case(2, 0, PREFETCHED, disposed(1)),
        "passed by a client that was killed": case(0, 0, PREFETCHED, crashed()),
    },
    "acknowledged_after_processing": {
        "acknowledged when the listener had returned": case(
            1, 1, kept(1), transferred(1), handed(1), processed(1), disposed(1)
        ),
        "acknowledged while the listener ran": case(
            1, 0, kept(1), transferred(1), handed(1), disposed(1), processed(1)
        ),
        "acknowledged, and never processed": case(0, 0, kept(1), transferred(1), handed(1), disposed(1)),
    },
    "acknowledged_lazily": {
        "acknowledged when the next one was processed": case(
            1, 1, kept(1, 2), transferred(1, 2), took_in_turn(1, 2), disposed(1, 2)
        ),
        "acknowledged before the next one was processed": case(
            1, 0, kept(1, 2), transferred(1, 2), took_in_turn(1), disposed(1), took_in_turn(2), disposed(2)
        ),
        "acknowledged lately, without a next one": case(0, 0, kept(1), transferred(1), took_in_turn(1), disposed(1)),
    },
    "acknowledged_in_bulk": {
        "two by one frame with the flag": case(2, 2, BROUGHT, acknowledged("1-2", multiple=True)),
        "two by a frame of its own each": case(
            2, 0, BROUGHT, acknowledged("1", multiple=False), acknowledged("2", multiple=False)
        ),
        "one of a range of AMQP 1.0 that was not handed over": case(2, 1, PREFETCHED, disposed(1, 2)),
    },
}
