"""Runs on a file system that Spark knows: their evidence is copied, and judged as that of a local folder is."""

import shutil
import zipfile

import msgspec
import pytest
from judge_histories import CLEAN, RUN
from judge_tampering import edit_history, recorded

from conformance import records
from conformance.errors import HistoryError, JudgeError, UsageError
from conformance.judge.input import remote
from conformance.records import RunFile
from conformance.report import model

MOUNT = "fs.viewfs.mounttable.lab.link./runs"


def lose_a_trial(run):
    shutil.rmtree(run / "trials" / "subject.2")


def lose_a_record(run):
    (run / "trials" / "subject.2" / "trial.json").unlink()


@pytest.fixture
def there(tmp_path):
    """The folder of two runs, with the log of a broker; the second one is incomplete."""
    one = recorded(tmp_path / "there" / "one", [CLEAN] * 3, msgspec.structs.replace(RUN, selected=("SOLCD-ACK-01",)), 5)
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


@pytest.mark.spark
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


@pytest.mark.spark
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


@pytest.mark.spark
def test_a_copy_that_exists(session, judge, there, tmp_path):
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
    remote.copy_runs(session.spark, uri)
    (copy / "trials" / "subject.2" / "more.jsonl").write_text("")
    refused()
    shutil.rmtree(copy)
    (copy / "mine").mkdir(parents=True)
    refused()


@pytest.mark.spark
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


@pytest.mark.spark
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


@pytest.mark.spark
def test_a_local_pattern(judge, there):
    """Quoted, it takes the folders that have a run.json; one that has none is an error that names it."""
    (there / "site").mkdir()
    done = judge(f"{there}/*")

    assert (3, True) == (done.returncode, (there / "one" / "report.html").is_file())
    done = judge(f"{there}/three*")
    assert (4, 1, True) == (done.returncode, done.stderr.count("\n"), f"{there}/three*" in done.stderr)


@pytest.mark.spark
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


@pytest.fixture
def copied(there, tmp_path, monkeypatch):
    """Copy `lab://runs/...` to `runs`, by Python instead of Spark; returns the folders, and the patterns of files."""
    monkeypatch.chdir(tmp_path)
    asked = []

    def files(spark, uri, pattern):
        asked.append((spark, uri, pattern))
        plans = pattern.endswith("/run.json")
        place = (pattern if plans else uri).removeprefix("lab://runs/")
        for path in sorted(there.glob(place) if plans else (there / place).rglob("*.json*")):
            yield f"lab://runs/{path.relative_to(there)}", path.read_bytes()

    monkeypatch.setattr(remote, "_files", files)
    return lambda uri="lab://runs/one": (remote.copy_runs("spark", uri), asked)


def test_what_the_judge_reads_is_copied(copied, there, tmp_path):
    (there / "one" / "workers" / "gw0").mkdir(parents=True)
    (there / "one" / "workers" / "gw0" / "run.json").write_text("{}")
    folders, asked = copied("lab://runs/*/")

    assert [tmp_path / "runs" / name for name in ("one", "two")] == folders
    assert [sorted(map(str, (each.relative_to(run) for each in evidence(run)))) for run in sorted(there.iterdir())] == [
        [name for name in files(folder) if not name.startswith("workers")] for folder in folders
    ]
    assert (folders[0] / "workers" / "gw0" / "run.json").read_text() == "{}"
    homes = [f"lab://runs/{name}" for name in ("one", "two")]
    assert [
        ("spark", "lab://runs/*/", "lab://runs/*/run.json"),
        *(("spark", home, f"{home}/{{run.json,trials,workers/*/run.json}}") for home in homes),
    ] == asked


def test_only_a_slash_is_taken_from_an_address(copied):
    """Here it has no run."""
    assert ([], [("spark", "lab://runs/X", "lab://runs/X/run.json")]) == copied("lab://runs/X")


def test_an_interrupted_copy_has_the_plan_of_its_run(copied, there, tmp_path, monkeypatch):
    """So it is known, and completed."""
    listed = remote._files

    def lost(spark, uri, pattern):
        if not pattern.endswith("/run.json"):
            raise JudgeError("the connection was lost")
        yield from listed(spark, uri, pattern)

    with monkeypatch.context() as once:
        once.setattr(remote, "_files", lost)
        with pytest.raises(JudgeError):
            copied()
    assert ["one/run.json"] == files(tmp_path / "runs")
    assert [tmp_path / "runs" / "one"] == copied()[0]
    assert len(evidence(there / "one")) == len(evidence(tmp_path / "runs" / "one"))


def of_another_run(copy):
    copy.mkdir(parents=True)
    (copy / "run.json").write_text("{}")


def a_file(copy):
    copy.parent.mkdir()
    copy.write_text("")


def only(name, text="{}"):
    """The folder has just this file."""

    def prepare(copy):
        (copy / name).parent.mkdir(parents=True)
        (copy / name).write_text(text)

    return prepare


@pytest.mark.parametrize(
    ("prepare", "refused"),
    [
        (lambda copy: copy.mkdir(parents=True), False),
        (a_file, True),
        (only("mine"), True),
        (of_another_run, True),
        (only("trials/subject.1/trial.json"), True),
    ],
    ids=["empty", "a file", "something else", "another run", "without its plan"],
)
def test_a_folder_that_exists(copied, tmp_path, prepare, refused):
    copy = tmp_path / "runs" / "one"
    prepare(copy)
    if not refused:
        assert [copy] == copied()[0]
        return
    with pytest.raises(UsageError) as error:
        copied()
    assert (
        f"lab://runs/one cannot be copied to {copy}, which holds something else; move that away, or judge it by its name"
        == str(error.value)
    )
    assert ("folder-not-empty", {"folder": copy}) == (error.value.code, error.value.fields)


@pytest.mark.parametrize(
    ("name", "refused"),
    [
        ("trials/subject.1/drain-1.jsonl", True),
        ("report.json", False),
        ("trials/subject.1/events.json", False),
        ("trials/subject.1/more.jsonl", True),
        ("trials/subject.9/trial.json", True),
        ("workers/gw0/run.json", True),
    ],
)
def test_a_copy_with_another_file(copied, tmp_path, name, refused):
    """A file of the judge, or evidence that the run does not have, or has otherwise."""
    copied()
    path = tmp_path / "runs" / "one" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{}")
    if refused:
        with pytest.raises(UsageError, match=f"^lab://runs/one cannot be copied to {tmp_path}/runs/one, "):
            copied()
    else:
        assert [tmp_path / "runs" / "one"] == copied()[0]


def test_a_folder_in_the_place_of_a_file(tmp_path):
    (tmp_path / "run.json").mkdir()
    with pytest.raises(UsageError):
        remote.keep(tmp_path, "run.json", b"{}", "lab://runs/one")


def test_the_path_of_a_kept_file(tmp_path):
    """Also of one that is not kept."""
    assert [tmp_path / name for name in ("run.json", "report.html")] == [
        remote.keep(tmp_path, name, b"{}", "lab://runs/one") for name in ("run.json", "report.html")
    ]
    assert ["run.json"] == files(tmp_path)


@pytest.mark.parametrize(
    ("sizes", "batches"),
    [
        ([4, 6, 1, 9], ["ab", "cd"]),
        ([4, 7, 3, 1], ["a", "bc", "d"]),
        ([11, 1], ["a", "b"]),
        ([1, 11, 10], ["a", "b", "c"]),
    ],
)
def test_files_are_collected_in_batches(monkeypatch, sizes, batches):
    monkeypatch.setattr(remote, "AT_ONCE", 10)
    named = zip("abcd"[: len(sizes)], sizes, strict=True)

    assert batches == ["".join(batch) for batch in remote._batches(named)]


def test_the_pattern_of_a_path_matches_it_alone():
    assert [["/r\\[1\\]/\\{a\\}\\*\\?\\\\d"]] == list(remote._batches([("/r[1]/{a}*?\\d", 1)]))
    assert (True, False) == (remote.is_uri("hdfs://host/run"), remote.is_uri("runs/one"))
