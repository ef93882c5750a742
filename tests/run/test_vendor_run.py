"""Whole runs through vendors' own clients: on the bundled broker, and Artemis' own client on Artemis."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError

import pytest

from conformance import campaign, claims, records, scenario
from conformance.adapters import opening
from conformance.adapters.credentials import Access, ClientTls
from conformance.errors import FetchError, UsageError
from conformance.followup import replay
from conformance.history import Op, Phase, read
from conformance.judge.rows import Judgement, Verdict, VerdictRow
from conformance.records import RunRecord
from conformance.report import html
from conformance.run.planning import clients_of, wanted_checks
from conformance.scenario.needs import ANSWERED

HOLD = ("EMS-AUTO-01", "EMS-AUTO-02", "SOLCD-SEND-01")


def _prepared(folder: pathlib.Path, **words: object) -> campaign.Campaign:
    made = campaign.prepare(campaign.Options(**{"protocol": "jms", "seed": 7, "out": folder, **words}))  # type: ignore[arg-type]
    assert made.selection.vendor is not None
    try:
        made.selection.vendor.install()
    except FetchError as error:
        pytest.skip(f"{made.selection.client} cannot be had here: {error}")
    return made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return tmp_path_factory.mktemp("vendor") / "run"


@pytest.fixture(scope="module")
def judged(folder: pathlib.Path, spark_for_all: object) -> Judgement:
    made = _prepared(folder, adapter="reference", judge_as=("solace",), claims=(*HOLD, "SOLPUB-WIN-01"), trials=3)
    return campaign.execute(made, campaign.Watcher())


@pytest.fixture(scope="module")
def rows(judged: Judgement) -> Mapping[str, VerdictRow]:
    return {row.claim: row for row in judged.rows}


@pytest.mark.spark
@pytest.mark.parametrize("claim", HOLD)
def test_a_claim_about_a_vendors_client_holds_beside_its_control(rows: Mapping[str, VerdictRow], claim: str) -> None:
    row = rows[claim]

    assert (Verdict.HOLDS, 3, 0) == (row.verdict, row.trials, row.void), row.reason
    assert row.control is not None
    assert row.control.failed == row.control.trials > 0
    assert "Apache Qpid JMS 2.10.0" == row.client


@pytest.mark.spark
def test_the_suites_own_sessions_are_not_what_was_tried(judged: Judgement) -> None:
    (row,) = [row for row in judged.self_checks if row.claim == "SOLPUB-WIN-01"]

    assert Verdict.NOT_APPLICABLE == row.verdict
    assert "this run used Apache Qpid JMS 2.10.0" in row.reason


@pytest.mark.spark
def test_the_record_and_the_report_name_client_and_version(judged: Judgement, folder: pathlib.Path) -> None:
    run = records.read(folder / "run.json", RunRecord)

    assert ("qpid-jms", "2.10.0") == (run.vendor, run.versions["qpid-jms"])
    catalogue = claims.load()
    assert "Apache Qpid JMS 2.10.0" in html.page(judged, catalogue, scenario.load(catalogue))


@pytest.mark.spark
def test_a_call_made_in_the_pause_is_what_decides(judged: Judgement, folder: pathlib.Path) -> None:
    """The one send of the pause returned after it; with the setting off, many returned in it."""

    def returned(trial: str) -> int:
        events = read(folder / "trials" / trial / "publisher-1.jsonl").events
        (halted,) = [e.at_ns for e in events if e.op is Op.FAULT and e.phase is Phase.EFFECTIVE]
        (resumed,) = [e.at_ns for e in events if e.op is Op.FAULT and e.phase is Phase.HEALED]
        asked = {e.message for e in events if e.op is Op.SEND and e.phase is Phase.INVOKE and e.at_ns > halted}
        return sum(e.op is Op.SEND and e.phase is Phase.OK and e.at_ns < resumed for e in events if e.message in asked)

    assert [0, 0, 0] == [returned(f"sends-while-broker-halted.subject.{n}") for n in (1, 2, 3)]
    assert all(returned(f"sends-while-broker-halted.weakened.{n}") > 5 for n in (1, 2, 3))


@pytest.mark.spark
def test_a_trial_of_it_is_replayed_with_the_same_client(judged: Judgement, folder: pathlib.Path, tmp_path) -> None:
    wanted = replay.ReplayRequest(
        folder=folder, scenario="listener-closed-under-auto", trial="1", out=tmp_path / "again"
    )
    again = replay.prepare(wanted)

    assert "qpid-jms" == again.campaign.selection.client
    assert {"qpid-jms"} == {trial.client for trial in again.campaign.trials}


@pytest.mark.full
@pytest.mark.qpid
@pytest.mark.spark
def test_modes_are_compared_where_the_client_has_them(tmp_path: pathlib.Path) -> None:
    """One script plays both; its control lies in the second half alone."""
    asked = ("QPID-DUPS-01", "QPID-PRE-04", "QPID-NOACK-02")
    made = _prepared(tmp_path / "run", adapter="qpid", protocol="amqp091", client="qpid-amqp091", claims=asked)
    found = {row.claim: row for row in campaign.execute(made, campaign.Watcher()).rows if row.claim in asked}

    assert dict.fromkeys(asked, (Verdict.HOLDS, 3, 1)) == {
        claim: (row.verdict, row.trials, row.control.failed if row.control else 0) for claim, row in found.items()
    }, [row.reason for row in found.values()]


def test_what_a_variant_adds_is_hidden_from_a_client_that_cannot_ask_for_it(tmp_path: pathlib.Path) -> None:
    """Counter-example: JMS cannot ask for windows of the profile solace, and the broker was accused by them."""
    made = _prepared(tmp_path / "run", adapter="reference", settings=("profile=solace",))
    able = made.adapter.capabilities("jms")

    assert set() == {"ranged_confirms", "ack_immediately", "ack_confirmed"} & able
    assert "solace" in made.adapter.file.profiles
    assert "SOLPUB-IMM-01" not in {
        claim for trial in made.trials for claim in wanted_checks(trial.script, made.selection)
    }


def test_a_liar_that_would_silence_the_client_is_no_control_of_it(tmp_path: pathlib.Path) -> None:
    """The fault of the trial would never fire. A client that leaves out a listener is the control instead."""
    made = _prepared(tmp_path / "run", adapter="reference", claims=("EMS-STEP-02", "EMS-STEP-03"))
    liars = {trial.liar for trial in made.trials}
    waiting = [trial for trial in made.trials if trial.session_liar == "leaves-out-a-listener"]

    assert "stuck-after-recovery" in liars
    assert "never-answers-one-send" not in liars
    assert waiting
    assert len(waiting) == len({trial.instance for trial in waiting})
    assert {trial.parallel_group for trial in waiting} == {trial.id for trial in waiting}


def test_every_client_of_a_run_is_fetched(tmp_path: pathlib.Path) -> None:
    """Counter-example: the liars of a run through Artemis' client need Qpid JMS, which an empty cache lacks."""
    made = _prepared(tmp_path / "run", adapter="artemis", claims=("EMS-STEP-03",))
    own = _prepared(tmp_path / "own", adapter="artemis", claims=("ARTEMIS-SEND-01",))

    assert ["artemis-jms", "qpid-jms"] == [client.name for client in clients_of(made.trials)]
    assert ["artemis-jms"] == [client.name for client in clients_of(own.trials)]


def test_settings_of_the_client_make_no_other_broker(tmp_path: pathlib.Path) -> None:
    """The weakened client of a control uses the broker of the subject."""
    made = _prepared(
        tmp_path / "run", adapter="artemis", claims=("ARTEMIS-SEND-01", "ARTEMIS-SEND-03", "SOLCD-SEND-02")
    )
    of = {(trial.script.id, trial.arm): trial.instance for trial in made.trials}

    assert 1 == len({place for (name, _), place in of.items() if "halted" in name})
    assert of["broker-killed-while-sending-one-by-one", "subject"] == of["sends-while-broker-halted", "control"]
    assert of["broker-killed-while-sending-one-by-one", "control"] != of["sends-while-broker-halted", "control"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ({"adapter": "artemis", "protocol": "amqp", "client": "qpid-jms"}, "client-not-needed"),
        ({"adapter": "reference", "client": "artemis-jms"}, "client-does-not-fit"),
        ({"adapter": "reference", "client": "qpidjms"}, "unknown-client"),
        ({"adapter": "reference", "access": Access(tls=ClientTls())}, "client-without-credentials"),
        ({"adapter": "solace"}, "client-with-external"),
        ({"adapter": "artemis", "settings": ("block_on_durable_sends=true",)}, "unknown-setting"),
    ],
)
def test_words_that_do_not_go_together(words: dict[str, object], code: str) -> None:
    with pytest.raises(UsageError) as caught:
        campaign.prepare(campaign.Options(**{"protocol": "jms", **words}))  # type: ignore[arg-type]
    assert code == caught.value.code


@pytest.mark.full
@pytest.mark.spark
@pytest.mark.artemis
def test_artemis_own_client_waits_as_its_document_says(tmp_path: pathlib.Path) -> None:
    asked = ("ARTEMIS-SEND-01", "ARTEMIS-SEND-02", "ARTEMIS-ACK-01", "ARTEMIS-TX-01")
    made = _prepared(tmp_path / "run", adapter="artemis", claims=asked, trials=3)
    found = {row.claim: row for row in campaign.execute(made, campaign.Watcher()).rows if row.claim in asked}

    assert dict.fromkeys(asked, Verdict.HOLDS) == {claim: row.verdict for claim, row in found.items()}
    assert {"Apache Artemis JMS 2.56.0"} == {row.client for row in found.values()}


def test_without_jpype_the_error_names_the_next_step(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(opening, "version", version)

    with pytest.raises(UsageError, match=r"Apache Qpid JMS needs JPype: pip install 'ack-conformance\[jms\]'"):
        campaign.prepare(campaign.Options(adapter="reference", protocol="jms", out=tmp_path / "run"))


def test_a_liar_is_killed_when_its_client_has_written_an_acknowledgement() -> None:
    """The client of OpenMQ waits for the answer, and that of the liars gets none: their kills would never come."""
    words = {"protocol": "jms", "settings": ("sync_non_transactional=true",), "claims": ("SOLCD-ACK-01",)}
    made = campaign.prepare(campaign.Options("openmq", scenarios=("broker-killed-a*",), **words))  # type: ignore[arg-type]
    events = {
        (trial.client, fault.at.event)
        for trial in made.trials
        for fault in trial.script.faults
        if trial.script.id in ("broker-killed-after-acknowledgements", "broker-killed-among-clients")
    }

    assert {("openmq-jms", "ack"), ("qpid-jms", "ack_written")} == events


def test_no_kill_waits_for_answers_that_a_client_does_not_get() -> None:
    """Such a kill would never come either, and every trial would be void."""
    made = campaign.prepare(campaign.Options("qpid", protocol="jms"))

    assert "the file of qpid-jms has no ack_confirm over jms" == made.selection.unable[ANSWERED.name]
    assert "broker-killed-after-acknowledgements" not in {trial.script.id for trial in made.trials}
