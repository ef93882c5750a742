"""A run folder from another person: nothing in it runs, and no other file of this machine is read or written."""

import ast
import json
import os
import pathlib
import shlex
import zipfile

import pytest
from reproductions import FIRST, NAME, SCENARIOS, change

from conformance import adapters, campaign, claims, history, records
from conformance.adapters.credentials import Access, Secret, forms
from conformance.errors import HistoryError, UsageError
from conformance.followup import bundle, replay
from conformance.followup.bundle import archive, bug, script
from conformance.followup.replay import ReplayRequest
from conformance.frontend.cli import cli
from conformance.report import expectations
from conformance.run import artifacts

SECRET = "a line that no bundle may hold"


@pytest.fixture
def secret(tmp_path):
    """A file of this machine that is no part of the run."""
    path = tmp_path / "secret.json"
    path.write_text(SECRET)
    return path


@pytest.fixture
def evil(tmp_path):
    """An adapter class in a file, and the file that it leaves behind when it is loaded."""
    path, mark = tmp_path / "evil.py", tmp_path / "it-ran"
    path.write_text(f"import pathlib\npathlib.Path({str(mark)!r}).touch()\nclass Evil: pass\n")
    return path, mark


@pytest.mark.parametrize(
    "name", ["../x", "/etc/passwd", "a/../../x", "", ".", "link", "link/x", "loop", "a\0b", "pipe"]
)
def test_a_name_that_leads_out(tmp_path, name):
    """By its words, by a link, or to what is no file."""
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path)
    (folder / "loop").symlink_to("loop")
    os.mkfifo(folder / "pipe")

    with pytest.raises(HistoryError, match=r"is a symbolic link|is not the name of a file|is a pipe"):
        records.inside(folder, name)


def test_a_name_that_stays(tmp_path, monkeypatch):
    """There or not, below a folder that is named by a link or from where one is."""
    (tmp_path / "run" / "logs").mkdir(parents=True)
    (tmp_path / "way").symlink_to("run")
    monkeypatch.chdir(tmp_path)

    for folder in (tmp_path / "run", tmp_path / "way", pathlib.Path("run")):
        assert folder / "logs" / "a.log" == records.inside(folder, "logs/a.log")


@pytest.mark.spark
@pytest.mark.parametrize("name", ["report.html", "run.part", "trials/again", f"trials/{FIRST}/events.parquet"])
def test_judge_writes_through_no_link(copy, secret, spark, typed, name):
    """One line and exit 3; what the link leads to stays as it was."""
    path = copy / name
    path.unlink(missing_ok=True)
    path.symlink_to(secret)
    done = typed("judge", copy)

    assert (3, 1) == (done.returncode, done.stderr.count("\n")), done.stderr
    assert f"'{name}' leads out of the folder or is a symbolic link" in done.stderr
    assert SECRET == secret.read_text()


@pytest.mark.spark
def test_links_of_a_broker_are_its_own(copy, secret, spark, tmp_path):
    """They refuse nothing, and nothing of them is in the bundle."""
    (folder,) = {path.parent for path in copy.glob("brokers/*/settings.toml")} & {
        copy / "brokers" / json.loads((copy / "trials" / FIRST / "evidence.json").read_text())["broker"]
    }
    (folder / "instance").mkdir(exist_ok=True)
    (folder / "instance" / "mine.conf").symlink_to(secret)
    made = bundle.make(f"{copy}#{FIRST}", tmp_path / "b.zip", spark)

    with zipfile.ZipFile(made.path) as found:
        assert SECRET.encode() not in b"".join(map(found.read, found.namelist()))


@pytest.mark.spark
@pytest.mark.parametrize("what", ["log", "later log", "journal", "broker", "history"])
def test_a_bundle_takes_no_other_file(copy, secret, spark, tmp_path, what):
    """Named by `evidence.json`, or linked to."""
    path = copy / "trials" / FIRST / "evidence.json"
    said = json.loads(path.read_text())
    out = os.path.relpath(secret, copy / "brokers" / said["broker"])
    if what == "log":
        change(path, logs=[{"path": out, "begin": 0, "end": 9}])
    elif what == "later log":
        (copy / "brokers" / said["broker"] / "start-99.log").symlink_to(secret)
    elif what == "journal":
        change(path, journals=[{**said["journals"][0], "file": os.path.relpath(secret, path.parent)}])
    elif what == "broker":
        change(path, broker="../..")
    else:
        (path.parent / "more.json").symlink_to(secret)
    with pytest.raises(HistoryError, match="leads out of the folder or is a symbolic link"):
        bundle.make(f"{copy}#{FIRST}", tmp_path / "b.zip", spark)

    assert not (tmp_path / "b.zip").exists()


def test_a_trial_in_the_folder_of_another(copy):
    """Its name is a path that the suite would read and write."""
    change(copy / "trials" / FIRST / "trial.json", trial="../../..")

    with pytest.raises(HistoryError, match="in the folder of another trial"):
        replay.read_run(copy)


@pytest.mark.spark
def test_code_beside_the_run(copy, evil, spark, tmp_path, capsys):
    """A class that `broker.json` names is loaded only where the user trusts it; the error says what that means."""
    path, mark = evil
    records.keep_broker(copy, f"{path}:Evil", path)
    change(copy / "run.json", adapter="evil")
    for place in copy.glob("trials/*/trial.json"):
        change(place, adapter="evil")
    with pytest.raises(UsageError) as bundled:
        cli.main(["bundle", f"{copy}#{FIRST}"], standalone_mode=False)
    with pytest.raises(UsageError) as replayed:
        cli.main(["replay", str(copy), "--scenario", NAME, "--trial", "1"], standalone_mode=False)

    assert not mark.exists()
    for error in (bundled, replayed):
        assert f"{copy}: broker.json, broker.py: these files of the run say how" in str(error.value)
        assert "They can run any program as you" in str(error.value)
        assert "If you trust the author of the folder, add --trust" in str(error.value)
    assert "--adapter" in str(replayed.value)
    assert 0 == cli.main(
        ["bundle", f"{copy}#{FIRST}", "--trust", "--out", str(tmp_path / "b.zip")], standalone_mode=False
    )
    assert mark.exists()


@pytest.mark.parametrize(
    ("run", "trial"),
    [
        ({}, {"adapter": "{path}:Evil"}),
        ({"adapter": "{path}:Evil"}, {"adapter": "{path}:Evil"}),
        ({"launcher": "native={path}"}, {}),
        ({"version": "1:native={path}"}, {}),
        ({"launcher": "external={path}"}, {}),
    ],
    ids=["trial", "run", "native", "version", "external"],
)
@pytest.mark.spark
def test_a_record_names_an_installed_broker_or_none(copy, evil, spark, run, trial):
    """Not a file, a class or a folder: then the bundle goes without a script, and the replay is refused."""
    path, mark = evil
    change(copy / "run.json", **{key: value.format(path=path) for key, value in run.items()})
    change(copy / "trials" / FIRST / "trial.json", **{key: value.format(path=path) for key, value in trial.items()})
    source = bundle.gather(f"{copy}#{FIRST}", spark)
    if run:
        with pytest.raises(UsageError):
            replay.prepare(ReplayRequest(copy, NAME, "1"))

    assert source.adapter is None
    assert not mark.exists()


@pytest.mark.spark
def test_a_login_and_a_configuration_are_trusted_too(copy, tmp_path, monkeypatch):
    """They decide which secret of this machine goes where, and what the broker loads; a bundle sends and runs nothing."""
    monkeypatch.setenv("ALICE", "secret")
    (copy / "access.json").write_text(json.dumps({"user": "alice", "password": {"env": "ALICE"}}))
    (copy / "config").mkdir()
    with pytest.raises(UsageError, match=r": config/, access\.json: these files of the run say how"):
        replay.prepare(ReplayRequest(copy, NAME, "1"))
    with pytest.raises(UsageError, match=r": config/, access\.json: "):
        replay.prepare(ReplayRequest(copy, NAME, "1", adapter="reference"))
    (copy / "config").rmdir()

    assert (
        replay.prepare(ReplayRequest(copy, NAME, "1", trust=True, out=tmp_path / "o")).campaign.options.access.user
        == "alice"
    )
    artifacts.check_trust(copy, replayed=False)


def test_an_address_is_no_code(tmp_path):
    """A bundle never calls it; a replay would."""
    artifacts.keep(tmp_path, adapters.find("reference:external=amqp://127.0.0.1:1,http://127.0.0.1:2"))
    artifacts.check_trust(tmp_path, replayed=False)

    with pytest.raises(UsageError, match=r"broker\.json: these files"):
        artifacts.check_trust(tmp_path, replayed=True)
    artifacts.check_trust(tmp_path, replayed=True, named=True)


@pytest.mark.parametrize("name", ["../x", "a/../x", "/x", "a//x", "a\\..\\x", "C:x", "a\nb", ""])
def test_names_in_the_zip(tmp_path, name):
    """No program unpacks a member outside the folder, on any system; nothing is written."""
    with pytest.raises(HistoryError, match="cannot be a member of a bundle"):
        archive.write(tmp_path / "b.zip", {"bug.md": b"", name: b""}, [])

    assert [] == list(tmp_path.iterdir())


HOSTILE = 'x """\nimport os\nos._exit(7)\n""" \\ \'\'\' {{ 7 * 7 }} \0\r"'


def test_text_of_the_run_is_no_python():
    """Title and queue are literals: the same text again, but for characters that a terminal would obey."""
    item = SCENARIOS[NAME].drawn(5)
    text = script.write(item, ["lost"], adapters.find("reference"), "amqp", HOSTILE, HOSTILE).text
    honest = script.write(item, ["lost"], adapters.find("reference"), "amqp", "orders", "A title").text
    found, expected = ast.parse(text), ast.parse(honest)
    (default,) = (
        keyword.value
        for call in ast.walk(found)
        if isinstance(call, ast.Call) and [getattr(arg, "value", "") for arg in call.args] == ["--queue"]
        for keyword in call.keywords
    )

    assert ast.get_docstring(found, clean=False).startswith(HOSTILE.replace("\0", "\\x00").replace("\r", "\\r"))
    assert HOSTILE == default.value
    default.value = "orders"
    found.body[0].value.value = expected.body[0].value.value
    assert ast.dump(found) == ast.dump(expected)


@pytest.mark.parametrize("text", ["plain", 'ends in "', '"""', '\\"""', "back\\slash", "\\", "", "two\nlines\n"])
def test_a_docstring_reads_back(text):
    """With any quotes and backslashes in it."""
    assert text == ast.literal_eval(script.docstring(text))


def test_a_command_line_of_the_report():
    """A maintainer pastes it into a shell."""
    assert ["<distribution>/bin/{x}", "a=b:c"] == list(map(bug._quoted, ["<distribution>/bin/{x}", "a=b:c"]))
    for word in ("'; touch x; '", "$(touch x)", "a b"):
        command = bug._argument(f"run {bug._quoted(word)}")
        assert ["--start", f"run {bug._quoted(word)}"] == shlex.split(f"--start {command}")
        assert ["run", word] == shlex.split(shlex.split(command)[0])


def test_a_run_of_another_protocol(copy):
    """The error names it, and nothing is guessed."""
    change(copy / "run.json", protocol="ftp")

    with pytest.raises(HistoryError, match="protocol 'ftp': a bundle knows amqp and stomp"):
        bundle.gather(f"{copy}#{FIRST}")


def test_judging_reads_no_link(copy, secret):
    """Also without a command line."""
    (copy / "run.json").unlink()
    (copy / "run.json").symlink_to(secret)

    with pytest.raises(HistoryError, match="symbolic link"):
        campaign.judge_folders([copy])


def test_brackets_without_end(tmp_path):
    """Each file that may come from others is refused in one line."""
    deep = tmp_path / "deep"
    deep.write_text('{"x": ' + "[" * 100_000)
    table = tmp_path / "deep.toml"
    table.write_text("x = " + "[" * 20_000)

    for error, read in (
        (HistoryError, lambda: records.read(deep, records.RunRecord)),
        (HistoryError, lambda: history.read(deep)),
        (UsageError, lambda: expectations.read_report(deep)),
        (UsageError, lambda: expectations.read_known(table, claims.load())),
        (UsageError, lambda: adapters.find(str(table))),
        (UsageError, lambda: adapters.find(f"reference:external={table}")),
    ):
        with pytest.raises(error, match="recursion") as caught:
            read()
        assert "\n" not in str(caught.value)


def test_a_password_file_that_never_ends(tmp_path):
    """A bundle looks for the password of a run in all that it writes; the run names the file."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b"x" * 100_000)

    for path in ("/dev/zero", tmp_path / "pipe", tmp_path / "large"):
        typed = Access(user="alice", password=Secret(file=str(path)))
        with pytest.raises(UsageError, match=r"is not a file|more than 65536 bytes"):
            typed.password.read()
        assert set() == forms(typed)
