"""What comes out of a pytest session: the rows of the command, and a folder that can be judged again."""

import concurrent.futures
import functools
import json
import xml.etree.ElementTree as ElementTree

import msgspec
import pytest

from conformance.report import model

pytestmark = pytest.mark.spark

TRIED = "EMS-CLIENT-02,EMS-CLIENT-03,STOMP-RCPT-02"
WORDS = ["--adapter=reference", "--protocol=stomp", "--claims", TRIED, "--trials", "1", "--seed", "7"]
WEAK = [
    word
    for setting in ("sync_non_transactional=false", "sync_transactional=false", "journal_buffer_ms=60000")
    for word in ("--set", setting)
]
MINE = '''
"""Mine."""

from conformance.scenario import Check, scenario
from conformance.scenario.script import SETTLE, Consume, ConsumerCrash, Nth, Publish


@scenario
class MineHoldsMany:
    """A consumer of mine takes many messages and dies."""

    mode = "client"
    steps = (
        Publish(1_300, window=100),
        Consume("client", prefetch=1_250, acknowledge=5_000, until=ConsumerCrash(Nth("process", 1_200))),
        *SETTLE,
    )
    checks = (Check("many_unacknowledged", exposure="delivered_unacknowledged"),)
'''
KNOWN = """
[[known]]
claim = "SOLCD-ACK-01"
scenario = "broker-killed-while-sending-one-by-one"
adapter = "reference"
reason = "syncs are off"
link = "https://example.org/1"
expires = 9999-12-31
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory, broken_broker):
    """A folder for what is recorded: a scenario and known failures of a user's own, and a broker that cannot start."""
    folder = tmp_path_factory.mktemp("fronts")
    (folder / "mine.py").write_text(MINE)
    (folder / "known.toml").write_text(KNOWN)
    (folder / "impatient.py").write_text("from conformance.run.trial import jobs\n\njobs.LIVENESS_S = 5.0\n")
    broken_broker(folder)
    return folder


@pytest.fixture(scope="module", autouse=True)
def recording(request, run_python, run_pytest, suites, place):
    """What the selected tests ask for, by the name of its fixture; two at a time, beside the tests that do not wait."""
    mine = [suites, place / "mine.py", *WORDS]
    one = ["--strict", "--alluredir", place / "allure-one", "--junitxml", place / "one.xml"]
    one += ["--require-tried", "STOMP-RCPT-0[23]"]
    two = ["-n2", "--strict-verdicts", "--baseline", place / "one" / "report.json", "--alluredir", place / "allure-two"]
    some = ["-k", "SOLCD-ACK and (OneByOne or SoonAfterFirst)", "--trials", "1", "-x", "-rxfE"]
    some += ["--deselect", "suites/publishing/broker_killed.py::BrokerKilledWhileSendingOneByOne::SOLCD-ACK-02"]
    weak = ["--require", "SOLCD-ACK-01", *WEAK, "--known-failures", place / "known.toml"]
    weak += ["-p", "impatient"]  # what it loses is lost for good
    cache = ["-o", f"cache_dir={place / 'cache'}"]
    xml = ["--junitxml", place / "burning.xml"]
    words = {
        "one": [*mine, *one],
        "command": ["run", *WORDS],
        "two": [*mine, *two],
        "weakened": [suites, "--adapter=reference", *weak, *some, *cache],
        "burning": [suites, f"--adapter={place / 'odd.toml'}", "--claims", "EMS-CLIENT-03", "--trials", "1", *xml],
    }

    def record(name):
        if name == "two":
            started["one"].result()
        run = functools.partial(run_python, "conformance.frontend.cli") if name == "command" else run_pytest
        return run(*words[name], "--out", place / name, cwd=suites if name == "two" else place)

    asked = {name for item in request.session.items if item.module is request.module for name in item.fixturenames}
    started = {}
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for name in words:
            if name in asked:
                started[name] = pool.submit(record, name)
        yield started


@pytest.fixture(scope="module")
def one(recording):
    """One process that tries our suites and a file of the user's own over STOMP, under pytest's strict mode.

    Of the two claims that it must try it tries one.
    """
    return recording["one"].result()


@pytest.fixture(scope="module")
def command(recording):
    """`conformance run` of the same claims with the same seed."""
    return recording["command"].result()


@pytest.fixture(scope="module")
def two(one, recording):
    """The same tests in two workers; the report of `one` is their baseline."""
    return recording["two"].result()


@pytest.fixture(scope="module")
def weakened(recording):
    """Syncs are off, which is required not to matter: known in one scenario, a failure in the next, then `-x`."""
    return recording["weakened"].result()


@pytest.fixture(scope="module")
def burning(recording):
    """A broker that does not start."""
    return recording["burning"].result()


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


@pytest.mark.full
def test_equal_to_the_command(one, command, place):
    """The same seed gives the same trials, and the same answers."""
    assert 3 == len({name.split(".")[0] for name in trials(place / "command")}), command.stdout + command.stderr
    assert trials(place / "command") == {
        name: trial for name, trial in trials(place / "one").items() if "mine" not in name
    }
    assert essences(place / "command") == {k: row for k, row in essences(place / "one").items() if "mine" not in k[1]}


@pytest.mark.full
def test_two_workers(one, two, place):
    """One report with the same answers; Allure takes each test for the one that ran in one process."""
    assert 0 == two.returncode, two.stdout + two.stderr
    assert trials(place / "two") == trials(place / "one")
    assert essences(place / "two") == essences(place / "one")
    assert 4 == len(allure_ids(place / "allure-one"))
    assert allure_ids(place / "allure-two") == allure_ids(place / "allure-one")
    assert str(place / "two" / "report.html") in two.stdout


@pytest.mark.full
def test_judging_the_folder_again_gives_the_same_rows(two, place):
    """Figures included: what a test of a worker read is what the controller finds in the joined folder."""
    found = [attached(place / "allure-two", result) for result in results(place / "allure-two")]
    again = {json.dumps(json.loads(msgspec.json.encode(row))) for row in verdicts(place / "two").values()}

    assert (5, set()) == (len(found), {json.dumps(row) for row in found} - again)


@pytest.mark.full
def test_a_baseline(two, place):
    """What was not decided before is skipped, and not a failure of `--strict-verdicts`; the summary says so."""
    expected = model.read_json(place / "two" / "report.json").expectations

    assert "3 passed, 2 skipped" in two.stdout
    assert "answer undecided as before: INCONCLUSIVE in the baseline, INCONCLUSIVE now" in two.stdout
    assert "still undecided: EMS-CLIENT-02 in consumer-killed-under-client: INCONCLUSIVE" in two.stdout
    assert [("still-undecided", "EMS-CLIENT-02")] == [(str(item.standing), item.claim) for item in expected.items]


def results(folder):
    return [json.loads(path.read_text()) for path in folder.glob("*-result.json")]


def attached(folder, result):
    """The row that Allure was given as the verdict."""
    source = next(each["source"] for each in result["attachments"] if each["name"] == "verdict")
    return json.loads((folder / source).read_text())


def allure_ids(folder):
    """Of our own suites; a file of a user's is named from the root that pytest finds for them."""
    found = [result for result in results(folder) if result["fullName"].startswith("suites.")]
    return {(result["fullName"], result["historyId"], result["testCaseId"]) for result in found}


def test_allure(one, place):
    """What a reader of an Allure report gets, and that a new seed or folder is no new test."""
    result = next(each for each in results(place / "allure-one") if "HoldsManyUn" in each["fullName"])
    labels = {(label["name"], label["value"]) for label in result["labels"]}
    excluded = {parameter["name"]: bool(parameter.get("excluded")) for parameter in result["parameters"]}

    assert {("story", "EMS-CLIENT-03"), ("severity", "minor"), ("tag", "permission")} <= labels
    assert {"adapter": False, "version": False, "protocol": False, "seed": True, "folder": True} == excluded
    assert "1. Publish 1,300 persistent messages" in result["description"]
    assert result["name"].startswith("EMS-CLIENT-03: ")
    assert all(step["stop"] > step["start"] and "sent" in step["name"] for step in result["steps"])
    assert ["passed"] == [step["status"] for step in result["steps"]]
    assert ["https://docs.tibco.com"] == [link["url"][:22] for link in result["links"]]
    environment = (place / "allure-one" / "environment.properties").read_text()
    assert "broker=Reference broker 0.1.0\n" in environment
    assert 4 == len(json.loads((place / "allure-one" / "categories.json").read_text()))
    assert "verdict" in {attachment["name"] for attachment in result["attachments"]}
    assert any(attachment["name"].endswith(".log") for attachment in result["attachments"])


def properties(case):
    return {each.get("name"): each.get("value") for each in case.iter("property")}


def test_words_of_a_session(one, place):
    """Witnessed passes, what is undecided or not tried is skipped with the reason, and the properties are in junit.xml."""
    cases = {case.get("name"): case for case in ElementTree.parse(place / "one.xml").iter("testcase")}
    found = properties(cases["EMS-CLIENT-03"])

    assert "3 passed, 2 skipped" in one.stdout, one.stdout + one.stderr
    assert "INCONCLUSIVE: HOLDS needs 3 " in one.stdout
    assert "NOT_TRIED: It needs messages that are sent exactly once" in one.stdout
    assert ("7", "WITNESSED", "permission", "reference") == tuple(
        found[name] for name in ("seed", "verdict", "kind", "adapter")
    )
    assert "1 INCONCLUSIVE, 1 HOLDS, 2 WITNESSED" in one.stdout


def test_a_user_who_expects_nothing(burning, place):
    """Neither the report nor a test speaks of expectations."""
    cases = [properties(case) for case in ElementTree.parse(place / "burning.xml").iter("testcase")]

    assert model.read_json(place / "burning" / "report.json").expectations is None
    assert cases
    assert not [case for case in cases if "expected" in case]


def test_violation(weakened, place):
    """It fails with the message and its timeline, after repeats; the entry of its neighbour does not excuse it."""
    row = verdicts(place / "weakened")["SOLCD-ACK-01", "broker-killed-soon-after-first-send"]

    assert 1 == weakened.returncode, weakened.stdout + weakened.stderr
    assert "VIOLATED SOLCD-ACK-01" in weakened.stdout
    assert "publisher-1" in weakened.stdout
    assert "Traceback" not in weakened.stdout
    assert (3, 3, True) == (row.offended, row.trials, row.required)


def test_known_failure(weakened, place):
    """It fails as expected, with reason and link; the report says so too."""
    line = "syncs are off (https://example.org/1; until 9999-12-31)"
    row = verdicts(place / "weakened")["SOLCD-ACK-01", "broker-killed-while-sending-one-by-one"]
    expected = model.read_json(place / "weakened" / "report.json").expectations

    assert "VIOLATED" == row.verdict
    assert "1 failed" in weakened.stdout
    assert "1 xfailed" in weakened.stdout
    assert f"::SOLCD-ACK-01 - known failure: {line}" in weakened.stdout
    assert f"known failures: SOLCD-ACK-01 in broker-killed-while-sending-one-by-one: {line}" in weakened.stdout
    assert [("known", line)] == [(str(item.standing), item.text) for item in expected.items]


def test_the_first_failure_ends_it(weakened, place):
    """An expected one does not count for `-x`; what came after is not tried, nor is what was deselected."""
    found = verdicts(place / "weakened")

    assert "stopping after 1 failures" in weakened.stdout
    assert "NOT_TRIED" == found["SOLCD-ACK-01", "broker-killed-soon-after-first-consumer"].verdict
    assert "first-consumer" not in str(list((place / "weakened" / "trials").iterdir()))
    assert {"VIOLATED", "NOT_TRIED", "NOT_APPLICABLE"} <= {str(row.verdict) for row in found.values()}


def test_last_failed(weakened, run_pytest, suites, place):
    """`--lf` finds what failed, and not what failed as expected."""
    failed = run_pytest(
        suites, "--adapter=reference", "--lf", "--collect-only", "-q", "-o", f"cache_dir={place / 'cache'}"
    )

    assert ["suites/queues/first_use.py::BrokerKilledSoonAfterFirstSend::SOLCD-ACK-01"] == [
        line for line in failed.stdout.splitlines() if "::" in line
    ]


def test_stomp(one, place):
    """Over the other protocol a claim about it holds."""
    row = verdicts(place / "one")["STOMP-RCPT-02", "receipts-on-the-wire"]

    assert ("HOLDS", "stomp", 1) == (row.verdict, row.protocol, row.trials), one.stdout + one.stderr


def test_what_had_to_be_tried(one):
    """A claim without a test in the session fails it, though no test failed, and is named; one that was tried is not."""
    said = [line for line in one.stdout.splitlines() if line.startswith("required to be tried: ")]

    assert 1 == one.returncode
    assert ["STOMP-RCPT-03"] == [line.split(": ")[1] for line in said]


def test_broker_that_does_not_start(burning, place):
    """An error of the set-up with the end of its log, and nothing against the broker."""
    assert 1 == burning.returncode, burning.stdout + burning.stderr
    assert "1 error" in burning.stdout
    assert "  | the disk is on fire" in burning.stdout
    assert "Traceback" not in burning.stdout
    assert "HARNESS_ERROR" in {str(row.verdict) for row in verdicts(place / "burning").values()}


def test_scenario_of_a_user(one, place):
    """A file of theirs, by its name, with the same tests; what Allure was given as the verdict is the row."""
    result = next(each for each in results(place / "allure-one") if "MineHoldsMany" in each["fullName"])
    row = verdicts(place / "one")["EMS-CLIENT-03", "mine-holds-many"]

    assert attached(place / "allure-one", result) == json.loads(msgspec.json.encode(row))
