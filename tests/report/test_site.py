"""The site over many runs: stable addresses, brokers side by side, badges, and what cannot be read."""

import json
import re
import xml.etree.ElementTree as ET

import msgspec
import pytest
from click.testing import CliRunner
from report_rows import full, judgement, row, violated

import conformance
from conformance import paths
from conformance.errors import UsageError
from conformance.frontend.cli import cli
from conformance.judge.rows import Verdict
from conformance.judge.rules import UNPLAYED
from conformance.report import model, site, write_all


@pytest.fixture
def run_of(catalogue, scenarios, tmp_path):
    """Write the report of a run; return its folder."""

    def write(name, *rows, **changes):
        write_all(judgement(*rows, **changes), catalogue, scenarios, tmp_path / "runs" / name)
        return tmp_path / "runs" / name

    return write


def test_runs_side_by_side(run_of, tmp_path):
    """A run has a page, data and badges at its address; the index has its answers, and links to each claim."""
    run_of("a", row(anomaly="lost", fault="kill", faults=3), adapter="artemis", version="2.56.0")
    bad = violated(anomaly="lost", fault="kill", faults=3, offended_faults=2)
    run_of("b", bad, adapter="rabbitmq", version="4.3.6", title="<b>RabbitMQ")
    index = site.write([tmp_path / "runs"], tmp_path / "site").read_text()

    for address, claims in (("artemis/2.56.0/amqp", "1 hold, 0"), ("rabbitmq/4.3.6/amqp", "0 hold, 1")):
        folder = tmp_path / "site" / address
        assert {"report.html", "report.json", "badge.json", "badge.svg"} == {path.name for path in folder.iterdir()}
        assert f"{claims} violated" == json.loads((folder / "badge.json").read_text())["message"]
        assert f"{claims} violated" in ET.parse(folder / "badge.svg").getroot().get("aria-label")
        assert f'<a href="{address}/report.html#claim-SOLCD-ACK-01" class="v t-' in index
    assert "0 lost in 3 kills</b><small>weak" in index
    assert "lost in 2 of 3 kills</b>" in index
    assert "&lt;b&gt;RabbitMQ 4.3.6" in index


def test_what_is_known_stands_in_the_cell(run_of, tmp_path):
    """Of that product, version and protocol, linked to its row; each with the settings that it needs."""
    held = row(anomaly="lost", fault="kill", faults=3)
    run_of("a", held, adapter="artemis", version="2.56.0")
    run_of("b", held, adapter="artemis", version="2.44.0")
    run_of("c", held, adapter="rabbitmq", version="4.3.6", protocol="amqp")
    index = site.write([tmp_path / "runs"], tmp_path / "site").read_text()
    known = re.findall(r'href="(\w+\.html)#([^"]+)">([^<]+)</a>', index.partition('id="versions"')[0])
    ids = {page: (tmp_path / "site" / page).read_text() for page, _, _ in known}

    assert [
        ("findings.html", "artemis_confirms_what_was_not_written.py", "what a full disk refused is confirmed"),
        (
            "findings.html",
            "artemis_damaged_body_delivered.py",
            "a body whose stored bytes have changed is delivered",
        ),
        (
            "findings.html",
            "artemis_paged_messages_unreachable_after_power_loss.py",
            "paged messages are unreachable after a power loss",
        ),
        ("bugs.html", "artemis-4543.toml", "ARTEMIS-4543"),
        ("bugs.html", "artemis-address-file.toml", "Artemis address file (page_size_bytes=500000)"),
        ("findings.html", "artemis_selector_not_binds_first.py", "NOT in a selector binds before the comparison"),
        ("findings.html", "rabbitmq_confirms_before_sync.py", "classic queues confirm before a sync"),
        ("findings.html", "rabbitmq_new_queue_forgotten.py", "a new queue is forgotten (queue_type=quorum)"),
        ("findings.html", "rabbitmq_serves_no_more_after_full_disk.py", "no client is served after the disk was full"),
        ("bugs.html", "rabbitmq-15725.toml", "RabbitMQ 15725 (queue_type=quorum)"),
        ("bugs.html", "rabbitmq-classic-queue-sync.toml", "RabbitMQ classic queue sync"),
    ] == known
    assert [name for page, name, _ in known if f'<tr id="{name}">' not in ids[page]] == []


def test_how_much_a_run_played_stands_beside_it(run_of, tmp_path):
    """And what a quick run left out is not hidden in its cells."""
    left = row(anomaly="lost", fault="power_loss", verdict=Verdict.NOT_TRIED, reason=UNPLAYED[0])
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
    assert 1 == index.count("0 lost in 3 kills</b><small>weak, partly tried</small>")
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
    """A vendor's client has an address of its own."""
    run_of("new", row(), started="2026-11-25T10:00:00+00:00")
    run_of("old", row(verdict=Verdict.INCONCLUSIVE), started="2026-11-24T10:00:00+00:00")
    run_of("jms", row(), vendor="qpid-jms", protocol="jms", client="Apache Qpid JMS 2.10.0")
    index = site.write([tmp_path / "runs"], tmp_path / "site").read_text()

    assert "INCONCLUSIVE</a>" not in index
    assert (tmp_path / "site/artemis/2.56.0/jms-qpid-jms/report.html").is_file()
    assert "jms through Apache Qpid JMS 2.10.0" in index


def test_what_changed_from_version_to_version(run_of, tmp_path):
    """By number, not by letter; only what both have tried, over the same protocol and client."""
    held = [row("SOLCD-ACK-01"), row("AMQP-DUR-01")]
    run_of("a", *held, version="2.9.0")
    run_of("b", violated("SOLCD-ACK-01"), row("AMQP-DUR-01"), row("EMS-STEP-03"), version="2.10.0")
    run_of("c", *held, version="2.10.0", protocol="stomp")
    index = site.write([tmp_path / "runs"], tmp_path / "site").read_text()
    told = " ".join(re.sub("<[^>]*>", "", index.partition('id="versions"')[2].partition("</section>")[0]).split())

    assert told.endswith("Artemis 2.9.0 to 2.10.0, over amqp SOLCD-ACK-01 ✓ HOLDS became ✗ VIOLATED")
    assert 2 == told.count(" to ")  # one is of the title


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

    assert [7, 9] == [len(found), len(commands)]
    for name, words in commands:
        cli.commands[name].make_context(name, words.split())
    for path in found:
        run = model.read_json(path).run
        assert f'href="{path.parent.relative_to(folder)}/report.html">' in index
        assert run.command.startswith(f"conformance run --adapter {run.adapter}")
    page = (folder / "selftest.html").read_text()
    assert '<a href="selftest.html">' in index
    assert f"ack-conformance {conformance.__version__}, " in page
    assert re.search(r"\b(\d+) of \1 brokers that lie were convicted", page)
    assert "No honest broker was accused in " in page
