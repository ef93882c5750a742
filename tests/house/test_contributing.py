"""The pages for contributors, followed to the letter in a checkout: what they add is accepted and does what they say."""

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import pytest

from conformance import paths

ROOT = paths.root()


@pytest.fixture
def checkout(tmp_path):
    """A copy of what the package reads, without .venv."""
    unread = shutil.ignore_patterns("__pycache__", "examples", "*.html")
    for name in ("conformance", "suites", "fixtures", "reports", "docs", "tools"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=unread)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def blocks(page, language):
    text = (ROOT / "docs" / "contributing" / page).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def replace(path, old, new):
    text = path.read_text()
    assert 1 == text.count(old)
    path.write_text(text.replace(old, new))


def play(checkout, page):
    """Run every line of the page's console blocks; returns what each printed."""
    said = []
    for line in "".join(blocks(page, "console")).splitlines():
        name, *words = shlex.split(line, comments=True)
        said.append(
            played(checkout, [*{"conformance": ["-m", "conformance.frontend.cli"], "python": []}[name], *words])
        )
    return said


def played(checkout, words):
    """Return what Python prints with these words, in the checkout."""
    path = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])
    env = {**os.environ, "PATH": path, "PYTHONPATH": str(checkout)}
    command = [sys.executable, *words]
    done = subprocess.run(command, cwd=checkout, env=env, capture_output=True, text=True, check=False)
    assert 0 == done.returncode, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.spark
def test_the_claim_and_the_scenario_of_the_page(checkout):
    (claim,), (script,) = blocks("scenario.md", "yaml"), blocks("scenario.md", "python")
    (checkout / "suites" / "claims" / "example.yaml").write_text(claim)
    (checkout / "suites" / "example").mkdir()
    (checkout / "suites" / "example" / "stops.py").write_text(f'"""An example."""\n\n{script}')

    play(checkout, "scenario.md")

    rows = json.loads((checkout / "runs" / "new" / "report.json").read_text())["verdicts"]
    assert [("broker-stopped-twice-while-publishing", "lost", "HOLDS")] == [
        (row["scenario"], row["anomaly"], row["verdict"])
        for row in rows
        if row["claim"] == "EXPECT-STOPS-01" and row["trials"]
    ]
    assert "EXPECT-STOPS-01" in (checkout / "docs" / "reference" / "claims.md").read_text()


@pytest.mark.spark
def test_the_fault_of_the_page(checkout):
    """One class and one entry of a union, the word of the catalogue, a claim and a scenario: four files."""
    (fault, entry, script), (word,), (claim,) = (blocks("fault.md", kind) for kind in ("python", "text", "yaml"))
    table = checkout / "conformance" / "scenario" / "faults.py"
    replace(table, f"{entry.rpartition(' | ')[0]}\n", f"{fault}\n\n{entry}")
    replace(checkout / "suites" / "claims" / "catalogue.yaml", "\nfaults:\n", f"\nfaults:\n{word}")
    (checkout / "suites" / "claims" / "example.yaml").write_text(claim)
    (checkout / "suites" / "example").mkdir()
    (checkout / "suites" / "example" / "aborts.py").write_text(f'"""An example."""\n\n{script}')

    shown, *_ = play(checkout, "fault.md")

    (trial, *_) = (checkout / "runs" / "new" / "trials").glob("*.subject.*")
    steps = json.loads((trial / "trial.json").read_text())["steps"]
    (row, *_) = [
        row
        for row in json.loads((checkout / "runs" / "new" / "report.json").read_text())["verdicts"]
        if row["claim"] == "EXPECT-ABORT-01" and row["trials"]
    ]
    page = (checkout / "runs" / "new" / "report.html").read_text()
    reference = (checkout / "docs" / "reference" / "scenarios.md").read_text()

    assert "decides: EXPECT-ABORT-01" in shown
    assert "abort" == steps[0]["until"]["fault"]
    assert ("HOLDS", "abort", "process death after a failed assertion") == (
        row["verdict"], row["fault"], row["failure_model"]
    )  # fmt: skip
    assert " aborts " in row["reason"]
    assert "SIGABRT to every process of the broker" in page
    assert "| `abort` | the broker process ends after a failed assertion and is started again |" in reference


@pytest.mark.spark
def test_the_option_of_the_page(checkout):
    """A field, an entry, and the scenario that uses it: three files."""
    field, entry, script = blocks("option.md", "python")
    vocabulary, table = (checkout / "conformance" / "scenario" / name for name in ("script.py", "options.py"))
    replace(vocabulary, "    parity: bool = False\n", f"    parity: bool = False\n{field}")
    opening = "OF_PUBLISH: tuple[StepOption, ...] = (\n"
    replace(table, opening, f"{opening}{entry.rstrip()},\n")
    (checkout / "suites" / "example").mkdir()
    (checkout / "suites" / "example" / "regions.py").write_text(f'"""An example."""\n\n{script}')

    play(checkout, "option.md")

    page = (checkout / "runs" / "new" / "report.html").read_text()
    (trial,) = (checkout / "runs" / "new" / "trials").glob("*.subject.1")
    rows = json.loads((checkout / "runs" / "new" / "report.json").read_text())["verdicts"]
    (bare,) = [row for row in rows if (row["claim"], bool(row["control"])) == ("AMQP-BARE-01", True)]
    assert "each says where it is from" in " ".join(page.split())
    assert True is json.loads((trial / "trial.json").read_text())["steps"][0]["region"]
    assert ("HOLDS", 1) == (bare["verdict"], bare["control"]["failed"])
    assert '"intact":true' in (trial / "drain-1.jsonl").read_text()


@pytest.mark.process
def test_the_broker_of_the_page(checkout):
    (checkout / "fixtures" / "brokers" / "example").mkdir()

    _, shown, checked = play(checkout, "broker.md")

    assert "native       can be started here" in shown
    assert "can be tried: conformance run --adapter example" in checked


ACCEPTED = """
import json
from conformance.adapters.credentials import parse_url
from conformance.campaign import Options, prepare
from conformance.frontend import doctor
from conformance.protocols import REPRODUCERS, link_reading

print(json.dumps([
    parse_url("example://broker").port,
    prepare(Options(adapter="example", protocol="example")).selection.protocol,
    [type(each).__module__ for each in link_reading("example").readers()],
    [words for probe in doctor.PROBES if "example" in (words := probe.enables())],
    list(REPRODUCERS),
]))
"""


@pytest.mark.process
def test_the_protocol_of_the_page(checkout):
    """One folder and one entry of the table: the protocol is accepted wherever the suite names one."""
    record, sessions = blocks("protocol.md", "python")
    room = checkout / "conformance" / "protocols"
    (room / "example").mkdir()
    (room / "example" / "__init__.py").write_text(record)
    (room / "example" / "sessions.py").write_text(sessions)
    table = room / "__init__.py"
    table.write_text(re.sub(r"\bjms, (stomp|amqp091|mqtt)\b", r"example, jms, \1", table.read_text()))
    (checkout / "fixtures" / "brokers" / "example").mkdir()

    _, shown, checked, _ = play(checkout, "protocol.md")

    assert "over example the same" in shown
    assert "example: found again" in checked
    assert "can be tried: conformance run --adapter example" in checked
    (port, protocol, readers, (enables,), reproduced) = json.loads(played(checkout, ["-c", ACCEPTED]))
    assert (61615, "example", ["amqp", "stomp", "example", "amqp091", "mqtt", "mqtt311"]) == (
        port,
        protocol,
        reproduced,
    )
    assert ["conformance.protocols.stomp.frames"] * 2 == readers
    assert re.fullmatch(r"--protocol example: \d+ claims, 0 of them decided only there", enables)
    reference = checkout / "docs" / "reference"
    assert "amqp, stomp, example, amqp091, mqtt, mqtt311, or jms through" in (reference / "options.md").read_text()
    assert "| `example` | [ProtocolAccess]" in (reference / "broker-toml.md").read_text()
