"""`conformance adapters check`: one contract under every launcher, and brokers that break it."""

from __future__ import annotations

import importlib
import pathlib
import re
import sys
from collections.abc import Callable, Sequence

import pytest
from owned_broker import COMMANDS, Theirs

from conformance import adapters, paths
from conformance.errors import ClientError, ConformanceError, LaunchError, UsageError
from conformance.followup import contract
from conformance.ledger import Ledger, pids_of_run
from conformance.run.readiness_probe import ProbeClient

REFERENCE = (paths.fixtures() / "brokers/reference/broker.toml").read_text().replace('"bundled"', '"1.0"')
IN_A_CONTAINER = re.sub(
    r"\[container\]\n(.+\n)+",
    '[container]\nimages = [{ since = "0", name = "vendor/broker:{version}" }]\n',
    REFERENCE.replace('"{python}"', f'"{sys.executable}"').replace("{python_path}", str(paths.root())),
)
"""Its pretended container has this machine's Python and ports, and this very package."""

PORT_ONLY = """
name = "port"
title = "Port"
vendor = "tests"
default_version = "1.0"
capabilities = []
ports = ["main"]
[protocols.jms]
port = "main"
[start]
command = ["{python}", "{here}/port.py", "{main_port}"]
ready_s = 10
stop_s = 5
[depth]
method = "http"
[data]
path = "{instance}/data"
[journal]
path = "{instance}/data"
"""
LISTEN = "import os, signal, socket, sys\nlistener = socket.create_server(('127.0.0.1', int(sys.argv[1])))\n"
STRAY = f"""
import os, signal, sys, time
if "again" in sys.argv:
    signal.alarm(6)
    {LISTEN.replace(chr(10), chr(10) + "    ")}signal.pause()
if not os.fork():
    os.setsid()
    if not os.fork():
        os.execve(sys.executable, [sys.executable, __file__, sys.argv[1], "again"], {{}})
    os._exit(0)
signal.pause()
"""


def checked(tmp_path: pathlib.Path, toml: str) -> list[contract.Step]:
    """The steps that passed, or could not be tried."""
    (tmp_path / "mine.toml").write_text(toml)
    steps: list[contract.Step] = []
    adapter = adapters.find(str(tmp_path / "mine.toml"))
    with Ledger(tmp_path / "run", contract.run_id(adapter)) as ledger:
        contract.check(adapter, tmp_path / "broker", ledger, steps.append)
        assert pids_of_run(ledger.run_id) == []
    return steps


def failed(tmp_path: pathlib.Path, toml: str) -> ConformanceError:
    with pytest.raises(ConformanceError) as caught:
        checked(tmp_path, toml)
    return caught.value


BOTH, EACH = ("amqp", "stomp"), ("amqp", "stomp", "amqp091", "mqtt", "mqtt311")


def begun(protocols: Sequence[str]) -> list[str]:
    return ["prepare", "start", *(f"{protocol}: send and receive" for protocol in protocols), *left(protocols)]


def left(protocols: Sequence[str]) -> list[str]:
    return [f"{protocol}: {what}" for protocol in protocols for what in ("send and leave", "its depth is 1")]


def found(protocols: Sequence[str]) -> list[str]:
    return [f"{protocol}: found again" for protocol in protocols]


OURS = [*begun(EACH), "kill", "restart", *found(EACH), "stop", "nothing is left"]
THEIRS = [
    *begun(BOTH), "kill", "back after kill", *found(BOTH), *left(BOTH), "stop", "back after stop", *found(BOTH),
]  # fmt: skip


@pytest.mark.parametrize(("launcher", "names"), [("native", OURS), ("docker", OURS), ("external", THEIRS)])
@pytest.mark.usefixtures("pretend")
def test_every_launcher_keeps_the_contract(
    tmp_path: pathlib.Path, theirs: Theirs, launcher: str, names: list[str]
) -> None:
    """Prepared with its queues, started, ready in each protocol, killed, started again with its messages, stopped."""
    (tmp_path / "Dockerfile").write_text("FROM ${BASE_IMAGE}\n")
    (tmp_path / "mine.toml").write_text(IN_A_CONTAINER if launcher == "docker" else REFERENCE)
    spec = theirs.spec(**COMMANDS) if launcher == "external" else f"{tmp_path / 'mine.toml'}:{launcher}"
    steps: list[contract.Step] = []
    adapter = adapters.find(spec)
    with Ledger(tmp_path / "run", contract.run_id(adapter)) as ledger:
        contract.check(adapter, ledger.path.parent / "brokers" / "01", ledger, steps.append)
        left = contract.pids_of_run(ledger.run_id)

    assert [step.name for step in steps if step.tried] == names
    # Their file gives no address of the others.
    untried = [f"{name}: send and receive" for name in EACH if name not in BOTH] if launcher == "external" else []
    assert [step.name for step in steps if not step.tried] == untried
    started = next(step for step in steps if step.name == "start")
    assert started.seconds > (0 if launcher == "external" else 0.02)  # an external broker runs already
    assert left == []


@pytest.mark.process
def test_a_broker_that_loses_its_messages_is_found_out(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As stock it stores nothing: confirmed, and gone after the kill."""
    monkeypatch.setattr("conformance.run.readiness_probe.ANSWER_S", 1.0)
    old = '[settings.persistence]\ntype = "bool"\ndefault = true\n'
    assert old in REFERENCE
    error = failed(tmp_path, REFERENCE.replace(old, f"{old}stock = false\n"))

    assert str(error).startswith("amqp: found again: a durable message to check-amqp did not come within")
    assert "the start loses its data" in str(error)
    assert isinstance(error, LaunchError)
    assert any(line.startswith("ready amqp=") for line in error.log_tail)


@pytest.mark.process
def test_a_depth_that_cannot_be_read_is_found_out(tmp_path: pathlib.Path) -> None:
    error = failed(tmp_path, REFERENCE.replace('field = "depth"', 'field = "dephts"'))

    assert str(error).startswith("amqp: its depth is 1: [depth] http://127.0.0.1:")
    assert "/queues/check-amqp gives no number: no field dephts; status 200" in str(error)


@pytest.mark.process
def test_a_depth_of_another_queue_is_found_out(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conformance.run.readiness_probe.ANSWER_S", 0.5)
    error = failed(tmp_path, REFERENCE.replace("/queues/{queue}", "/queues/check-stomp"))

    assert "amqp: its depth is 1: [depth] says that check-amqp holds 0, and it should be 1" in str(error)


@pytest.mark.process
def test_a_session_may_hold_more_than_was_left_in_it(tmp_path: pathlib.Path) -> None:
    """With QoS 1 a message that was acknowledged may come again; fewer than were left are an error."""
    adapter = adapters.find("reference")
    client, ledger = ProbeClient(adapter, "mqtt"), Ledger(tmp_path, "run")
    with adapter.prepare(tmp_path / "broker", adapter.effective(), ["q"], ledger, client=client) as broker:
        broker.start()
        client.send(broker, "q")
        client.send(broker, "q")

        assert 2 == client.depth(broker, "q", wanted=1)
        with pytest.raises(ClientError, match="found 2 messages in q, and there should be at least 3"):
            client.depth(broker, "q", wanted=3)


@pytest.mark.process
def test_what_is_not_promised_is_not_looked_for(tmp_path: pathlib.Path) -> None:
    steps = checked(tmp_path, REFERENCE.replace('  "durable_queues",\n', ""))

    assert [step.detail for step in steps if not step.tried] == ["it does not declare durable_queues"] * len(EACH)
    assert not any("found again" in step.name for step in steps)


@pytest.mark.process
def test_a_protocol_without_a_client_is_said(tmp_path: pathlib.Path) -> None:
    (tmp_path / "port.py").write_text(f"{LISTEN}signal.pause()\n")
    steps = checked(tmp_path, PORT_ONLY)

    assert [(step.name, step.detail) for step in steps if not step.tried] == [
        ("jms: send and receive", "no client of this suite speaks it")
    ]


@pytest.mark.process
def test_a_process_that_hides_from_a_kill_is_found_out(tmp_path: pathlib.Path) -> None:
    """It left its parent and cleared its environment, and no pid file names it: a kill misses it.

    If it is seen before it has left its parent, it belongs to the broker: the stop waits for it, or the kill ends it and
    the check finds that of the next start.
    """
    (tmp_path / "port.py").write_text(STRAY)
    error = failed(tmp_path, PORT_ONLY)

    after_the_kill = r"kill: a process still listens on 127\.0\.0\.1:\d+ after SIGKILL.* let it write start\.pid_file"
    after_the_stop = r"nothing is left: after a clean stop a process listens on 127\.0\.0\.1:\d+"
    in_the_stop = r"stop: Port 1\.0 did not end within 5 s of SIGTERM .* and was killed; what was left: pid \d+"
    assert re.match(f"{after_the_kill}|{after_the_stop}|{in_the_stop}", str(error))


@pytest.mark.process
def test_the_command_prints_each_step_and_ends_with_its_code(
    typed: Callable[..., object], tmp_path: pathlib.Path
) -> None:
    (tmp_path / "port.py").write_text("raise SystemExit('no such option')\n")
    (tmp_path / "port.toml").write_text(PORT_ONLY)
    good = typed("adapters", "check", "reference", "--keep", "kept")
    bad = typed("adapters", "check", "./port.toml")

    assert (good.returncode, bad.returncode) == (0, 3)
    assert re.search(r"  passed +\d+\.\d\d s  stomp: found again\n", good.stdout)
    assert (tmp_path / "kept/broker/start-2.log").is_file()
    assert "start: Port 1.0 ended with status 1 before it was ready (start.command)" in bad.stderr
    assert "    no such option\n" in bad.stderr


def test_a_folder_that_holds_something_is_not_used(tmp_path: pathlib.Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/notes").touch()

    with pytest.raises(UsageError, match="kept is not empty: name a new folder"), contract.folder_of(tmp_path / "kept"):
        pass


# adapters in Python

DERIVED = f'''
import tomllib
from conformance.adapters import FileAdapter

class Mine(FileAdapter):
    @classmethod
    def table(cls):
        return tomllib.loads({REFERENCE!r})

    def prepare(self, folder, settings, queues, ledger, liar=None, **options):
        (folder.parent / "prepared").write_text(" ".join(queues))
        return super().prepare(folder, settings, queues, ledger, liar, **options)

class Whole:
    """Derives from nothing of the suite: every member is its own, here by handing on."""
    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def make(cls, version, launcher, *, path, asked):
        return cls(Mine.make(version, launcher, path=path, asked=asked))

    def __getattr__(self, name):
        return getattr(self.inner, name)

class Half:
    name = "half"
    @classmethod
    def make(cls, version, launcher, *, path, asked):
        return cls()

class Wrong(Mine):
    @classmethod
    def table(cls):
        return {{**super().table(), "titel": "x"}}

class Nothing:
    pass
'''


@pytest.fixture
def python(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "mine.py").write_text(DERIVED)
    return tmp_path / "mine.py"


@pytest.mark.process
@pytest.mark.parametrize("word", ["Mine", "Whole"])
def test_a_class_of_a_python_file_is_an_adapter(python: pathlib.Path, tmp_path: pathlib.Path, word: str) -> None:
    adapter = adapters.find(f"{python}:{word}@1.0")
    steps: list[contract.Step] = []
    with Ledger(tmp_path / "run", contract.run_id(adapter)) as ledger:
        contract.check(adapter, tmp_path / "broker", ledger, steps.append)

    assert (adapter.name, adapter.spec) == ("reference", f"{python}:{word}@1.0:native")
    assert adapters.find(adapter.spec).spec == adapter.spec
    assert (tmp_path / "prepared").read_text() == " ".join(f"check-{name}" for name in EACH)
    assert steps[-1].name == "nothing is left"


@pytest.mark.parametrize(
    ("word", "words"),
    [
        (":Mien", "unknown class 'Mien': did you mean 'Mine'"),
        ("", "expected path.py:Class"),
        (":Half", "is not an adapter: it lacks version, launcher, file, path"),
        (":Nothing", r"is not an adapter: it lacks make\(version, launcher"),
        (":Wrong", "unknown key 'titel': did you mean 'title'"),
        (":Mine@2.0", "reference has one version: 1.0"),
        (":Mine@1.0:dokcer", "did you mean 'docker'"),
    ],
)
def test_a_class_that_is_no_adapter_is_an_error(python: pathlib.Path, word: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        adapters.find(f"{python}{word}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"), [("import nowhere", "ModuleNotFoundError: No module named 'nowhere'"), ("(", "SyntaxError")]
)
def test_a_file_that_cannot_be_loaded_is_an_error(tmp_path: pathlib.Path, text: str, words: str) -> None:
    (tmp_path / "broken.py").write_text(text)

    with pytest.raises(UsageError, match=words):
        adapters.find(f"{tmp_path}/broken.py:Mine")


def test_a_missing_file_is_an_error(tmp_path: pathlib.Path) -> None:
    with pytest.raises(UsageError, match="FileNotFoundError"):
        adapters.find(f"{tmp_path}/none.py:Mine")


def test_another_package_declares_adapters_by_entry_points(
    python: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "elsewhere-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: elsewhere\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(
        f"[{adapters.GROUP}]\nelsewhere = mine:Mine\nreference = mine:Half\nbroken = mine:Missing\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()

    assert adapters.plugged_adapters().keys() >= {"elsewhere", "broken"}
    assert adapters.find("elsewhere").spec == "elsewhere@1.0:native"
    assert type(adapters.find("reference")) is adapters.FileAdapter  # a name of this package stays its own
    with pytest.raises(UsageError, match=r"adapter broken \(mine:Missing\) failed: AttributeError"):
        adapters.find("broken")
    with pytest.raises(UsageError, match="did you mean 'elsewhere'"):
        adapters.find("elswhere")


def test_the_files_of_the_package_are_adapters_by_the_interface() -> None:
    from conformance.adapters.interface import MEMBERS

    for name in adapters.names():
        assert [member for member in MEMBERS if not hasattr(adapters.find(name), member)] == []
    assert {"prepare", "file", "capabilities", "spec"} <= set(MEMBERS)


def test_a_broker_that_is_found_has_every_member(tmp_path: pathlib.Path) -> None:
    from conformance.adapters.interface import Broker

    reference = adapters.find("reference")
    with (
        Ledger(tmp_path / "run", "t") as ledger,
        reference.prepare(tmp_path / "b", reference.effective(), [], ledger) as broker,
    ):
        wanted = [name for name in (*vars(Broker), *Broker.__annotations__) if not name.startswith("_")]
        assert [name for name in wanted if not hasattr(broker, name)] == []
