"""Mutation of the anomalies: each condition is changed in one place, and a literal history must tell.

A change is: a part left out, AND for OR, a comparison the other way or with its bound, a negation, a sum for a
difference, a number one larger. The plan derives the columns of all histories once, and Spark counts every mutant on
them. What no history tells is in `ALIVE`, with the reason.
"""

import pytest
import sqlglot
from judge_cases import CASES
from judge_histories import record, write
from sqlglot import expressions as sql

from conformance.judge.anomalies import ANOMALIES
from conformance.judge.input.packing import compact_all
from conformance.judge.plan import relations

pytestmark = [pytest.mark.spark, pytest.mark.full]

BOUND = {sql.GT: sql.GTE, sql.GTE: sql.GT, sql.LT: sql.LTE, sql.LTE: sql.LT}
OPPOSITE = {sql.GT: sql.LTE, sql.GTE: sql.LT, sql.LT: sql.GTE, sql.LTE: sql.GT, sql.EQ: sql.NEQ, sql.NEQ: sql.EQ}
ALIVE = {
    "only a message that was sent has the other columns": """
        answered_afterwards: without attempted
        asynchronous_send_waited: without attempted
        came_otherwise_than_other: without attempted
        confirmed_nowhere: without attempted
        confirmed_though_sync_failed: without attempted
        flag_missing: without attempted
        send_returned: without attempted
        send_waited: without attempted
        unanswered_send: without attempted
    """,
    "only an acknowledgement, a confirm or a commit has the other columns": """
        delivered_after_acknowledgement: without NOT acked_at IS NULL
        lost_though_old: without confirmed
        not_exactly_one: without NOT acked_at IS NULL
        not_once: without in_transaction
        sooner_than_round_trip: without send_txn IS NULL
        transaction_torn: without (in_transaction OR NOT ack_txn IS NULL)
    """,
    "what is asked for after the pause is answered after it": """
        acknowledge_waited: without ack_sent_at < resumed_at
        asynchronous_send_waited: without sent_at < resumed_at
        send_waited: without sent_at < resumed_at
        transacted_send_waited: without sent_at < resumed_at
    """,
    "it applies only to what is answered or overdue": "unanswered_send: without overdue",
    "the last that was confirmed was asked for": "unasked_missing: n < last_confirmed -> lte",
    "true changes nothing": """
        commit_returned: without TRUE
        flag_differs: without TRUE
        rollback_returned: without TRUE
    """,
    "an unknown mark is not counted either": "failure_unmarked: COALESCE(next_marked, TRUE) -> next_marked",
}
"""By reason, the mutants that no history tells."""

AT_ONCE = 60
"""So many mutants are counted by one plan."""


def mutants(condition):
    """Return the conditions that differ from this one in one place, by what is changed."""
    tree = sqlglot.parse_one(condition, dialect="spark")
    found = {}
    for place, node in enumerate(tree.walk()):
        for words, change in changes(node):
            copy = tree.copy()
            changed = list(copy.walk())[place]
            if changed is copy:
                copy = change
            else:
                changed.replace(sql.Paren(this=change.copy()))
            found[words] = copy.sql(dialect="spark")
    return found


def changes(node):
    """Yield what may stand for a node, in words first.

    Two events have different times, and no history tells a nanosecond, so a bound of times is not changed. A message is
    counted if a condition is true, so false instead of unknown changes nothing but under NOT.
    """

    def instead(kind):
        return f"{node} -> {kind.key}", kind(this=node.left, expression=node.right)

    match node:
        case sql.And() | sql.Or():
            other = sql.Or if isinstance(node, sql.And) else sql.And
            yield f"without {node.right}", node.left
            yield f"without {node.left}", node.right
            yield (
                f"{other.key} {node.right}",
                other(this=sql.Paren(this=node.left), expression=sql.Paren(this=node.right)),
            )
        case sql.Not():
            yield f"{node} -> true", node.this
        case sql.Is():
            yield f"{node} -> not", sql.Not(this=node)
        case sql.Add() | sql.Sub():
            yield instead(sql.Sub if isinstance(node, sql.Add) else sql.Add)
        case sql.Mul():
            yield f"{node} -> {node.left}", node.left
        case sql.Coalesce():
            (instead_of_null,) = node.expressions
            yield f"{node} -> {instead_of_null}", instead_of_null
            if instead_of_null != sql.false() or node.find_ancestor(sql.Not):
                yield f"{node} -> {node.this}", node.this
        case sql.Literal() if not node.is_string and not is_time(node.parent):
            yield f"{node} in {node.parent} + 1", sql.Literal.number(int(node.this) + 1)
        case _ if type(node) in OPPOSITE:
            yield instead(OPPOSITE[type(node)])
            if type(node) in BOUND and not (is_time(node.left) or is_time(node.right)):
                yield instead(BOUND[type(node)])


def is_time(node):
    """Whether a time or a duration in nanoseconds is part of it."""
    return any(column.name.endswith(("_at", "_ns")) for column in node.find_all(sql.Column)) or isinstance(
        node, sql.Cast
    )


@pytest.fixture(scope="module")
def messages(session, tmp_path_factory):
    """The view of all messages of the literal histories, with every column that the anomalies name."""
    folder = tmp_path_factory.mktemp("mutants")
    histories = {name: case[-1] for name, case in CASES.items()}
    places = [(folder / str(number), name) for number, name in enumerate(histories)]
    trials = compact_all([(place, write(place, histories[name], record(trial=name))) for place, name in places])
    paths, events = [str(trial.parquet) for trial in trials], sum(trial.events for trial in trials)
    rows = relations.messages(session.spark, paths, events, relations.EVERY).where("is_message")
    rows.write.parquet(str(folder / "messages"))
    session.spark.read.parquet(str(folder / "messages")).coalesce(1).createOrReplaceTempView("messages")
    session.spark.sql("CACHE TABLE messages")
    return session.spark


def counted(spark, conditions):
    """Return how many messages a pair of conditions applies to and convicts, by trial, for each pair."""
    found = []
    for start in range(0, len(conditions), AT_ONCE):
        columns = ", ".join(
            f"count_if({applies}) AS applies_{number}, count_if(({applies}) AND ({offends})) AS offends_{number}"
            for number, (applies, offends) in enumerate(conditions[start : start + AT_ONCE])
        )
        rows = spark.sql(f"SELECT trial, {columns} FROM messages GROUP BY trial").collect()
        found += [
            {row.trial: (row[f"applies_{number}"], row[f"offends_{number}"]) for row in rows}
            for number in range(len(conditions[start : start + AT_ONCE]))
        ]
    return found


def test_a_history_tells_each_mutant(messages):
    """But for those that are listed."""
    changed = [
        (name, words, (mutant, anomaly.offends) if part == "applies" else (anomaly.applies, mutant))
        for name, anomaly in ANOMALIES.items()
        for part in ("applies", "offends")
        for words, mutant in mutants(getattr(anomaly, part)).items()
    ]
    alive = []
    for (name, words, _), by_trial in zip(changed, counted(messages, [pair for *_, pair in changed]), strict=True):
        told = {trial: (applies, offends) for trial, (anomaly, applies, offends, _) in CASES.items() if anomaly == name}
        if all(by_trial[trial] == expected for trial, expected in told.items() if trial in by_trial):
            alive.append(f"{name}: {words}")

    listed = [line.strip() for lines in ALIVE.values() for line in lines.strip().splitlines()]
    assert len(changed) > 1400
    assert sorted(set(alive) - set(listed)) == []
    assert sorted(set(listed) - set(alive)) == [], "told now: remove them"
