"""Frames and their messages: what a range, a header or a receipt is about, connection by connection."""

import pytest

from conformance.errors import HistoryError
from conformance.history import Event, Op, Phase
from conformance.judge.input.link_frames import tied
from conformance.protocols.ties import CARRIES

SIZE = 100


def frame(detail, to="to_broker", *, phase=Phase.OK, connection=1, **fields):
    about = {"connection": connection, "link": to, "count": SIZE, "detail": detail}
    return Event(0, 1, Op.FRAME, phase, **about, **fields)


def reached(frames, connection=1):
    about = {"connection": connection, "link": "to_client", "count": frames * SIZE}
    return Event(0, 1, Op.CONNECT, Phase.INFO, **about, detail="bytes reached the client")


def tied_to(protocol, *events):
    """The frames that were tied: `(meaning, number of the message)` each."""
    rows = tied(events, protocol)
    return [(CARRIES[row.carries], int(row.event.message[3:])) for row in rows if row.carries is not None]


def delivered(number, message, words="", **fields):
    return frame(f"transfer handle=0 {words}".strip(), "to_client", delivery=str(number), message=message, **fields)


def disposed(first, last, words="accepted settled", to="to_broker", **fields):
    return frame(f"disposition {words}", to, first=first, last=last, **fields)


def three(**fields):
    return [delivered(n, f"p1:{n + 1}", **fields) for n in range(3)]


# AMQP


def test_a_range_is_about_each_of_its_deliveries():
    assert [("acknowledge", 2), ("acknowledge", 3)] == tied_to("amqp", *three(), disposed(1, 2))[3:]
    assert [("acknowledge", 2)] == tied_to("amqp", *three(), disposed(1, None))[3:]


def test_a_range_of_more_than_there_is_names_what_there_is():
    assert [("acknowledge", n) for n in (1, 2, 3)] == tied_to("amqp", *three(), disposed(0, 2**32 - 1))[3:]


def test_a_range_goes_over_the_end_of_the_numbers():
    """Delivery-ids are serial numbers (AMQP 1.0 section 2.8.10)."""
    around = [delivered(2**32 - 1, "p1:1"), delivered(0, "p1:2"), delivered(1, "p1:3")]

    assert [("acknowledge", 1), ("acknowledge", 2)] == tied_to("amqp", *around, disposed(2**32 - 1, 0))[3:]
    assert [("acknowledge", 1), ("acknowledge", 2)] == tied_to("amqp", *around, disposed(2**32 - 9, 0))[3:]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("accepted", "acknowledge"),
        ("accepted settled", "acknowledge"),
        ("transactional accepted", "acknowledge"),
        ("accepted settled, not passed on", "acknowledge"),
        ("transactional released", "refuse"),
        ("rejected settled", "refuse"),
        ("modified settled", "refuse"),
        ("settled", None),
        ("received", None),
        ("accepted settled by the sender", None),
    ],
)
def test_only_an_outcome_acknowledges(words, expected):
    """Accepted does, settled or not; `settled` alone is not an outcome, nor is a disposition by the sender."""
    found = tied_to("amqp", *three(), disposed(0, 0, words))[3:]

    assert found == ([(expected, 1)] if expected else [])


def test_the_answer_to_a_send_is_about_what_the_client_numbered():
    sends = [frame("transfer handle=0", delivery=str(n), message=f"p1:{n + 8}") for n in range(2)]
    answers = [
        disposed(0, 1, to="to_client"),
        disposed(0, 0, "accepted settled by the sender", to="to_client"),
        disposed(0, 1, "accepted settled by the sender"),  # what a sender says is no answer
        frame("flow", "to_client", first=0, last=1),
    ]

    assert [("send", 8), ("send", 9), ("answer", 8), ("answer", 9), ("answer", 1)] == [
        row for row in tied_to("amqp", *sends, *three(), *answers) if row[0] != "deliver"
    ]


def test_a_number_is_of_its_session_and_its_connection():
    here = [*three(), delivered(0, "p1:8", "session=2"), delivered(0, "p1:9", connection=2)]

    assert [("acknowledge", 8)] == tied_to("amqp", *here, disposed(0, 0, "accepted session=2"))[5:]
    assert [("acknowledge", 9)] == tied_to("amqp", *here, disposed(0, 2, connection=2))[5:]
    assert [] == tied_to("amqp", *here, disposed(0, 2, "accepted session=3"))[5:]


def test_a_number_is_of_its_last_delivery():
    assert [("acknowledge", 5)] == tied_to("amqp", *three(), delivered(0, "p1:5"), disposed(0, 0))[4:]
    assert [] == tied_to("amqp", *three(), delivered(0, None), disposed(0, 0))[3:]


def test_what_cannot_be_tied_is_kept_apart():
    events = [frame("transfer handle=0", delivery="0"), disposed(0, 9), frame("flow"), frame("SEND", message="p1:1")]

    assert [(None,) * 4] * 4 == [(row.event.message, *row[1:]) for row in tied(events, "amqp")]
    assert [event.detail for event in events] == [row.event.detail for row in tied(events, "amqp")]


# whole, and there


def whole(*events, protocol="amqp"):
    return [row.whole for row in tied(events, protocol) if row.carries is not None]


def test_whole_is_what_the_client_has_acknowledged_to_the_last_byte():
    """Other frames of the same stream count; those of the other direction or of another connection do not."""
    other = [frame("flow", "to_client"), frame("flow"), delivered(0, "p1:9", connection=2)]

    assert [False, True, True, True] == whole(*other, *three(), reached(4), reached(0, connection=2))
    assert [False, True, True, False] == whole(*other, *three(), reached(3))
    assert [False] * 4 == whole(*other, *three())
    assert [False, True, True, True] == whole(reached(4), *other, *three())


def test_whole_over_the_other_protocols():
    """A send has no such mark: it goes to the broker."""
    send = frame("SEND", message="p1:9")
    pieces = [brought(1, "p1:1"), brought(2, "p1:2", "not persistent more"), brought(3, "p1:3")]

    assert [None, True, False] == whole(send, message(1, "p1:1"), message(2, "p1:2"), reached(1), protocol="stomp")
    assert [True, False, False] == whole(*pieces, reached(2), protocol="amqp091")


def test_whole_is_a_delivery_with_its_last_frame():
    parts = [delivered(0, "p1:1", "more"), delivered(0, "p1:1", "continued"), delivered(1, "p1:2", "aborted")]
    cut = delivered(2, "p1:3", ", not passed on", phase=Phase.FAIL)

    assert [False, True, False, False] == whole(*parts, cut, reached(4))


def test_a_stream_that_cannot_be_read_makes_its_connection_unknown():
    """In both directions: an acknowledgement that the link could not read may have followed."""
    blind = frame("unreadable: a size of 3", connection=1)

    assert [False, True] == whole(
        delivered(0, "p1:1"), blind, delivered(0, "p1:2", connection=2), reached(9), reached(9, connection=2)
    )


def test_settled_is_what_its_sender_says():
    amqp = tied([delivered(0, "p1:1", "settled, not passed on"), delivered(1, "p1:2")], "amqp")
    stomp = tied([message(1, "p1:1", "settled"), message(2, "p1:2"), message(3, "p1:3", "unsubscribed")], "stomp")
    amqp091 = tied([brought(1, "p1:1", "not persistent settled"), brought(2, "p1:2")], "amqp091")

    assert ([True, False], [True, False, False]) == ([r.settled for r in amqp], [r.settled for r in stomp])
    assert [True, False] == [row.settled for row in amqp091]


# STOMP


def message(ack, ours, how="individual"):
    return frame(f"MESSAGE message-id={ack} {how}", "to_client", delivery=str(ack), message=ours)


def acknowledged(ack, command="ACK", receipt=""):
    return frame(f"{command} {receipt and f'receipt={receipt} '}id={ack}", delivery=str(ack))


def answered(receipt):
    return frame(f"RECEIPT receipt-id={receipt} of SEND", "to_client", delivery=receipt)


def test_a_header_names_a_delivery():
    came = [message(7, "p1:1"), message(8, "p1:2"), message(9, None)]

    assert [("acknowledge", 2)] == tied_to("stomp", *came, acknowledged(8))[2:]
    other = frame("ERROR", "to_client", delivery="8", message="p1:5")  # neither a send nor a receipt
    assert [("deliver", 1), ("deliver", 2), ("acknowledge", 2)] == tied_to("stomp", *came, other, acknowledged(8))
    assert [("refuse", 1)] == tied_to("stomp", *came, acknowledged(7, "NACK"))[2:]
    assert [] == tied_to("stomp", *came, acknowledged(9), acknowledged(10))[2:]


def test_an_acknowledgement_covers_what_came_before_on_its_subscription():
    """Once, and only on a cumulative subscription (STOMP 1.2, ACK)."""
    subscriptions = ((1, 1), (2, 2), (3, 1), (4, 1))
    came = [message(n, f"p1:{n}", f"ack={n} subscription={number} cumulative") for n, number in subscriptions]

    assert [("acknowledge", 1), ("acknowledge", 3)] == tied_to("stomp", *came, acknowledged(3))[4:]
    assert [("acknowledge", 1), ("acknowledge", 3), ("acknowledge", 4)] == tied_to(
        "stomp", *came, acknowledged(3), acknowledged(4)
    )[4:]
    assert [("acknowledge", 2)] == tied_to("stomp", *came, acknowledged(2))[4:]
    foreign = message(3, None, "ack=3 subscription=1 cumulative")
    assert [("acknowledge", 1), ("acknowledge", 4)] == tied_to("stomp", came[0], foreign, came[3], acknowledged(4))[2:]


def test_a_receipt_answers_what_asked_for_it():
    send = frame("SEND receipt=r-1", delivery="r-1", message="p1:8")
    came = [message(1, "p1:1", "subscription= cumulative"), message(2, "p1:2", "subscription= cumulative")]
    found = tied_to(
        *("stomp", send, *came, acknowledged(2, receipt="r-2")),
        *(frame("SUBSCRIBE id=r-1", delivery="r-1"), answered("r-2"), answered("r-1"), answered("r-1")),
    )

    assert [("answer", 1), ("answer", 2), ("answer", 8)] == [row for row in found if row[0] == "answer"]


def test_a_protocol_that_is_none_is_refused():
    with pytest.raises(HistoryError, match="carries 'coap'"):
        tied([], "coap")


# AMQP 0-9-1


def brought(number, message, words="not persistent", name="basic.deliver", to="to_client", **fields):
    return frame(f"{name} {words}", to, delivery=str(number), message=message, **fields)


def test_what_an_acknowledgement_covers_the_link_has_said():
    others = [brought(n, f"p1:{n + 5}", "not persistent session=2") for n in (1, 2, 3, 4)]
    mine = [brought(n, f"p1:{n}") for n in (1, 2, 3, 4)]
    acks = (
        frame("basic.ack multiple=true accepted covers=1,3-4"),
        frame("basic.ack multiple=false accepted covers=2 session=2"),
    )

    up_to = [("acknowledge_up_to", n) for n in (1, 3, 4)]

    assert [*up_to, ("acknowledge", 7)] == tied_to("amqp091", *others, *mine, *acks)[8:]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("basic.ack multiple=false accepted covers=1", "acknowledge"),
        ("basic.reject multiple=false rejected covers=1", "refuse"),
        ("basic.nack multiple=false released requeue covers=1", "refuse"),
        ("basic.ack multiple=true accepted", None),
        ("basic.recover", None),
    ],
)
def test_only_an_ack_acknowledges(words, expected):
    assert ([(expected, 1)] if expected else []) == tied_to("amqp091", brought(1, "p1:1"), frame(words))[1:]


def test_the_answer_to_a_publish_is_about_what_the_channel_counted():
    sends = [brought(n, f"p1:{n + 8}", "persistent", "basic.publish", "to_broker") for n in (1, 2)]
    answer = frame("basic.ack multiple=true accepted covers=1-2", "to_client")

    assert [("send", 9), ("send", 10), ("deliver", 1), ("answer", 9), ("answer", 10)] == tied_to(
        "amqp091", *sends, brought(1, "p1:1"), answer
    )


@pytest.mark.parametrize(
    ("protocol", "detail", "expected"),
    [
        ("amqp", "transfer handle=0 persistent", True),
        ("amqp", "transfer handle=0", False),
        ("amqp", "transfer handle=0 continued", None),
        ("amqp091", "basic.publish persistent", True),
        ("amqp091", "basic.publish not persistent", False),
        ("stomp", "SEND receipt=1", None),
    ],
)
def test_the_persistence_flag_of_a_send(protocol, detail, expected):
    """Without a word AMQP 1.0 means no (section 3.2.1, durable); a later frame, and STOMP, have none."""
    (row,) = tied([frame(detail, delivery="1", message="p1:1")], protocol)

    assert expected is row.event.durable


def test_a_protocol_without_a_reader_ties_nothing():
    rows = [reached(1), frame("opaque", message="p1:1")]

    assert [(rows[0], None), (frame("opaque"), None)] == [row[:2] for row in tied(rows, "core")]
