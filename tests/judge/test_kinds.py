"""Defects that show in a scenario whose own checks do not look for them: literal histories, and their verdicts.

Each was judged as HOLDS, or not at all, before every message of every trial met the table of fates.
"""

import msgspec
import pytest
from judge_histories import RUN, close, record, write

from conformance import claims, judge, scenario
from conformance.judge.rows import Verdict

pytestmark = pytest.mark.spark

CATALOGUE = claims.load()
SCENARIOS = scenario.load(CATALOGUE)
AMQP = msgspec.structs.replace(
    RUN,
    capabilities=(*RUN.capabilities, "transactions", "transactional_acks", "nack"),
    settings={**RUN.settings, "sync_transactional": True, "max_delivery_attempts": 10},
)
STOMP = msgspec.structs.replace(AMQP, protocol="stomp")
UNANSWERED = msgspec.structs.replace(
    AMQP, capabilities=tuple(name for name in AMQP.capabilities if name != "ack_confirmed")
)
HOUR = msgspec.structs.replace(AMQP, settings={**AMQP.settings, "message_ttl_ms": 3_600_000, "expiry_destination": ""})

KINDS = [
    (
        "an earlier transaction is gone after a kill during the commit of a later one",
        "broker-killed-during-commit",
        "put t1 1 2, committed t1, put t2 3 4, committed t2 None, killed, settled",
        AMQP,
        "SOLCD-TX-02",
    ),
    (
        "committed transactions vanish without a fault",
        "messages-sent-in-transactions",
        "put t1 1 2, committed t1, put t2 3 4, rolled_back t2, silent 1 epoch=1, silent 2",
        AMQP,
        "SOLCD-TX-02",
    ),
    (
        "everything comes again that a session acknowledged, without an answer, before it closed",
        "deliveries-refused",
        (
            "kept 1 2 3, handed 1, ack_sent 1, handed 2, ack_sent 2, handed 3, given_back 3, handed 3, ack_sent 3, "
            "came 1 epoch=1, came 2 epoch=1, came 3 epoch=1, silent 1 epoch=1, silent 2"
        ),
        UNANSWERED,
        "EXPECT-TWICE-01",
    ),
    (
        "a message that was released once comes again after its confirmed acknowledgement",
        "deliveries-refused",
        "kept 1 2, handed 1, given_back 1, handed 1, acked 1, took 2, came 1 epoch=1, silent 1 epoch=1, silent 2",
        AMQP,
        "AMQP-ACC-01",
    ),
    (
        "a message that no consumer had is in the dead-letter queue",
        "consumer-killed-under-individual",
        "kept 1 2, handed 1, crashed, came 1 epoch=1, silent 1 epoch=1, set_aside 2, silent 2",
        AMQP,
        "EXPECT-ASIDE-01",
    ),
    (
        "an open delivery is in the dead-letter queue after the first death of its consumer, of ten",
        "consumer-killed-under-individual",
        "kept 1 2, handed 1, crashed, came 2 epoch=1, silent 1 epoch=1, set_aside 1, silent 2",
        AMQP,
        "EXPECT-ASIDE-01",
    ),
    (
        "what was acknowledged in a transaction without a commit is gone after a kill",
        "broker-killed-during-commit-of-acknowledgements",
        "kept 1 2, acked_in t1 1, committed t1 by=consumer-1, acked_in t2 2, killed consumer-1, settled",
        AMQP,
        "AMQP-TX-06",
    ),
    (
        "a message is accepted, rejected later, and lost",
        "broker-killed-while-publishing",
        "kept 1 2 3, refused 2, sent 4, killed, no_answer 4, settled 1 3",
        AMQP,
        "SOLCD-ACK-01",
    ),
    (
        "a body is altered over STOMP",
        "broker-killed-while-publishing",
        "kept 1 2 3, killed, came 1 intact=False, came 2, came 3, silent 1, silent 2 epoch=3",
        STOMP,
        "EXPECT-BODY-01",
    ),
    (
        "everything is lost within a second, with a time to live of an hour",
        "broker-killed-while-publishing",
        "kept 1 2 3, killed, silent 1, silent 2 epoch=3",
        HOUR,
        "SOLCD-ACK-01",
    ),
]


@pytest.fixture(scope="module")
def violated(session, tmp_path_factory):
    """The claims that are violated by each kind. Kinds in different scenarios are judged together, as one run."""
    found, left = {}, [*KINDS]
    while left:
        run = left[0][3]
        kinds = {script: (name, history) for name, script, history, of, _ in left if of is run}
        folder = tmp_path_factory.mktemp("kinds")
        for script, (_, history) in kinds.items():
            for index in (1, 2, 3):
                about = record(f"{script}.subject.{index}", script, "subject", "", index)
                write(folder / "trials" / about.trial, history, about)
        close(folder, run)
        rows = judge.judge(folder, CATALOGUE, SCENARIOS, session).rows
        for script, (name, _) in kinds.items():
            found[name] = {
                row.claim
                for row in rows
                if row.verdict is Verdict.VIOLATED
                and any(witness.trial.startswith(f"{script}.subject.") for witness in row.witnesses)
            }
        left = [kind for kind in left if kind[0] not in found]
    return found


@pytest.mark.parametrize(("name", "claim"), [(kind[0], kind[-1]) for kind in KINDS], ids=[kind[0] for kind in KINDS])
def test_a_defect_is_seen_in_any_scenario(violated, name, claim):
    assert claim in violated[name]


@pytest.mark.parametrize(
    ("scenario", "history", "account"),
    [
        ("consumer-killed-under-no-ack", "kept 1 2, handed 1, crashed, settled 2 epoch=1", "given_up"),
        ("consumer-killed-under-individual", "kept 1 2, handed 1, crashed, settled 2 epoch=1", "unexplained"),
    ],
)
def test_what_a_script_gives_up_is_explained(session, tmp_path, scenario, history, account):
    """A consumer that settles in advance may lose what it was given."""
    about = record(f"{scenario}.subject.1", scenario, "subject", "", 1)
    write(tmp_path / "trials" / about.trial, history, about)
    close(tmp_path, AMQP)
    found = judge.judge(tmp_path, CATALOGUE, SCENARIOS, session).account

    assert {"delivered": 1, account: 1} == {name: count for name, count in found.items() if count}
