"""DuckDB, asked in other words over the same Parquet files, must count what the judge counts."""

import random

import duckdb
import pytest
from judge_histories import (
    ack_sent,
    acked,
    came,
    confirmed,
    crashed,
    handed,
    killed,
    no_answer,
    processed,
    record,
    refused,
    sent,
    silent,
    stuck,
    write,
)

from conformance.history import Op, Phase
from conformance.judge.compact import OP_CODE, PHASE_CODE, compact
from conformance.judge.verdict import collect_facts

pytestmark = pytest.mark.spark
TRIALS, MESSAGES = 60, 25

# Sets and their differences, not one row a message with flags: the other way to think about it.
ORACLE = """
WITH e AS (SELECT * FROM read_parquet($files)),
attempted AS (SELECT DISTINCT trial, producer, n FROM e WHERE op = $send AND phase = $invoke),
durable AS (SELECT DISTINCT trial, producer, n FROM e WHERE op = $send AND phase = $invoke AND durable),
accepted AS (SELECT DISTINCT trial, producer, n FROM e WHERE op = $send AND phase = $ok),
refused AS (SELECT DISTINCT trial, producer, n FROM e WHERE op = $send AND phase = $fail),
given AS (SELECT trial, producer, n, at_ns, epoch, op, number FROM e
          WHERE op IN ($deliver, $drain) AND phase = $ok AND n IS NOT NULL),
asked AS (SELECT trial, producer, n, at_ns FROM e WHERE op = $ack AND phase = $invoke),
settled_acks AS (SELECT trial, producer, n, min(at_ns) AS at_ns, min(epoch) AS epoch FROM e
                 WHERE op = $ack AND phase = $ok GROUP BY ALL),
fault AS (SELECT trial, min(at_ns) AS at_ns FROM e WHERE op = $fault AND phase = $fired GROUP BY ALL),
quiet AS (SELECT e.trial, number FROM e JOIN fault USING (trial)
          WHERE op = $drain AND phase = $ok AND n IS NULL AND e.at_ns > fault.at_ns),
late AS (SELECT trial, producer, n FROM given JOIN attempted USING (trial, producer, n) WHERE op = $drain
         EXCEPT SELECT trial, producer, n FROM given WHERE op = $drain AND number = 1
         EXCEPT SELECT trial, producer, n FROM asked),
settled AS (SELECT trial FROM quiet WHERE number = 1 INTERSECT SELECT trial FROM quiet WHERE number = 2
            EXCEPT SELECT trial FROM late),
lost AS (SELECT * FROM accepted INTERSECT SELECT * FROM durable EXCEPT SELECT * FROM refused
         EXCEPT SELECT trial, producer, n FROM given),
gone AS (SELECT trial, producer, n FROM given WHERE op = $deliver INTERSECT SELECT * FROM durable
         EXCEPT SELECT trial, producer, n FROM asked
         EXCEPT SELECT trial, producer, n FROM given WHERE op = $drain),
again AS (SELECT DISTINCT a.trial, a.producer, a.n FROM settled_acks a JOIN given g
          ON (a.trial, a.producer, a.n) = (g.trial, g.producer, g.n) AND g.at_ns > a.at_ns AND g.epoch = a.epoch)
SELECT 'lost' AS anomaly, trial, count(*) AS offences FROM lost SEMI JOIN settled USING (trial) GROUP BY ALL
UNION ALL SELECT 'gone', trial, count(*) FROM gone SEMI JOIN settled USING (trial) GROUP BY ALL
UNION ALL SELECT 'delivered_after_acknowledgement', trial, count(*) FROM again GROUP BY ALL
"""
CODES = {
    "send": OP_CODE[Op.SEND],
    "deliver": OP_CODE[Op.DELIVER],
    "drain": OP_CODE[Op.DRAIN],
    "ack": OP_CODE[Op.ACK],
    "fault": OP_CODE[Op.FAULT],
    "invoke": PHASE_CODE[Phase.INVOKE],
    "ok": PHASE_CODE[Phase.OK],
    "fail": PHASE_CODE[Phase.FAIL],
    "fired": PHASE_CODE[Phase.FIRED],
}


def history(rng):
    """Anything that processes could record, likely or not: each message goes its own way."""
    before, first, second = [], [], []
    crash = rng.random() < 0.5
    epoch = 1 if crash else 2
    for n in range(1, MESSAGES + 1):
        way = sent(n, durable=rng.random() < 0.9)
        if rng.random() < 0.8:
            way += confirmed(n)
        if rng.random() < 0.1:
            way += rng.choice([refused(n), no_answer(n)])
        if rng.random() < 0.5:
            way += handed(n) + processed(n)
            if rng.random() < 0.6:
                way += rng.choice([ack_sent(n), acked(n), acked(n) + handed(n)])
        before.append(way)
        if rng.random() < 0.4:
            first += came(n, epoch=epoch)
        elif rng.random() < 0.01:
            second += came(n, drain=2, epoch=epoch + 1)
    rng.shuffle(before)
    end = lambda drain, e: silent(drain, epoch=e) if rng.random() < 0.85 else stuck(drain, epoch=e)  # noqa: E731
    fault = crashed() if crash else killed("consumer-1")
    return [*(e for way in before for e in way), *fault, *first, *end(1, epoch), *second, *end(2, epoch + 1)]


def test_duckdb_counts_the_same(session, tmp_path):
    """Lost, gone and delivered again, in sixty random trials."""
    rng = random.Random(20261121)
    trials = []
    for number in range(TRIALS):
        folder = tmp_path / f"t{number}"
        trials.append(compact(folder, write(folder, history(rng), record(f"t{number}", f"s{number % 7}"))))
    facts = collect_facts(session.spark, trials)
    rows = duckdb.execute(ORACLE, {"files": [str(trial.parquet) for trial in trials], **CODES}).fetchall()
    expected = {(anomaly, trial): offences for anomaly, trial, offences in rows}
    names = ("lost", "gone", "delivered_after_acknowledgement")
    found = {
        (name, trial): facts[trial].offences(name) for trial in facts for name in names if facts[trial].offences(name)
    }

    assert expected == found
    assert all(sum(name == anomaly for anomaly, _ in found) > 5 for name in names), "too few to compare"
