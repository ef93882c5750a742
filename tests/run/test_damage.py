"""Damage in a trial: what counts as a report of it, and what a broker is seen to answer."""

import types

import pytest

from conformance.history import Op, Phase
from conformance.run.trial.damage import Damaged
from conformance.scenario.script import Corrupt, CorruptReplica, Restart

STARTED = "2026-01-01 10:00:00,123 INFO journal of 7 files opened in 12 ms"
LOST = "2026-01-01 10:00:05,123 WARN connection 12 of a client ended"


class Notes:
    def __init__(self):
        self.taken = []

    def __call__(self, op, phase, **fields):
        self.taken.append((op, phase, fields.get("detail")))


@pytest.fixture
def broker(tmp_path):
    folder = tmp_path / "brokers" / "01-any"
    (folder / "data").mkdir(parents=True)
    (folder / "start-1.log").write_text(f"{STARTED}\n{LOST}\n")
    facts = types.SimpleNamespace(folder=folder, data=folder / "data", logs=[folder / "start-1.log"])
    node = types.SimpleNamespace(facts=facts)
    return types.SimpleNamespace(node=node, nodes=(node,))


def planned(*faults):
    return types.SimpleNamespace(
        id="s.subject.1", seed=7, script=types.SimpleNamespace(id="stored-file-damaged", faults=faults)
    )


def said_of(broker, monkeypatch, tmp_path, *lines):
    """What is noted when the log has these lines since the damage."""
    monkeypatch.setattr("conformance.run.trial.damage.corrupt", lambda *_, **__: "byte 1 of a file was changed")
    damaged, notes = Damaged(broker, tmp_path, planned(Corrupt("body_bit"))), Notes()
    damaged.before_start(Restart(clean=True, under=Corrupt("body_bit")), notes)
    with (broker.node.facts.logs[0]).open("a") as log:
        log.writelines(f"{line}\n" for line in lines)
    damaged.report(notes)
    return notes.taken


@pytest.mark.parametrize(
    "line",
    [
        "2026-01-01 11:00:00,123 ERROR record 7 cannot be read",
        "2026-01-01 11:00:00,123 WARN journal 2 has a hole",
        "2026-01-01 11:00:00,123 INFO skipping the corrupted record 7",
        "java.io.EOFException",
    ],
)
def test_a_line_that_is_a_report(broker, monkeypatch, tmp_path, line):
    assert (Op.BROKER, Phase.INFO, f"reported: {line}") == said_of(broker, monkeypatch, tmp_path, STARTED, line)[-1]


@pytest.mark.parametrize(
    "line",
    [
        "2026-01-01 11:00:00,456 INFO journal of 9 files opened in 3 ms",
        "2026-01-01 11:00:00,123 INFO queue stored_file_damaged_1 has 300 messages",
        "connection 2 is open",
        "2026-01-01 11:00:00,123 WARN connection 99 of a client ended",
    ],
)
def test_a_line_that_is_none(broker, monkeypatch, tmp_path, line):
    """It is as the broker wrote before, but for its numbers; or it says nothing of damage."""
    notes = said_of(broker, monkeypatch, tmp_path, line)

    assert [Phase.ARMED, Phase.FIRED, Phase.EFFECTIVE] == [phase for _, phase, _ in notes]
    assert "byte 1 of a file was changed" == notes[1][2]


def test_each_new_line_of_a_log_without_levels(broker, monkeypatch, tmp_path):
    """As the bundled broker prints it."""
    broker.node.facts.logs[0].write_text("the broker listens at port 1\n")
    notes = said_of(broker, monkeypatch, tmp_path, "the broker listens at port 2", "the journal has an open end")

    assert "reported: the journal has an open end" == notes[-1][2]


def test_the_data_of_a_node_that_did_not_serve(broker, monkeypatch, tmp_path):
    """The kill that follows is the unit of the trial: the damage has no moment of its own."""
    met = []
    monkeypatch.setattr(
        "conformance.run.trial.damage.corrupt", lambda _, data, *__, **___: met.append(data) or "byte 1"
    )
    served = broker.node
    facts = types.SimpleNamespace(folder=tmp_path / "node-2", data=tmp_path / "node-2" / "data", logs=[])
    both = types.SimpleNamespace(node=served, nodes=(served, types.SimpleNamespace(facts=facts)))
    fault, notes = CorruptReplica("body_bit"), Notes()
    Damaged(both, tmp_path, planned(fault)).before_start(Restart(clean=True, under=fault), notes)

    assert [facts.data] == met
    assert [(Phase.ARMED, None), (Phase.EFFECTIVE, "byte 1 of node-2")] == [
        (phase, text) for _, phase, text in notes.taken
    ]


def test_a_trial_without_damage_keeps_no_copy_and_reports_nothing(broker, tmp_path):
    damaged, notes = Damaged(broker, tmp_path, planned()), Notes()
    damaged.before_start(Restart(clean=True), notes)
    damaged.report(notes)

    assert ([], False) == (notes.taken, damaged.done)
    assert ["01-any"] == [path.name for path in (tmp_path / "brokers").iterdir()]


def test_the_data_are_kept_until_the_end(broker, tmp_path):
    """For a file that becomes what it was."""
    (broker.node.facts.data / "1.log").write_text("as it was")
    damaged = Damaged(broker, tmp_path, planned(Corrupt("older_file")))
    damaged.before_start(Restart(clean=True), Notes())
    kept = tmp_path / "brokers" / "01-any-older" / "1.log"

    assert "as it was" == kept.read_text()
    damaged.end()
    assert not kept.exists()
