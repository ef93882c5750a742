"""What a STOMP peer may ask for under a profile: docs/reference/profiles.md."""

from __future__ import annotations

import pytest

from conformance.reference.honest import LAZY_S
from conformance.reference.liars import behaviour
from conformance.reference.security import Guard
from conformance.reference.stomp.connection import StompConnection

from .stomp_rig import Client, Rig


def publisher(rig, window="9", mode="windowed", **headers):
    return rig.client(**{"publish-window": window, "ack-event-mode": mode, **headers})


def send(client, *names, **headers):
    for name in names:
        client.say("SEND", {"destination": "q", "persistent": "true", "receipt": name, **headers}, name.encode())


def receipts(client, **how):
    return [frame.headers["receipt-id"] for frame in client.heard(**how) if frame.command == "RECEIPT"]


def test_one_receipt_for_a_third():
    """WINDOWED: the last of three names itself, and speaks for the two before."""
    client = publisher(Rig(profile="solace"))
    send(client, "1", "2")
    assert receipts(client) == []
    send(client, "3")

    assert receipts(client) == ["3"]


def test_per_message_has_all_at_once():
    client = publisher(Rig(profile="solace"), mode="per-message")
    send(client, "1", "2")
    assert receipts(client) == []
    send(client, "3")

    assert receipts(client) == ["1", "2", "3"]


def test_nothing_is_confirmed_that_is_not_stored():
    """The second is over, and the disk has not answered."""
    rig = Rig(profile="solace")
    client = publisher(rig)
    send(client, "1")
    rig.second()
    assert receipts(client, stored=False) == []

    assert receipts(client) == ["1"]


def test_other_profiles_know_no_windows():
    """The same headers, and each SEND has its RECEIPT."""
    client = publisher(Rig(profile="ems"))
    send(client, "1")

    assert receipts(client) == ["1"]


def test_a_wrong_window_is_refused():
    rig = Rig(profile="solace")
    client = Client(rig)
    client.say("CONNECT", {"accept-version": "1.2", "host": "h", "publish-window": "0"})
    frame = client.heard()[0]

    assert frame.command == "ERROR"
    assert "publish-window" in frame.headers["message"]


def test_a_transaction_is_not_windowed():
    client = publisher(Rig(profile="solace"))
    client.say("BEGIN", {"transaction": "t", "receipt": "b"})
    send(client, "1", transaction="t")
    client.say("COMMIT", {"transaction": "t", "receipt": "c"})

    assert receipts(client) == ["b", "1", "c"]


def test_disconnect_waits_for_no_timer():
    """What is stored is confirmed, and then the DISCONNECT."""
    client = publisher(Rig(profile="solace"))
    send(client, "1", "2")
    client.say("DISCONNECT", {"receipt": "d"})

    assert receipts(client) == ["2", "d"]


def test_a_refusal_is_in_no_range():
    """ERROR has the receipt-id of what is refused; what waits for the disk then has its effect, and no RECEIPT."""
    client = publisher(Rig(profile="solace", max_length=2))
    send(client, "1", "2", "3")
    frames = client.heard()

    assert [(f.command, f.headers["receipt-id"]) for f in frames] == [("ERROR", "3")]


def test_a_refusal_after_what_is_stored():
    """What is stored before it has its RECEIPT first."""
    client = publisher(Rig(profile="solace", max_length=2))
    send(client, "1", "2")
    assert receipts(client) == []
    send(client, "3")

    assert [(f.command, f.headers["receipt-id"]) for f in client.heard()] == [("RECEIPT", "2"), ("ERROR", "3")]


def consumer(rig, **headers):
    client = rig.client()
    client.publish(3)
    return client, client.subscribe(**headers)


def test_lazy_acknowledgements_are_answered_before_they_are_stored():
    rig = Rig(profile="ems")
    client, got = consumer(rig, ack_mode="explicit-client-dups-ok")
    client.say("ACK", {"id": got[0].headers["ack"], "receipt": "a"})
    assert receipts(client, stored=False) == ["a"]
    assert not rig.commit.has_waiting
    seconds, store = rig.commit.postponed()[0]
    store()

    assert (seconds, rig.commit.has_waiting) == (LAZY_S, True)


def test_other_modes_are_answered_when_stored():
    rig = Rig(profile="ems")
    client, got = consumer(rig, ack_mode="explicit-client")
    client.say("ACK", {"id": got[0].headers["ack"], "receipt": "a"})
    assert receipts(client, stored=False) == []

    assert receipts(client) == ["a"]


def test_no_ack_removes_what_it_sends():
    rig = Rig(profile="qpid")
    client, got = consumer(rig, ack="client", ack_mode="no-ack")
    client.heard()

    assert (len(got), rig.depth()) == (3, 0)
    assert all("ack" not in frame.headers for frame in got)


@pytest.mark.parametrize(("profile", "command"), [("ems", "ERROR"), ("standard", "MESSAGE")])
def test_an_unknown_mode(profile, command):
    _, got = consumer(Rig(profile=profile), ack_mode="sometimes")

    assert got[0].command == command


LIES = {
    "confirms-by-timer-only": (["1", "2", "3"], {}, [], ["3"]),
    "confirms-by-threshold-only": (["1", "2"], {}, [], []),
    "ignores-ack-immediately": (["1"], {"ack-immediately": "true"}, [], ["1"]),
}


@pytest.mark.parametrize("name", LIES)
def test_liars_about_when(name):
    """What leaves before the second is over, and what with it."""
    sends, headers, before, after = LIES[name]
    rig = Rig(behaviour(name), profile="solace")
    client = publisher(rig)
    send(client, *sends, **headers)
    found = receipts(client)
    rig.second()

    assert (found, receipts(client)) == (before, after)


def test_a_liar_confirms_urgent_sends_before_storing():
    """An urgent one only: another waits for its third."""
    rig = Rig(behaviour("confirms-immediate-before-storing"), profile="solace")
    assert rig.depth() == 0
    rig.disk()
    client = publisher(rig)
    send(client, "1", **{"ack-immediately": "true"})
    early = receipts(client, stored=False)
    send(client, "2", "3", "4")

    assert (early, receipts(client, stored=False), receipts(client)) == (["1"], [], ["4"])


def test_a_liar_covers_what_is_not_stored():
    """Two are stored and one is on its way when the second is over."""
    found = {}
    for name in (None, "range-covers-unstored"):
        rig = Rig(behaviour(name), profile="solace")
        client = publisher(rig)
        send(client, "1", "2")
        rig.disk()
        send(client, "3")
        rig.second()
        found[name] = receipts(client, stored=False)

    assert found == {None: ["2"], "range-covers-unstored": ["3"]}


def test_a_liar_hides_a_refusal_in_a_range():
    rig = Rig(behaviour("range-hides-refusal"), profile="solace", max_length=2)
    client = publisher(rig)
    send(client, "1", "2", "3")

    assert [(f.command, f.headers["receipt-id"]) for f in client.heard()] == [("RECEIPT", "3")]
    assert rig.depth() == 2


def test_a_liar_stores_what_it_refuses():
    rig = Rig(behaviour("stores-what-it-rejects"), max_length=2)
    client = rig.client()
    client.publish(2)
    send(client, "3")

    assert [f.command for f in client.heard()] == ["ERROR"]
    assert rig.depth() == 3


def test_a_liar_takes_neighbours_lazily():
    """One lazy acknowledgement, and its neighbour is gone too; one that is not lazy is honest."""
    left = {}
    for mode in ("explicit-client-dups-ok", "explicit-client"):
        rig = Rig(behaviour("lazy-acknowledge-takes-neighbours"), profile="ems")
        client, got = consumer(rig, ack_mode=mode)
        client.say("ACK", {"id": got[0].headers["ack"], "receipt": "a"})
        receipts(client)
        left[mode] = rig.depth()

    assert left == {"explicit-client-dups-ok": 1, "explicit-client": 2}


@pytest.mark.parametrize(
    ("headers", "command"),
    [
        ({"login": "u", "passcode": "p"}, "CONNECTED"),
        ({"login": "u", "passcode": "q"}, "ERROR"),
        ({"login": "v", "passcode": "p"}, "ERROR"),
        ({}, "ERROR"),
    ],
)
def test_a_guarded_broker(headers, command):
    """One user, and no other; the ERROR does not repeat the passcode."""
    client = Client(Rig())
    client.connection = StompConnection(
        client.rig.broker, lambda: None, client.rig.numbers, client.rig.later, Guard("u", b"p")
    )
    client.say("CONNECT", {"accept-version": "1.2", "host": "h", **headers})
    (frame,) = client.heard()

    assert (frame.command, b"passcode:q" in frame.body) == (command, False)
