"""DuckDB, asked in other words over the same Parquet files, must find the messages that the judge finds."""

import random

import pytest
from judge_histories import offending, record, write
from judge_words import (
    ack_sent,
    acked,
    acked_in,
    answered,
    came,
    committed,
    confirmed,
    crashed,
    disposed,
    handed,
    hidden,
    killed,
    no_answer,
    processed,
    reached,
    refused,
    rolled_back,
    sent,
    silent,
    stuck,
    sync_failed,
    synced,
    transferred,
    wrote,
)

from benchmarks.engines import DUCKDB, duckdb_counts, execute, polars_counts, spark_counts
from benchmarks.histories import CHECKS
from conformance.history import Op, Phase
from conformance.judge.input.packing import compact_all
from conformance.judge.spark import INTERPRETED, size_plans

pytestmark = pytest.mark.spark
TRIALS, MESSAGES = 40, 25
"""Trials of each kind, and messages of each trial."""

SEEDS, TRIALS_OF_A_SEED = 5, 400
"""Five kinds of each: 10,000 histories in five jobs."""

ANSWERS = (Phase.FAIL, Phase.INFO)
SETS = (
    "lost",
    "gone",
    "delivered_after_acknowledgement",
    "lost_committed",
    "half_applied",
    "undischarged_gone",
    "transacted_acknowledgement",
    "confirmed_before_sync",
    "committed_before_sync",
    "confirmed_though_sync_failed",
    "settled_again",
    "acknowledged_early",
    "acknowledged_unhanded",
    "acknowledged_at_all",
)
NAMES = tuple(dict.fromkeys([*SETS, *CHECKS]))

# Sets and their differences, not one row a message with flags: the other way to think about it.
ORACLE = """
WITH e AS (SELECT * FROM read_parquet($files)),
attempted AS (SELECT DISTINCT trial, producer, n FROM e WHERE op = $send AND phase = $invoke),
durable AS (SELECT DISTINCT trial, producer, n FROM e WHERE op = $send AND phase = $invoke AND durable),
joined AS (SELECT DISTINCT trial, process, txn, op, producer, n FROM e
           WHERE op IN ($send, $ack) AND phase = $invoke AND txn IS NOT NULL),
posted AS (SELECT trial, process, txn, producer, n FROM joined WHERE op = $send),
retired AS (SELECT trial, process, txn, producer, n FROM joined WHERE op = $ack),
discharge AS (SELECT trial, process, txn, op, phase, at_ns, epoch FROM e WHERE op IN ($commit, $rollback) AND n IS NULL),
commit_asked AS (SELECT * FROM discharge WHERE op = $commit AND phase = $invoke),
committed AS (SELECT * FROM discharge WHERE op = $commit AND phase = $ok),
rolled_back AS (SELECT * FROM discharge WHERE op = $rollback AND phase = $ok),
accepted AS (SELECT DISTINCT trial, producer, n FROM e WHERE op = $send AND phase = $ok
             EXCEPT SELECT trial, producer, n FROM posted),
refused AS (SELECT trial, producer, n FROM e WHERE op = $send AND phase IN ($ok, $fail)
            GROUP BY ALL HAVING arg_min(phase, at_ns) = $fail
            UNION SELECT p.trial, p.producer, p.n FROM posted p JOIN e USING (trial, producer, n)
            WHERE e.op = $send AND e.phase = $fail),
unwanted AS (SELECT * FROM refused EXCEPT SELECT * FROM accepted),
given AS (SELECT trial, producer, n, at_ns, epoch, op, number FROM e
          WHERE op IN ($deliver, $drain) AND phase = $ok AND n IS NOT NULL),
asked AS (SELECT trial, producer, n, at_ns, txn FROM e WHERE op = $ack AND phase = $invoke),
taken AS (SELECT trial, producer, n FROM asked WHERE txn IS NULL
          UNION SELECT trial, producer, n FROM retired SEMI JOIN commit_asked USING (trial, process, txn)),
settled_acks AS (SELECT trial, producer, n, min(at_ns) AS at_ns, min(epoch) AS epoch FROM e
                 WHERE op = $ack AND phase = $ok GROUP BY ALL),
fault AS (SELECT trial, min(at_ns) AS at_ns FROM e WHERE op = $fault AND phase = $fired GROUP BY ALL),
quiet AS (SELECT e.trial, number FROM e JOIN fault USING (trial)
          WHERE op = $drain AND phase = $ok AND n IS NULL AND e.at_ns > fault.at_ns),
over AS (SELECT e.trial, number FROM e JOIN fault USING (trial)
         WHERE op = $drain AND phase IN ($ok, $info) AND n IS NULL AND e.at_ns > fault.at_ns),
accounted AS (SELECT trial FROM over WHERE number = 1 INTERSECT SELECT trial FROM over WHERE number = 2
              EXCEPT SELECT trial FROM given WHERE op = $drain AND number = 2),
settled AS (SELECT trial FROM accounted INTERSECT SELECT trial FROM quiet WHERE number = 2),
depth AS (SELECT trial, arg_max(count, at_ns) AS depth FROM e WHERE op = $depth AND phase = $ok GROUP BY ALL),
drained AS (SELECT DISTINCT trial, producer, n FROM given WHERE op = $drain),
sure AS (SELECT * FROM accepted UNION
         SELECT DISTINCT trial, producer, n FROM posted SEMI JOIN committed USING (trial, process, txn)),
expected AS (SELECT * FROM sure EXCEPT SELECT * FROM refused EXCEPT SELECT * FROM drained
         EXCEPT SELECT trial, producer, n FROM asked),
ranked AS (SELECT trial, producer, n, row_number() OVER (PARTITION BY trial ORDER BY
             (SELECT count(*) FROM given g WHERE (g.trial, g.producer, g.n) = (expected.trial, expected.producer, expected.n)),
             (SELECT count(*) FROM durable d WHERE (d.trial, d.producer, d.n) = (expected.trial, expected.producer, expected.n)) DESC,
             producer, n) AS place FROM expected),
in_queue AS (SELECT trial, producer, n FROM ranked JOIN depth USING (trial) ANTI JOIN settled USING (trial)
             WHERE place <= depth),
lost AS (SELECT * FROM accepted INTERSECT SELECT * FROM durable EXCEPT SELECT * FROM refused
         EXCEPT SELECT trial, producer, n FROM given EXCEPT SELECT * FROM in_queue),
gone AS (SELECT trial, producer, n FROM given WHERE op = $deliver INTERSECT SELECT * FROM durable
         INTERSECT (SELECT * FROM sure EXCEPT SELECT * FROM refused)
         EXCEPT SELECT trial, producer, n FROM asked
         EXCEPT SELECT trial, producer, n FROM given WHERE op = $drain),
again AS (SELECT DISTINCT a.trial, a.producer, a.n FROM settled_acks a JOIN given g
          ON (a.trial, a.producer, a.n) = (g.trial, g.producer, g.n) AND g.at_ns > a.at_ns AND g.epoch = a.epoch
          EXCEPT SELECT * FROM unwanted),
absent AS (SELECT * FROM durable EXCEPT SELECT * FROM refused EXCEPT SELECT trial, producer, n FROM given),
lost_committed AS (SELECT DISTINCT trial, producer, n FROM posted SEMI JOIN committed USING (trial, process, txn)
                   SEMI JOIN absent USING (trial, producer, n)),
half_applied AS (SELECT DISTINCT trial, producer, n FROM posted SEMI JOIN commit_asked USING (trial, process, txn)
                 SEMI JOIN absent USING (trial, producer, n)
                 SEMI JOIN (FROM posted SEMI JOIN given USING (trial, producer, n)) USING (trial, process, txn)),
undischarged AS (SELECT trial, producer, n FROM retired
                 EXCEPT SELECT trial, producer, n FROM retired SEMI JOIN commit_asked USING (trial, process, txn)
                 EXCEPT SELECT trial, producer, n FROM retired SEMI JOIN rolled_back USING (trial, process, txn)),
undischarged_gone AS (SELECT * FROM undischarged INTERSECT SELECT * FROM durable
                      EXCEPT SELECT g.trial, g.producer, g.n FROM given g JOIN asked a USING (trial, producer, n)
                      GROUP BY ALL HAVING max(g.at_ns) > max(a.at_ns)),
taken_twice AS (SELECT r.trial, r.producer, r.n FROM retired r JOIN committed c USING (trial, process, txn)
                JOIN given g ON (r.trial, r.producer, r.n) = (g.trial, g.producer, g.n)
                AND g.at_ns > c.at_ns AND (g.epoch, c.epoch) = (1, 1)),
owed AS (SELECT r.trial, r.producer, r.n, max(b.at_ns) AS at_ns FROM retired r
         JOIN rolled_back b USING (trial, process, txn) GROUP BY ALL),
kept_back AS (SELECT trial, producer, n FROM owed EXCEPT SELECT * FROM taken
              EXCEPT SELECT o.trial, o.producer, o.n FROM owed o JOIN given g USING (trial, producer, n)
              WHERE g.at_ns > o.at_ns),
hidden AS (SELECT DISTINCT trial FROM e WHERE op = $sync AND phase = $info AND n IS NULL AND txn IS NULL),
stored AS (SELECT trial, producer, n, phase, at_ns FROM e WHERE op = $sync AND n IS NOT NULL AND txn IS NULL),
answered AS (SELECT trial, producer, n, min(at_ns) AS at_ns FROM e
             WHERE op = $send AND phase = $ok GROUP BY ALL),
kept_well AS (SELECT DISTINCT c.trial, c.producer, c.n FROM answered c JOIN stored s USING (trial, producer, n)
              WHERE s.phase = $ok AND s.at_ns <= c.at_ns),
early AS (SELECT * FROM accepted INTERSECT SELECT * FROM durable
          INTERSECT SELECT trial, producer, n FROM stored WHERE phase = $invoke
          EXCEPT SELECT * FROM refused EXCEPT SELECT * FROM kept_well),
rewritten AS (SELECT w.trial, w.producer, w.n FROM stored w JOIN stored f USING (trial, producer, n)
              WHERE (w.phase, f.phase) = ($invoke, $fail) AND w.at_ns > f.at_ns),
unspoilt AS (SELECT trial, producer, n FROM stored s WHERE phase = $ok AND NOT EXISTS (FROM stored f
             WHERE (f.trial, f.producer, f.n, f.phase) = (s.trial, s.producer, s.n, $fail) AND f.at_ns <= s.at_ns)),
in_vain AS (SELECT trial, producer, n FROM stored WHERE phase = $fail INTERSECT SELECT * FROM accepted
            INTERSECT SELECT * FROM durable EXCEPT SELECT * FROM refused
            EXCEPT (SELECT * FROM kept_well INTERSECT (SELECT * FROM rewritten UNION SELECT * FROM unspoilt))),
stored_commit AS (SELECT trial, txn, phase, at_ns FROM e WHERE op = $sync AND n IS NULL AND txn IS NOT NULL),
early_commit AS (SELECT trial, process, txn FROM committed
                 SEMI JOIN (FROM stored_commit WHERE phase = $invoke) USING (trial, txn)
                 WHERE NOT EXISTS (FROM stored_commit s WHERE (s.trial, s.txn) = (committed.trial, committed.txn)
                                   AND s.phase = $ok AND s.at_ns <= committed.at_ns)),
early_committed AS (SELECT trial, producer, n FROM posted SEMI JOIN early_commit USING (trial, process, txn)
                    INTERSECT SELECT * FROM durable EXCEPT SELECT * FROM refused),
passed AS (SELECT trial, producer, n, at_ns, epoch, carries, settled, whole FROM e WHERE op = $frame AND n IS NOT NULL),
there AS (SELECT trial, producer, n, at_ns FROM passed WHERE carries = $carries_delivery AND whole AND epoch = 1),
there_settled AS (SELECT trial, producer, n, at_ns FROM passed WHERE carries = $carries_delivery AND whole AND settled AND epoch = 1),
settled_again AS (SELECT DISTINCT s.trial, s.producer, s.n FROM there_settled s JOIN
                  (FROM there UNION ALL SELECT trial, producer, n, at_ns FROM given WHERE op = $drain) g
                  ON (s.trial, s.producer, s.n) = (g.trial, g.producer, g.n) AND g.at_ns > s.at_ns),
acknowledged AS (SELECT trial, producer, n, at_ns FROM passed WHERE carries = $carries_acknowledge),
processed AS (SELECT trial, producer, n, at_ns FROM e WHERE op = $process AND phase = $ok),
unprocessed AS (SELECT DISTINCT trial, producer, n FROM acknowledged t WHERE NOT EXISTS (FROM processed p
                WHERE (p.trial, p.producer, p.n) = (t.trial, t.producer, t.n) AND p.at_ns <= t.at_ns)),
unhanded AS (SELECT DISTINCT trial, producer, n FROM acknowledged t WHERE NOT EXISTS (FROM given g
             WHERE (g.trial, g.producer, g.n) = (t.trial, t.producer, t.n) AND g.at_ns <= t.at_ns)),
misapplied AS (SELECT * FROM kept_back INTERSECT SELECT * FROM durable)
SELECT 'lost', trial, producer, n FROM lost SEMI JOIN accounted USING (trial)
UNION SELECT 'gone', trial, producer, n FROM gone SEMI JOIN settled USING (trial)
UNION SELECT 'delivered_after_acknowledgement', trial, producer, n FROM again
UNION SELECT 'lost_committed', trial, producer, n FROM (FROM lost_committed EXCEPT FROM in_queue)
      SEMI JOIN accounted USING (trial)
UNION SELECT 'half_applied', trial, producer, n FROM half_applied SEMI JOIN settled USING (trial)
UNION SELECT 'undischarged_gone', trial, producer, n FROM undischarged_gone SEMI JOIN settled USING (trial)
UNION SELECT 'confirmed_before_sync', trial, producer, n FROM early ANTI JOIN hidden USING (trial)
UNION SELECT 'confirmed_though_sync_failed', trial, producer, n FROM in_vain ANTI JOIN hidden USING (trial)
UNION SELECT 'committed_before_sync', trial, producer, n FROM early_committed ANTI JOIN hidden USING (trial)
UNION SELECT 'settled_again', trial, producer, n FROM settled_again
UNION SELECT 'acknowledged_early', trial, producer, n FROM unprocessed
UNION SELECT 'acknowledged_unhanded', trial, producer, n FROM unhanded
UNION SELECT 'acknowledged_at_all', trial, producer, n FROM acknowledged
UNION SELECT 'transacted_acknowledgement', trial, producer, n FROM misapplied SEMI JOIN settled USING (trial)
UNION SELECT 'transacted_acknowledgement', trial, producer, n FROM taken_twice
"""


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
    fault = crashed() if crash else killed("consumer-1")
    return [*(e for way in before for e in way), *fault, *ended(rng, first, second, epoch)]


def ended(rng, first, second, epoch):
    """Two drains and what each brings; now and then one does not find silence."""
    end = lambda drain, e: silent(drain, epoch=e) if rng.random() < 0.85 else stuck(drain, epoch=e)  # noqa: E731
    return [*first, *end(1, epoch), *second, *end(2, epoch + 1)]


def discharged(rng, tx, by):
    """Committed, rolled back, or left open; answered in every way, or not at all."""
    if rng.random() < 0.2:
        return []
    return rng.choice([committed, committed, rolled_back])(tx, rng.choice([Phase.OK] * 4 + [*ANSWERS, None]), by)


def posting(rng):
    """Sends in transactions, all, some or none of which are there after the kill."""
    before, first, second = [], [], []
    for number in range(1, 7):
        tx, members = f"t{number}", range(number * 5 - 4, number * 5 + 1)
        there = rng.choice([0.0, 0.0, 1.0, 1.0, 0.6])
        for n in members:
            before += sent(n, durable=rng.random() < 0.9, tx=tx)
            before += refused(n, tx=tx) if rng.random() < 0.05 else confirmed(n, tx=rng.choice([tx, tx, None]))
            if rng.random() < there:
                first += came(n)
            elif rng.random() < 0.01:
                second += came(n, drain=2, epoch=3)
        before += discharged(rng, tx, "publisher-1")
    return [*before, *killed(), *ended(rng, first, second, 2)]


def retiring(rng):
    """Acknowledgements in transactions; what was not committed may be handed over and acknowledged again."""
    crash = rng.random() < 0.6
    epoch = 1 if crash else 2
    before = [e for n in range(1, MESSAGES + 1) for e in [*sent(n, durable=rng.random() < 0.9), *confirmed(n)]]
    fresh, first, second = list(range(1, MESSAGES + 1)), [], []
    for number in range(1, 8):
        tx, members = f"t{number}", [fresh.pop(0) for _ in range(min(4, len(fresh)))]
        before += acked_in(tx, *members) + discharged(rng, tx, "consumer-1")
        fresh = [n for n in members if rng.random() < 0.25] + fresh
    for n in range(1, MESSAGES + 1):
        if rng.random() < 0.4:
            first += came(n, epoch=epoch)
        elif rng.random() < 0.02:
            second += came(n, drain=2, epoch=epoch + 1)
    return [*before, *(crashed() if crash else killed("consumer-1")), *ended(rng, first, second, epoch)]


def storing(rng):
    """Sends and commits whose records are written, synced and answered in any order, or not at all."""
    events = []
    for n in range(1, MESSAGES + 1):
        tx = f"t{(n - 1) // 5 + 1}" if n <= 15 else None
        way = [(0, sent(n, durable=rng.random() < 0.9, tx=tx)), (9 * (tx is None), confirmed(n, tx=tx))]
        way += [
            (rng.randint(1, 12), step(n)) for step in (wrote, synced, sync_failed, wrote, synced) if rng.random() < 0.5
        ]
        way += [(9, refused(n, tx=tx))] * (rng.random() < 0.05)
        events += [(n + 3 * rank * rng.random(), what) for rank, what in way if rng.random() < 0.95]
    for tx in ("t1", "t2", "t3"):
        at = 20 + 5 * int(tx[1])
        way = [(0, committed(tx, None)), (5, answered(Op.COMMIT, tx)), (1, wrote(tx)), (6, synced(tx))]
        events += [(at + rank * rng.random(), what) for rank, what in way if not rank or rng.random() < 0.9]
    unseen = hidden() if rng.random() < 0.1 else []
    return [*(e for _, what in sorted(events, key=lambda timed: timed[0]) for e in what), *unseen, *killed()]


def linking(rng):
    """Deliveries over two links, settled or not, there or not, acknowledged in ranges and at any time."""
    events = []
    for n in range(1, MESSAGES + 1):
        words = rng.choice(["settled", "settled", "", "settled more"])
        way = [(0, sent(n) + confirmed(n)), (2, transferred(n, words=words))]
        way += [(3, handed(n))] * (rng.random() < 0.8) + [(4, processed(n))] * (rng.random() < 0.8)
        way += [(rng.randint(3, 8), disposed(n, n + rng.choice([0, 0, 1, 2])))] * (rng.random() < 0.5)
        way += [(rng.randint(1, 8), transferred(n, words=words, link=2))] * (rng.random() < 0.15)
        events += [(n + rank * rng.random(), what) for rank, what in way]
    again = [e for n in range(1, MESSAGES + 1) if rng.random() < 0.2 for e in came(n, epoch=rng.choice([1, 1, 2]))]
    there = reached(rng.randint(MESSAGES // 2, MESSAGES)) + reached(rng.randint(1, 5), link=2)
    return [*(e for _, what in sorted(events, key=lambda timed: timed[0]) for e in what), *there, *crashed(), *again]


def packed(folder, seed, count):
    """Return so many trials of each kind."""
    rng = random.Random(seed)
    kinds = [history, posting, retiring, storing, linking] * count
    places = [(folder / f"t{number}", f"s{number % 7}") for number in range(len(kinds))]
    written = [
        (place, write(place, kind(rng), record(place.name, name)))
        for (place, name), kind in zip(places, kinds, strict=True)
    ]
    return compact_all(written)


def compared(spark, trials):
    """Return the messages that show an anomaly, by trial: as sets and as flags find them in DuckDB, and as the judge."""
    files = [trial.parquet for trial in trials]
    flags = " UNION ALL ".join(
        f"SELECT '{check}', trial, producer, n FROM judged WHERE applies_{check} AND offends_{check}"
        for check in CHECKS
    )
    asked = execute(ORACLE, files), execute(f"{DUCKDB} {flags}", files), offending(spark, trials, NAMES)
    return [by_trial(trials, rows) for rows in asked]


def by_trial(trials, rows):
    found = {trial.record.trial: set() for trial in trials}
    for anomaly, trial, producer, n in rows:
        found[trial].add((anomaly, producer, n))
    return found


def of(names, found):
    """Return of each trial only what shows these anomalies."""
    return {trial: {each for each in shown if each[0] in names} for trial, shown in found.items()}


@pytest.mark.parametrize("events", [0, INTERPRETED + 1], ids=["interpreted", "compiled"])
def test_duckdb_finds_the_same_messages(session, tmp_path, events):
    """In random trials; the plan is one for so many events."""
    size_plans(session.spark, events)
    sets, flags, found = compared(session.spark, packed(tmp_path, 20261121, TRIALS))

    assert of(SETS, found) == sets
    assert of(CHECKS, found) == flags
    assert all(sum(name in {each for each, *_ in shown} for shown in found.values()) > 5 for name in NAMES)


def test_the_engines_of_the_benchmark_count_the_same(session, tmp_path):
    """Also what a check applies to, which decides between HOLDS and INCONCLUSIVE."""
    trials = packed(tmp_path, 20261126, TRIALS)
    counted = spark_counts(session.spark, trials)

    assert counted == polars_counts([trial.parquet for trial in trials])
    assert counted == duckdb_counts([trial.parquet for trial in trials])
    assert all(sum(offends > 0 for (_, name), (_, offends) in counted.items() if name == check) > 5 for check in CHECKS)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(SEEDS))
def test_ten_thousand_histories_agree(session, tmp_path, seed):
    """2,000 of each seed, in one job: to the message."""
    sets, flags, found = compared(session.spark, packed(tmp_path, seed, TRIALS_OF_A_SEED))
    agreeing = [
        trial for trial in found if of(SETS, found)[trial] == sets[trial] and of(CHECKS, found)[trial] == flags[trial]
    ]

    assert 5 * TRIALS_OF_A_SEED == len(agreeing)
