"""Runs on a file system that Spark knows: their evidence is copied, and judged as that of a local folder is."""

import shutil
import zipfile

import msgspec
import pytest
from judge_histories import CLEAN, RUN
from judge_tampering import edit_history, recorded

from conformance import records
from conformance.errors import HistoryError
from conformance.judge.input import remote
from conformance.records import RunFile
from conformance.report import model

pytestmark = pytest.mark.spark
MOUNT = "fs.viewfs.mounttable.lab.link./runs"


def lose_a_trial(run):
    shutil.rmtree(run / "trials" / "subject.2")


def lose_a_record(run):
    (run / "trials" / "subject.2" / "trial.json").unlink()


@pytest.fixture
def there(tmp_path):
    """The folder of two runs, with the log of a broker; the second one is incomplete."""
    one = recorded(tmp_path / "there" / "one", [CLEAN] * 3, msgspec.structs.replace(RUN, selected=("SOLCD-ACK-01",)))
    records.save(records.read(one / "run.json", RunFile).sealed, one / "run.json")
    two = shutil.copytree(one, tmp_path / "there" / "two")
    lose_a_trial(two)
    for name in ("brokers/b/broker.log", "brokers/b/data.jsonl", "report.json", "trials/subject.1/more/x.jsonl"):
        (one / name).parent.mkdir(parents=True, exist_ok=True)
        (one / name).write_text("{}")
    return one.parent


@pytest.fixture
def judge(session, typed):
    """Type `conformance judge`."""

    def judge(*words):
        done = typed("judge", *words)
        assert "Traceback" not in done.stderr
        return done

    return judge


def judged(run):
    found = model.read_json(run / "report.json").judgement
    return found.run, found.rows, found.trials, found.courses


def evidence(run):
    return [run / "run.json", *(path for trial in run.glob("trials/*") for path in records.evidence(trial))]


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.full
def test_a_pattern_on_another_file_system(conformance, there, tmp_path):
    """By the Spark of the command: each run is judged as its local folder is, and only its evidence was brought."""
    copies = tmp_path / "runs"
    done = conformance("judge", "viewfs://lab/runs/*", "--spark-conf", f"spark.hadoop.{MOUNT}={there.as_uri()}")

    assert (3, "") == (done.returncode, done.stderr)
    assert f"viewfs://lab/runs/*: copied to {copies / 'one'}" in done.stdout
    assert "the folder of subject.2 is missing" in done.stdout
    brought = files(copies / "one")
    assert {str(path.relative_to(there / "one")) for path in evidence(there / "one")} < set(brought)
    assert not [name for name in brought if "brokers" in name or "more" in name or name.endswith(".part")]
    found = [judged(copies / name) for name in ("one", "two")]
    assert 3 == conformance("judge", there / "*", "--again").returncode
    assert found == [judged(there / name) for name in ("one", "two")]
    assert "HOLDS" in {str(row.verdict) for row in found[0][1]}


@pytest.mark.parametrize("change", [lose_a_trial, lose_a_record, edit_history])
def test_a_run_that_was_changed(judge, there, tmp_path, change):
    """It is as undecided, or as unreadable, as its folder is."""
    change(there / "one")
    here = judge(there / "one", "--again")
    done = judge(f"{there.as_uri()}/one")

    assert (3, here.stderr.replace(str(there), str(tmp_path / "runs"))) == (done.returncode, done.stderr)
    assert here.returncode == 3
    if not done.stderr:
        assert judged(there / "one") == judged(tmp_path / "runs" / "one")


def test_a_copy_that_exists(judge, there, tmp_path):
    """That of the same run is completed, and stays judged; nothing else is ever written into."""
    uri, copy = f"{there.as_uri()}/one", tmp_path / "runs" / "one"
    assert 0 == judge(uri).returncode
    before = judged(copy)
    assert f"{copy}: not changed since it was judged" in judge(uri).stdout

    (copy / "trials" / "subject.2" / "trial.json").unlink()
    assert (0, before) == (judge(uri).returncode, judged(copy))

    def refused():
        kept = files(copy)
        done = judge(uri)
        assert (4, 1) == (done.returncode, done.stderr.count("\n")), done.stderr
        assert f"cannot be copied to {copy}, which holds something else" in done.stderr
        assert kept == files(copy)

    edit_history(copy)
    refused()
    shutil.rmtree(copy)
    judge(uri)
    (copy / "trials" / "subject.2" / "more.jsonl").write_text("")
    refused()
    shutil.rmtree(copy)
    (copy / "mine").mkdir(parents=True)
    refused()


@pytest.mark.parametrize(
    ("uri", "code", "words"),
    [
        ("{there}/three", 4, "there is no run, because it has no run.json"),
        ("{there}/three*", 4, "there is no run, because it has no run.json"),
        ("nosuch://x/y", 3, 'No FileSystem for scheme "nosuch". Is the address right?'),
        ("s3a://bucket/run", 3, "spark.jars.packages=org.apache.hadoop:hadoop-aws"),
        ("hdfs://host.invalid/run", 3, "UnknownHostException: host.invalid"),
        ("{there}/[", 3, "Unclosed character class"),
    ],
)
def test_a_uri_without_a_run(judge, there, tmp_path, uri, code, words):
    """One line that names it, and nothing is written."""
    uri = uri.format(there=there.as_uri())
    done = judge(uri)

    assert (code, 1) == (done.returncode, done.stderr.count("\n")), done.stderr
    assert done.stderr.startswith(f"conformance: {uri}: ")
    assert words in done.stderr
    assert not (tmp_path / "runs").exists()


def test_the_name_of_a_run_may_have_any_character(session, there, tmp_path, monkeypatch):
    """A pattern finds it; its own name is no pattern. Here each file is collected alone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(remote, "AT_ONCE", 1)
    odd = (there / "one").rename(there / "{on[e]* %41")
    (copy,) = remote.copy_runs(session.spark, f"{there.as_uri()}/*on*")

    assert odd.name == copy.name
    assert [path.read_bytes() for path in evidence(odd)] == [path.read_bytes() for path in evidence(copy)]


@pytest.mark.parametrize(
    "name", ["../x/run.json", "trials/../run.json", "/etc/run.json", "trials/../../x.jsonl", "..", "a\0b"]
)
def test_a_name_that_leads_out(tmp_path, name):
    with pytest.raises(HistoryError):
        remote.keep(tmp_path / "run", name, b"{}", "s3a://bucket/run")

    assert [] == files(tmp_path)


def test_a_local_pattern(judge, there):
    """Quoted, it takes the folders that have a run.json; one that has none is an error that names it."""
    (there / "site").mkdir()
    done = judge(f"{there}/*")

    assert (3, True) == (done.returncode, (there / "one" / "report.html").is_file())
    done = judge(f"{there}/three*")
    assert (4, 1, True) == (done.returncode, done.stderr.count("\n"), f"{there}/three*" in done.stderr)


@pytest.mark.full
def test_jars_of_the_user(conformance, there, tmp_path):
    """Spark finds what is in them: a file system, and here its settings."""
    settings = (
        f"<configuration><property><name>{MOUNT}</name><value>{there.as_uri()}</value></property></configuration>"
    )
    with zipfile.ZipFile(tmp_path / "mine.jar", "w") as jar:
        jar.writestr("core-site.xml", settings)
    done = conformance("judge", "viewfs://lab/runs/one", "--spark-conf", f"spark.jars={tmp_path / 'mine.jar'}")

    assert (0, "") == (done.returncode, done.stderr)
