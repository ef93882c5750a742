"""The site over many runs: brokers and faults, stable addresses, claims side by side, and what cannot be read."""

import html
import json
import re
import shlex
import shutil
import xml.etree.ElementTree as ET

import msgspec
import pytest
from click.testing import CliRunner
from report_rows import full, judgement, row, violated

import conformance
from conformance import paths
from conformance.errors import UsageError
from conformance.frontend.cli import cli
from conformance.judge.rows import ControlResult, Verdict
from conformance.judge.rules import UNPLAYED
from conformance.report import model, questions, site, write_all
from conformance.report.site import losses
from conformance.report.site.runs import read


@pytest.fixture
def run_of(catalogue, scenarios, tmp_path):
    """Write the report of a run; return its folder."""

    def write(name, *rows, **changes):
        write_all(judgement(*rows, **changes), catalogue, scenarios, tmp_path / "runs" / name)
        return tmp_path / "runs" / name

    return write


def test_runs_side_by_side(run_of, tmp_path):
    """A run has a page, data and badges at its address; a cell of the index leads to the row that explains it."""
    run_of("a", row(anomaly="lost", fault="kill", faults=3), adapter="artemis", version="2.56.0")
    bad = violated(anomaly="lost", fault="kill", faults=3, offended_faults=2)
    run_of("b", bad, adapter="rabbitmq", version="4.3.6", title="<b>RabbitMQ")
    index = site.write([tmp_path / "runs"], tmp_path / "site").read_text()
    claims_page = (tmp_path / "site" / "claims.html").read_text()

    for address, claims in (("artemis/2.56.0/amqp", "1 hold, 0"), ("rabbitmq/4.3.6/amqp", "0 hold, 1")):
        folder = tmp_path / "site" / address
        assert {"report.html", "report.json", "badge.json", "badge.svg"} == {path.name for path in folder.iterdir()}
        assert f"{claims} violated" == json.loads((folder / "badge.json").read_text())["message"]
        assert f"{claims} violated" in ET.parse(folder / "badge.svg").getroot().get("aria-label")
        assert f'<a href="{address}/report.html#claim-SOLCD-ACK-01" class="v t-' in claims_page
        broker, _, part = address.partition("/")
        page = (tmp_path / "site" / broker / "index.html").read_text()
        cells = re.findall(rf'href="{broker}/index.html#([^"]+)"', index)
        assert [f"{part.replace('/', '-')}-{cause.replace(' ', '-')}" for cause in questions.MODELS] == cells
        assert [cell for cell in cells if f'<tr id="{cell}">' not in page] == []
        assert f'<a href="../../index.html#{part.replace("/", "-")}">' in (folder / "report.html").read_text()
    assert "0 of 3 kills</b><small>nothing wrong, weak</small>" in index
    assert "2 of 3 kills</b><small>confirmed messages lost</small>" in index
    assert "&lt;b&gt;RabbitMQ 4.3.6" in index


def test_what_is_known_stands_at_each_run(run_of, tmp_path):
    """Of that product, version and protocol, linked to its row; each with the settings that it needs."""
    held = row(anomaly="lost", fault="kill", faults=3)
    run_of("a", held, adapter="rabbitmq", version="4.3.6", protocol="amqp")
    run_of("b", held, adapter="rabbitmq", version="3.13.7", protocol="amqp")
    index = site.write([tmp_path / "runs"], tmp_path / "site")
    page = (tmp_path / "site/rabbitmq/index.html").read_text().partition('<h2 id="3.13.7-amqp">')[2]
    known = re.findall(r'href="../(findings|bugs).html#([^"]+)">([^<]+)</a>', page)
    ids = {name: (index.parent / f"{name}.html").read_text() for name in ("findings", "bugs")}

    assert [
        ("findings", "rabbitmq_serves_no_more_after_full_disk.py", "no client is served after the disk was full"),
        (
            "findings",
            "rabbitmq_amqp091_decimal_ends_its_consumer.py",
            "a decimal of AMQP 0-9-1 ends each consumer over AMQP 1.0",
        ),
        ("findings", "rabbitmq_confirms_before_sync.py", "classic queues confirm before a sync"),
        ("findings", "rabbitmq_new_queue_forgotten.py", "a new queue is forgotten (queue_type=quorum)"),
        ("bugs", "rabbitmq-15725.toml", "RabbitMQ 15725 (queue_type=quorum)"),
        ("bugs", "rabbitmq-classic-queue-sync.toml", "RabbitMQ classic queue sync"),
    ] == known
    assert [name for folder, name, _ in known if f'<tr id="{name}">' not in ids[folder]] == []


def test_a_claim_undecided_in_the_only_run_of_a_broker(run_of, tmp_path):
    """No earlier version says whether that is new."""
    run_of("a", row(anomaly="lost", fault="kill", verdict=Verdict.INCONCLUSIVE, reason="why"), adapter="artemis")
    index = site.write([tmp_path / "runs"], tmp_path / "site")

    assert "undecided" in (index.parent / "artemis/index.html").read_text()


def test_how_much_a_run_played_stands_beside_it(run_of, tmp_path):
    """And what a quick run left out is not hidden in its cells."""
    left = row(anomaly="lost", fault="power_loss", verdict=Verdict.NOT_TRIED, reason=UNPLAYED[0], control=None)
    held = row(anomaly="lost", fault="kill", faults=3)
    commands = {"qpid": "--quick", "artemis": "--seed 3", "openmq": "--scenario x", "reference": "--thorough"}
    for name, words in commands.items():
        rows = [held, left] if name == "qpid" else [held]
        run_of(name, *rows, adapter=name, command=f"conformance run --adapter {name} {words}", selected=("A", "B"))
    index = site.write([tmp_path / "runs"], tmp_path / "site").read_text()

    assert [
        "a whole run",
        "a run of chosen claims or scenarios",
        "a quick run of 2 claims",
        "a whole run, with --thorough",
    ] == (re.findall(r"; <b>([^<]+)</b>;", index))
    assert ["a quick run leaves it out"] == re.findall(r"not tried<small>(a quick run[^<]*)</small>", index)
    assert "a quick run of 2 claims, " in (tmp_path / "runs/qpid/report.html").read_text()


@pytest.mark.parametrize(("name", "folder"), [("findings", "*.py"), ("bugs", "*.toml")])
def test_findings_and_bugs_have_a_page(run_of, tmp_path, name, folder):
    """Each script and each bug is a row of its table, and the index links to the page."""
    run_of("a", row())
    index = site.write([tmp_path / "runs"], tmp_path / "site")
    page = (tmp_path / "site" / f"{name}.html").read_text()

    assert f'<a href="{name}.html">' in index.read_text()
    listed = {path.name for path in (paths.fixtures() / name).glob(folder)}
    assert listed == {cell for cell in re.findall(r"<td><code>([^<]+)</code></td>", page) if cell in listed}
    assert "|---" not in page


def test_the_page_of_a_selftest_is_there_if_a_folder_has_it(run_of, tmp_path):
    """The last of them; without one the index has no link that leads nowhere."""
    run_of("a", row())
    alone = site.write([tmp_path / "runs"], tmp_path / "alone").read_text()
    for name in ("2026-01-02-selftest", "2026-01-03-selftest"):
        (tmp_path / "runs" / name).mkdir()
        (tmp_path / "runs" / name / "selftest.html").write_text(name)
    index = site.write([tmp_path / "runs"], tmp_path / "site").read_text()

    assert ("selftest.html" in alone, '<a href="selftest.html">The suite on trial</a>' in index) == (False, True)
    assert "2026-01-03-selftest" == (tmp_path / "site" / "selftest.html").read_text()


def test_the_last_run_of_an_address_is_shown(run_of, tmp_path):
    """A vendor's client has an address of its own, and so has a broker of several nodes."""
    run_of("new", row(), started="2026-11-25T10:00:00+00:00")
    run_of("old", row(verdict=Verdict.INCONCLUSIVE), started="2026-11-24T10:00:00+00:00")
    run_of("jms", row(), vendor="qpid-jms", protocol="jms", client="Apache Qpid JMS 2.10.0")
    run_of("pair", row(), settings={"nodes": 2}, started="2026-11-26T10:00:00+00:00")
    index = site.write([tmp_path / "runs"], tmp_path / "site").read_text()

    assert "INCONCLUSIVE</a>" not in index
    assert (tmp_path / "site/artemis/2.56.0/jms-qpid-jms/report.html").is_file()
    assert (tmp_path / "site/artemis/2.56.0/amqp-2-nodes/report.html").is_file()
    assert "jms through Apache Qpid JMS 2.10.0" in index


def test_what_changed_from_version_to_version(run_of, tmp_path):
    """By number, not by letter; only what both have tried, over the same protocol and client."""
    held = [row("SOLCD-ACK-01"), row("AMQP-DUR-01")]
    run_of("a", *held, version="2.9.0")
    run_of("b", violated("SOLCD-ACK-01"), row("AMQP-DUR-01"), row("EMS-STEP-03"), version="2.10.0")
    run_of("c", *held, version="2.10.0", protocol="stomp")
    site.write([tmp_path / "runs"], tmp_path / "site")
    page = (tmp_path / "site/artemis/index.html").read_text().partition('id="history-1"')[2]
    words = re.sub("<[^>]*>", " ", page.partition("</section>")[0]).split()

    assert "over amqp The claims that versions answer differently Claim 2.9.0 2.10.0 SOLCD-ACK-01" in " ".join(words)
    assert ["✓", "HOLDS", "✗", "VIOLATED"] == words[-4:]
    assert 'id="history-2"' not in page


def test_what_cannot_be_read_is_named(tmp_path, run_of):
    with pytest.raises(UsageError, match=r"no report\.json in .*: name the folders of runs"):
        site.write([tmp_path], tmp_path / "site")
    (run_of("a", row()) / "report.json").write_text('{"schema": 1}')
    with pytest.raises(UsageError, match=r"report\.json: .*generator.*conformance judge .* writes it again"):
        site.write([tmp_path / "runs"], tmp_path / "site")


def test_the_command(catalogue, scenarios, tmp_path):
    """With one folder of a run, or their parent."""
    run = msgspec.structs.replace(full(catalogue, scenarios), rows=(row(),))
    write_all(run, catalogue, scenarios, tmp_path / "run")
    ended = CliRunner().invoke(cli, ["report", str(tmp_path / "run"), "--out", str(tmp_path / "site")])

    assert (0, f"open {tmp_path / 'site/index.html'}, or publish the folder {tmp_path / 'site'}\n") == (
        ended.exit_code,
        ended.output,
    )


def test_the_published_examples_are_of_this_version():
    """Every report is read by the schema of today, the index has each, and the commands that made them are known.

    So is the page of the suite on trial, which has no liar missed and no honest broker accused.
    """
    folder = paths.root() / "reports" / "examples"
    index = (folder / "index.html").read_text()
    found = sorted(folder.glob("*/*/*/report.json"))

    commands = re.findall(r"^conformance (\w+) (.*)$", (folder / "README.md").read_text(), re.MULTILINE)

    assert [10, 14] == [len(found), len(commands)]
    for name, words in commands:
        cli.commands[name].make_context(name, words.split())
    for path in found:
        run = model.read_json(path).run
        assert f'href="{path.parent.relative_to(folder)}/report.html">' in index
        files = {path.name for path in path.parent.iterdir()}
        assert {"report.html", "report.json", "badge.json", "badge.svg"} == files
        assert run.command.startswith(f"conformance run --adapter {run.adapter}")
    page = (folder / "selftest.html").read_text()
    assert '<a href="selftest.html">' in index
    assert f"ack-conformance {conformance.__version__}, " in page
    assert re.search(r"\b(\d+) of \1 brokers that lie were convicted", page)
    assert "No honest broker was accused in " in page


def test_the_site_is_made_again_from_its_own_data(tmp_path):
    """In its own folder, from nothing but the data of each run and the page of the selftest: with the same files."""
    published = paths.root() / "reports" / "examples"
    (tmp_path / "selftest.html").write_text("the suite on trial")
    names = ["openmq/6.7.0/jms-openmq-jms", "rabbitmq/3.10.8/amqp"]
    for name in names:
        (tmp_path / name).mkdir(parents=True)
        shutil.copyfile(published / name / "report.json", tmp_path / name / "report.json")
    before = {name: (tmp_path / name / "report.json").read_bytes() for name in names}
    site.write([tmp_path], tmp_path)
    made = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}

    kept = {str(path.relative_to(published)) for path in published.rglob("*") if path.is_file()}
    assert made - kept == set()
    wanted = (
        *(f"{name}/" for name in names),
        "claims.html",
        "index.html",
        "openmq/index.html",
        "rabbitmq/index.html",
        "bugs",
        "findings",
    )
    assert [name for name in kept if name.startswith(wanted) and name not in made] == []
    assert before == {name: (tmp_path / name / "report.json").read_bytes() for name in names}


def lost(run_of, *rows, **changes):
    """Return the setting, what was seen and the remedy of each loss of a run, and the whole losses."""
    found = losses.losses(read([run_of("a", *rows, **{"version": "1", **changes}) / "report.json"])[0])
    return [(one.setting, one.seen, one.remedy) for one in found], found


def test_what_is_lost_and_not_promised_is_counted_among_its_own_faults(run_of):
    """An undecided scenario beside it lost nothing."""
    bad = row(
        anomaly="lost", fault="kill", verdict=Verdict.OBSERVED, faults=3, offended=1, offended_faults=1, offences=5
    )
    open_ = row(anomaly="lost", fault="kill", scenario="b", verdict=Verdict.INCONCLUSIVE, faults=6)
    words, _ = lost(run_of, bad, open_)

    assert "not promised: lost in 1 of 3 kills" == words[0][1]


def test_what_loses_messages_and_what_to_set(run_of):
    """As configured first, then by the settings of the controls, each scenario once; a broker that lies has none.

    The loss is counted among the kills of all five scenarios that looked for one.
    """
    settings = {"persistence": True, "sync_non_transactional": True, "data_sync": True, "journal_buffer_ms": 3}
    bad = violated(anomaly="lost", fault="kill", faults=45, offended_faults=22, offences=2_040, control=None)
    of = {"anomaly": "lost", "fault": "kill"}
    weak = ControlResult(label="journal_buffer_ms=500, sync_non_transactional=false", strong=True, failed=4, trials=5)
    none = ControlResult(label="persistence=false", strong=False, failed=3, trials=3)
    liar = ControlResult(label="liar loses-the-oldest", strong=False, failed=1, trials=1)
    rows = [
        bad,
        row(control=weak, scenario="b", **of),
        row("AMQP-DUR-01", control=weak, scenario="b", **of),
        row(control=weak, scenario="c", **of),
        row(control=none, scenario="d", anomaly="lost", fault="power_loss"),
        row(control=liar, scenario="e", **of),
        row("EXPECT-SYNC-01", control=msgspec.structs.replace(none, failed=0), scenario="f", **of),
    ]
    words, found = lost(run_of, *rows, settings=settings, command="conformance run --adapter x --trials 3", seed=7)

    assert [
        ("as configured", "lost in 22 of 69 kills", "No setting is known that changes it."),
        ("persistence=false", "lost in 3 of 3 trials if the power fails", "Keep persistence=true."),
        (
            "journal_buffer_ms=500, sync_non_transactional=false",
            "lost in 8 of 10 trials if the broker is killed",
            "Keep journal_buffer_ms=3, sync_non_transactional=true.",
        ),
        ("data_sync=false", "", "Keep data_sync=true."),
    ] == words
    assert "conformance run --adapter x --scenario broker-killed-while-publishing --seed 7" == found[0].command
    weakened = "--scenario d --seed 7 --set persistence=false --require SOLCD-ACK-01"
    assert f"conformance run --adapter x {weakened}" == found[1].command


def test_a_setting_that_no_control_may_change_is_not_named(run_of):
    """A broker may have no switch for it; and a claim that this configuration does not promise asks for none."""
    settings = {"persistence": True, "sync_non_transactional": True}
    needs = row(anomaly="lost", fault="kill", control=None)
    given_up = row("EXPECT-SYNC-01", Verdict.NOT_APPLICABLE, anomaly="lost", fault="kill", control=None)

    assert ["persistence=false"] == [
        each[0] for each in lost(run_of, needs, given_up, settings=settings, weakens=("persistence",))[0]
    ]
    assert [] == lost(run_of, given_up, settings=settings)[0]


def test_a_loss_that_is_not_promised_is_one_that_was_seen(run_of):
    """The configuration gives the promise up, and the check has failed."""
    failed = row("SOLCD-ACK-01", Verdict.NOT_APPLICABLE, anomaly="lost", failed_unpromised="9 of 30 lost", control=None)

    assert [("as configured", "not promised: 9 of 30 lost", "No setting is known that changes it.")] == lost(
        run_of, failed, settings={}
    )[0]


def test_a_loss_that_no_document_forbids_is_one_that_was_seen(run_of):
    gone = {"anomaly": "lost", "fault": "kill", "faults": 3, "control": None}
    failed = row("EXPECT-STORED-01", Verdict.OBSERVED, offended=1, offended_faults=2, offences=41, **gone)
    kept = row("EXPECT-STORED-01", Verdict.OBSERVED, scenario="b", **gone)

    assert [("as configured", "not promised: lost in 2 of 6 kills", "No setting is known that changes it.")] == lost(
        run_of, failed, kept, settings={}
    )[0]
    assert [] == lost(run_of, kept, settings={})[0]


def test_a_message_that_was_not_stored_is_not_lost(run_of):
    """Of the broker as configured, and of a control: it was confirmed before a sync, and no power loss came."""
    early = {"anomaly": "confirmed_before_sync", "fault": "held_sync"}
    none = ControlResult(label="persistence=false", strong=False, failed=3, trials=3)
    bad = violated(faults=3, offended_faults=2, control=None, **early)
    words = lost(run_of, bad, row(control=none, scenario="b", **early), settings={"persistence": True})[0]

    assert [
        ("as configured", "confirmed before they were stored in 2 of 9 starts with held syncs"),
        ("persistence=false", "confirmed before they were stored in 3 of 3 trials if the disk fails"),
    ] == [each[:2] for each in words]


def test_a_finding_says_what_to_set(run_of):
    """One that the run shows, and then one that is only known; a bug stands with the finding of the same scenario."""
    bad = violated("EXPECT-SYNC-01", anomaly="lost", fault="power_loss", scenario="power-lost-while-publishing")
    words, found = lost(
        run_of,
        msgspec.structs.replace(bad, faults=3, offended_faults=3, control=None),
        adapter="rabbitmq",
        version="4.3.6",
        settings={},
    )

    assert [
        ("as configured", "lost in 3 of 3 power losses"),
        ("queue_type=quorum", ""),
    ] == [each[:2] for each in words]
    assert words[0][2].startswith("queue_type=quorum: such a queue syncs before it confirms.")
    assert [["findings", "bugs"], ["findings", "bugs"]] == [[p.page for p in one.problems] for one in found]


def test_every_command_of_the_published_site_is_one(catalogue, scenarios):
    """Each that plays a loss again is understood, and names a scenario and a claim of today."""
    pages = sorted((paths.root() / "reports" / "examples").glob("*/index.html"))
    printed = [one for page in pages for one in re.findall(r"<code>(conformance run [^<]+)</code>", page.read_text())]

    assert len(printed) > len(pages)
    for command in printed:
        values = cli.commands["run"].make_context("run", shlex.split(html.unescape(command))[2:]).params
        assert {*values["scenario"]} <= scenarios.keys()
        assert {*values["require"]} <= catalogue.claims.keys()
