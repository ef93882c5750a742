"""What comes out of a pytest session: the rows of the command, and a folder that can be judged again."""

import json
import shutil
import xml.etree.ElementTree as ElementTree

import msgspec
import pytest

from conformance.report import model

pytestmark = pytest.mark.spark
WORDS = ["--adapter=reference", "--claims", "AMQP-DUR-01,EMS-CLIENT-03", "--trials", "1", "--seed", "7"]
WEAK = [
    word
    for setting in ("sync_non_transactional=false", "sync_transactional=false", "journal_buffer_ms=500")
    for word in ("--set", setting)
]


MINE = '''
"""Mine."""

from conformance.scenario import SETTLE, Check, Consume, ConsumerCrash, Nth, Publish, scenario


@scenario
class MineHoldsMany:
    """A consumer of mine takes many messages and dies."""

    mode = "client"
    steps = (
        Publish(1_300, window=100),
        Consume("client", prefetch=1_250, acknowledge=5_000, until=ConsumerCrash(Nth("process", 1_200))),
        *SETTLE,
    )
    decides = {"EMS-CLIENT-03": Check("many_unacknowledged", exposure="delivered_unacknowledged")}
'''


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder for the three runs that are compared, with a scenario of a user's own."""
    folder = tmp_path_factory.mktemp("fronts")
    (folder / "mine.py").write_text(MINE)
    return folder


@pytest.fixture(scope="module")
def by_pytest(place, run_pytest, suites):
    """One process, from a folder that is nobody's checkout."""
    return run_pytest(
        suites,
        "mine.py",
        *WORDS,
        "--out",
        place / "one",
        "--alluredir",
        place / "allure-one",
        "--junitxml",
        place / "one.xml",
        cwd=place,
    )


def verdicts(folder):
    return {(row.claim, row.scenario): row for row in model.read_json(folder / "report.json").verdicts}


def essence(row):
    """A row without what is measured: two recordings of the same seed differ in it."""
    control = row.control and (row.control.label, row.control.strong, row.control.failed, row.control.trials)
    kept = (row.mode, row.fault, str(row.verdict), row.trials, row.required, row.settings, row.protocol, row.client)
    return (*kept, control)


def essences(folder):
    return {key: essence(row) for key, row in verdicts(folder).items()}


def trials(folder):
    records = [json.loads(path.read_text()) for path in folder.glob("trials/*/trial.json")]
    return {record["trial"]: (record["seed"], record["k"], record["control"], record["void"]) for record in records}


def test_equal_to_the_command(by_pytest, conformance, place):
    """The same seed gives the same trials, and the same answers."""
    conformance("run", *WORDS, "--out", place / "command", cwd=place)

    assert trials(place / "command") == {
        name: trial for name, trial in trials(place / "one").items() if "mine" not in name
    }
    assert essences(place / "command") == {k: row for k, row in essences(place / "one").items() if "mine" not in k[1]}


def test_judging_the_folder_again_gives_the_same_rows(by_pytest, conformance, place):
    """Figures included: a test has read nothing that the folder does not hold."""
    shutil.copytree(place / "one", place / "again")
    conformance("judge", place / "again", cwd=place)
    before, after = (model.read_json(place / name / "report.json") for name in ("one", "again"))

    assert [row for row in before.verdicts if row.scenario != "mine-holds-many"] == list(after.verdicts)
    assert (True, False) == (before.run.finished, before.run.interrupted)


def test_two_workers(by_pytest, run_pytest, suites, place):
    """One report with the same answers; Allure takes each test for the one that ran in one process."""
    done = run_pytest(
        suites,
        place / "mine.py",
        *WORDS,
        "-n",
        "2",
        "--out",
        place / "two",
        "--alluredir",
        place / "allure-two",
        cwd=suites,
    )

    assert 0 == done.returncode, done.stdout + done.stderr
    assert trials(place / "two") == trials(place / "one")
    assert essences(place / "two") == essences(place / "one")
    assert 2 == len(allure_ids(place / "allure-one"))
    assert allure_ids(place / "allure-two") == allure_ids(place / "allure-one")
    assert str(place / "two" / "report.html") in done.stdout


def results(folder):
    return [json.loads(path.read_text()) for path in folder.glob("*-result.json")]


def allure_ids(folder):
    """Of our own suites; a file of a user's is named from the root that pytest finds for them."""
    found = [result for result in results(folder) if result["fullName"].startswith("suites.")]
    return {(result["fullName"], result["historyId"], result["testCaseId"]) for result in found}


def test_allure(by_pytest, place):
    """What a reader of an Allure report gets, and that a new seed or folder is no new test."""
    result = next(each for each in results(place / "allure-one") if "HoldsManyUn" in each["fullName"])
    labels = {(label["name"], label["value"]) for label in result["labels"]}
    excluded = {parameter["name"]: bool(parameter.get("excluded")) for parameter in result["parameters"]}

    assert {("story", "EMS-CLIENT-03"), ("severity", "minor"), ("tag", "permission")} <= labels
    assert {"adapter": False, "version": False, "protocol": False, "seed": True, "folder": True} == excluded
    assert "Publish 1,300 persistent messages" in result["steps"][0]["name"]
    assert "verdict" in {attachment["name"] for attachment in result["attachments"]}
    assert any(attachment["name"].endswith(".log") for attachment in result["attachments"])


def test_words_of_a_session(by_pytest, place):
    """Witnessed passes, undecided is skipped with the reason, and the properties are in junit.xml."""
    cases = {case.get("name"): case for case in ElementTree.parse(place / "one.xml").iter("testcase")}
    found = {each.get("name"): each.get("value") for each in cases["EMS-CLIENT-03"].iter("property")}

    assert 0 == by_pytest.returncode, by_pytest.stdout + by_pytest.stderr
    assert "2 passed, 1 skipped" in by_pytest.stdout
    assert "INCONCLUSIVE: Too few trials" in by_pytest.stdout
    assert ("7", "WITNESSED", "permission", "reference") == tuple(
        found[name] for name in ("seed", "verdict", "kind", "adapter")
    )
    assert "1 INCONCLUSIVE, 2 WITNESSED" in by_pytest.stdout


def test_violation(run_pytest, suites, tmp_path):
    """It fails with the message and its timeline, after repeats; what was deselected is not tried; `--lf` finds it."""
    words = ["--adapter=reference", "--require", "SOLCD-ACK-01", *WEAK, "-k", "ACK and OneByOne", "--deselect"]
    one = "suites/publishing/broker_killed.py::BrokerKilledWhileSendingOneByOne::SOLCD-ACK"
    done = run_pytest(
        suites, *words, f"{one}-02", "--trials", "1", "--out", tmp_path / "out", "-o", f"cache_dir={tmp_path}"
    )
    row = verdicts(tmp_path / "out")["SOLCD-ACK-01", "broker-killed-while-sending-one-by-one"]
    failed = run_pytest(suites, "--adapter=reference", "--lf", "--collect-only", "-q", "-o", f"cache_dir={tmp_path}")

    assert 1 == done.returncode, done.stdout + done.stderr
    assert "VIOLATED SOLCD-ACK-01" in done.stdout
    assert "publisher-1" in done.stdout
    assert "Traceback" not in done.stdout
    assert (3, 3, True) == (row.offended, row.trials, row.required)
    assert {"VIOLATED", "NOT_TRIED", "NOT_APPLICABLE"} == {str(r.verdict) for r in verdicts(tmp_path / "out").values()}
    assert [f"{one}-01"] == [line for line in failed.stdout.splitlines() if "::" in line]


def test_broker_that_does_not_start(run_pytest, suites, tmp_path):
    """An error of the set-up with the end of its log, and nothing against the broker."""
    text = (suites.parent / "fixtures" / "brokers" / "reference" / "broker.toml").read_text()
    before, rest = text.split("command = [", 1)
    command = json.dumps(["/bin/sh", "-c", "echo the disk is on fire; exit 7"])
    (tmp_path / "odd.toml").write_text(f"{before}command = {command}{rest.split(']', 1)[1]}")
    words = ["--claims", "EMS-CLIENT-03", "--trials", "1", "--out", tmp_path / "out"]
    done = run_pytest(suites, f"--adapter={tmp_path / 'odd.toml'}", *words)

    assert 1 == done.returncode, done.stdout + done.stderr
    assert "1 error" in done.stdout
    assert "  | the disk is on fire" in done.stdout
    assert "Traceback" not in done.stdout
    assert "HARNESS_ERROR" in {str(row.verdict) for row in verdicts(tmp_path / "out").values()}


def test_scenario_of_a_user(by_pytest, place):
    """A file of theirs, by its name, with the same tests; what Allure was given as the verdict is the row."""
    result = next(each for each in results(place / "allure-one") if "MineHoldsMany" in each["fullName"])
    source = next(each["source"] for each in result["attachments"] if each["name"] == "verdict")
    attached = json.loads((place / "allure-one" / source).read_text())

    assert attached == json.loads(msgspec.json.encode(verdicts(place / "one")["EMS-CLIENT-03", "mine-holds-many"]))
