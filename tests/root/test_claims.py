"""The catalogue: whole, checked, and refused where it contradicts itself."""

import contextlib
import runpy
import shutil
import sys

import pytest

from conformance import claims, paths
from conformance.errors import CatalogueError, UsageError

FOLDER = paths.suites() / "claims"


def test_checker_finds_nothing(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["check_claims.py", str(FOLDER)])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(FOLDER / "check_claims.py"), run_name="__main__")

    assert (0, f"{len(claims.load().claims)} claims, 0 faults") == (ended.value.code, capsys.readouterr().out.strip())


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("faults: [stop, kill]", "faults: [stop, flood]", "'flood'"),
        ("id: SOLCD-ACK-02", "id: SOLCD-ACK-01", "occurs twice"),
        ("kind: permission", "kind: maybe", "Invalid enum value 'maybe'"),
        ("subject: broker", "subjekt: broker", "unknown field `subjekt`"),
    ],
)
def test_contradiction_is_refused(tmp_path, old, new, why):
    """A word that is not defined, an id twice, a kind that is none, an unknown field."""
    folder = shutil.copytree(FOLDER, tmp_path / "claims")
    path = folder / "000-solace-confirmed-delivery.yaml"
    path.write_text(path.read_text().replace(old, new, 1))

    with pytest.raises(CatalogueError, match=why):
        claims.load(folder)


@pytest.mark.parametrize(
    ("file", "old", "new", "why"),
    [
        ("expectations", "    always_judged: true\n", "", ""),
        ("expectations", "    reason:", "    note:", "have a reason"),
        (
            "expectations",
            'document: "suite"',
            'document: "suite"\n      section: "3"\n      sentence: "A"',
            "needs section",
        ),
        ("stomp-1.2", "    says:", "    always_judged: true\n    says:", "only an expectation"),
        ("stomp-1.2", "    says:", "    documented: true\n    says:", "only an expectation"),
        ("stomp-1.2", "    says:", "    reason: Because.\n    says:", "have a reason"),
    ],
)
def test_an_expectation_has_a_reason_and_no_sentence(tmp_path, file, old, new, why):
    folder = shutil.copytree(FOLDER, tmp_path / "claims")
    path = folder / f"{file}.yaml"
    path.write_text(path.read_text().replace(old, new, 1))

    with pytest.raises(CatalogueError, match=why) if why else contextlib.nullcontext():
        claims.load(folder)


def test_patterns_select():
    catalogue = claims.load()

    assert ["ARTEMIS-ACK-01"] == [c.id for c in claims.select(["ARTEMIS-ACK-01"], catalogue)]
    with pytest.raises(UsageError, match="did you mean 'SOLCD-ACK-01'"):
        claims.select(["SOLCD-AKC-01"], catalogue)


@pytest.mark.parametrize(
    ("when", "values", "absent", "expected"),
    [
        ({"sync": True}, {"sync": True}, (), ""),
        ({"sync": True}, {"sync": False}, (), "sync is false, the claim needs true"),
        ({"sync": "absent"}, {"sync": True}, ("sync",), ""),
        ({"sync": "absent"}, {"sync": True}, (), "sync is set, the claim is about its absence"),
        ({"window": ">0"}, {"window": 0}, (), "window is 0, the claim needs >0"),
        ({"window": ">0"}, {}, (), "the product has no setting window"),
        ({"persistence": True, "sync_non_transactional": True}, {}, (), ""),
        (
            {"persistence": True, "data_sync": True},
            {"persistence": False},
            (),
            "persistence is false, the claim needs true",
        ),
        ({"sync_transactional": False}, {}, (), "the product has no setting sync_transactional"),
        ({"sync_transactional": "absent"}, {}, (), "the product has no setting sync_transactional"),
        ({"block_on_durable_send": True}, {}, (), "the product has no setting block_on_durable_send"),
    ],
)
def test_conditions(when, values, absent, expected):
    assert expected == claims.unmet(when, values, absent)


def test_what_silence_promises():
    """Storage only: every other setting that a claim needs to be true belongs to a client or a session."""
    catalogue = claims.load()
    needed = {name for claim in catalogue.claims.values() for name, value in claim.when.items() if value is True}
    clients = {"block_on_durable_send", "block_on_non_durable_send", "block_on_acknowledge", "ack_immediately"}

    assert claims.STORAGE | clients == needed
    assert catalogue.settings.keys() >= needed


@pytest.mark.parametrize(
    ("claim", "protocol", "bundled", "expected"),
    [
        ("AMQP-DUR-01", "amqp", True, True),
        ("AMQP-DUR-01", "stomp", True, False),
        ("STOMP-RCPT-01", "amqp", True, False),
        ("STOMP-RCPT-01", "stomp", False, True),
        ("SOLCD-ACK-01", "stomp", False, True),
        ("EMS-STEP-06", "amqp", True, True),
        ("EMS-STEP-06", "stomp", True, True),
        ("EMS-STEP-06", "amqp", False, False),
        ("ARTEMIS-SEND-01", "amqp", True, False),
    ],
)
def test_spoken(claim, protocol, bundled, expected):
    """A claim is tried over the protocols that it names; a product's own client is any client of the bundled broker."""
    assert expected == claims.is_about(claims.load().claim(claim), protocol, bundled=bundled)


DROPS = {"max_delivery_attempts": 1, "dead_letter_destination": "", "message_ttl_ms": 0, "expiry_destination": "EXP"}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, ""),
        ({"full_queue_policy": "block"}, ""),
        ({"full_queue_policy": "discard"}, "full_queue_policy is discard: a message for a full queue"),
        ({"ring_size": 9}, "ring_size is 9: a message beyond"),
        ({"non_destructive": True}, "non_destructive is true: a message stays in its queue"),
        ({"consumers_before_dispatch": 2}, "consumers_before_dispatch is 2: a queue gives nothing"),
        ({"consumers_before_dispatch": 1, "dispatch_delay_ms": 50, "last_value": True}, ""),  # these excuse, at most
        ({"purge_without_consumers": True}, "purge_without_consumers is true: a queue is emptied"),
        (DROPS, "max_delivery_attempts is 1, dead_letter_destination is empty: a message is discarded after"),
        ({**DROPS, "dead_letter_destination": "DLQ"}, ""),
        ({**DROPS, "max_delivery_attempts": 10}, ""),
        ({**DROPS, "max_delivery_attempts": -1}, ""),
        ({**DROPS, "max_delivery_attempts": 0}, ""),
        ({"max_delivery_attempts": 1}, ""),  # the file does not say where they go: no claim is excused
        ({"message_ttl_ms": 200, "expiry_destination": ""}, "message_ttl_ms is 200, expiry_destination is empty"),
        ({"message_ttl_ms": 200, "expiry_destination": "EXP"}, ""),
        ({"message_ttl_ms": 3_600_001, "expiry_destination": ""}, ""),  # no trial takes an hour
    ],
)
def test_policies_that_give_a_claim_up(values, expected):
    """The reason names each setting that it rests on; a policy that is not described discards nothing."""
    policies = claims.in_force(claims.load().exclusions, values)
    found = [words for policy, words in policies if "absence" in policy.excuses and not policy.undecided]

    assert (1 if expected else 0) == len(found)
    assert "".join(found).startswith(expected)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({**DROPS, "dead_letter_destination": "DLQ"}, ("DLQ",)),
        ({**DROPS, "dead_letter_destination": "DLQ", "max_delivery_attempts": 10}, ()),
        ({**DROPS, "dead_letter_destination": "Q", "expiry_destination": "Q", "message_ttl_ms": 5}, ("Q",)),
        ({**DROPS, "dead_letter_destination": "DLQ", "message_ttl_ms": 5}, ("EXP", "DLQ")),
        ({"message_ttl_ms": 5}, ()),
    ],
)
def test_queues_that_a_trial_drains_as_well(values, expected):
    """Only those to which a policy can move a message of a trial: draining takes its time."""
    assert expected == claims.set_aside(claims.load().exclusions, values)
