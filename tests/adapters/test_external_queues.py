"""Queues of an external broker: which the suite uses, what they hold, and what is left if the suite is killed."""

from __future__ import annotations

import http.server
import json
import pathlib
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import pytest
from owned_broker import recorded, toml
from starts import starts_process

from conformance import adapters, history, ledger, paths
from conformance.adapters import web
from conformance.adapters.external import queues as run_queues
from conformance.adapters.external.queues import Existing, Removal
from conformance.adapters.file.launch_tables import External, Remove
from conformance.errors import ClientError, LaunchError
from conformance.history import Op
from conformance.ledger import Ledger
from conformance.records import TrialRecord
from conformance.run import readiness_probe
from conformance.run.leftovers import release_leftovers
from conformance.scenario.script import Drain, Kill, Nth, Publish, Step

REFERENCE = adapters.find("reference")
NO_KILL = {"command": ["true"], "seconds": 0.5}
"""A kill without effect: its trial is void, and its messages stay."""

VOID = (Publish(30, window=20, until=Kill(Nth("confirm", 20))),)
WHOLE = (Publish(5, window=5), Drain())


@pytest.fixture(scope="module")
@starts_process
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[adapters.Broker]:
    """A broker that its owner has started, with queues of his."""
    folder = tmp_path_factory.mktemp("theirs")
    with (
        Ledger(folder / "l", f"owner-{folder.name}") as ledger,
        REFERENCE.prepare(folder / "b", REFERENCE.effective(), ["a", "b", "ready"], ledger) as broker,
    ):
        broker.start()
        yield broker


Spec = Callable[..., str]


@pytest.fixture
def spec(theirs: adapters.Broker, tmp_path: pathlib.Path) -> Iterator[Spec]:
    """Words that reach it by a file that says this; its queues are empty again afterwards."""

    def words(**keys: object) -> str:
        file = tmp_path / "mine.toml"
        urls = {name: f"{name}://127.0.0.1:{theirs.endpoint(name)[1]}" for name in ("amqp", "stomp")}
        said = {"urls": {**urls, "http": f"http://127.0.0.1:{theirs.service.endpoint('http')[1]}"}, **keys}
        file.write_text("".join(f"{key} = {toml(value)}\n" for key, value in said.items()))
        return f"reference:external={file}"

    yield words
    for queue in ("a", "b", "ready"):
        readiness_probe.ProbeClient(REFERENCE, "amqp").drain(theirs, queue)


Play = Callable[..., tuple[list[TrialRecord], pathlib.Path]]


@pytest.fixture
def play(tmp_path: pathlib.Path) -> Play:
    """Record a trial for each of these scripts, one after the other; their records, and the folder of the run."""

    def run(words: str, *scripts: tuple[Step, ...]) -> tuple[list[TrialRecord], pathlib.Path]:
        return recorded(tmp_path / "run", adapters.find(words), *scripts), tmp_path / "run"

    return run


def _received(folder: pathlib.Path, trial: str) -> list[str]:
    """The ids that its drain has got."""
    events = history.read(folder / "trials" / trial / "drain-1.jsonl").events
    return [str(event.message) for event in events if event.op is Op.DRAIN and event.message]


# What is in an existing queue.


@pytest.mark.process
def test_what_a_void_trial_leaves_is_left_alone_and_the_next_gets_another_queue(
    theirs: adapters.Broker, spec: Spec, play: Play
) -> None:
    (void, whole), folder = play(spec(queues=["a", "b", "ready"], kill=NO_KILL), VOID, WHOLE)

    assert ("the kill did not take effect" in void.void, "") == (True, whole.void)
    assert readiness_probe.depth_of(theirs, "a") >= 20
    assert [history.message_id(1, n) for n in range(1, 6)] == _received(folder, "odd.2")


def test_without_another_queue_the_next_trial_is_void_and_says_what_to_do(spec: Spec, play: Play) -> None:
    (_, second), _ = play(spec(queues=["a", "ready"], kill=NO_KILL), VOID, WHOLE)

    assert "external.queues: a holds " in second.void
    assert "they were left alone. Empty it, name another, or let the suite do it" in second.void


def test_where_the_owner_lets_it_each_is_emptied_before_it_is_used(
    theirs: adapters.Broker, spec: Spec, play: Play
) -> None:
    """The last too: what a killed run has left there would be no proof of this one."""
    readiness_probe.ProbeClient(REFERENCE, "amqp").send(theirs, "ready")
    (void, whole), folder = play(spec(queues=["a", "ready"], kill=NO_KILL, drain_queues=True), VOID, WHOLE)

    assert ("the kill did not take effect" in void.void, "") == (True, whole.void)
    assert [history.message_id(1, n) for n in range(1, 6)] == _received(folder, "odd.2")
    assert (0, 0) == (readiness_probe.depth_of(theirs, "a"), readiness_probe.depth_of(theirs, "ready"))


def test_a_message_of_another_trial_does_not_count_with_any_depth(
    spec: Spec, play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A depth that is told late: the queue looks empty, and p1:1 of the void trial comes beside that of the next."""
    monkeypatch.setattr(readiness_probe.ProbeClient, "depth", lambda *_: 0)
    (_, whole), folder = play(spec(queues=["a", "ready"], kill=NO_KILL), VOID, WHOLE)
    came = _received(folder, "odd.2")
    own = [name for name in came if history.parse_message(name)]

    assert "" == whole.void
    assert [history.message_id(1, n) for n in range(1, 6)] == own
    assert len(came) > len(own)
    assert {name.partition(" ")[2] for name in came if name not in own} == {"of another trial"}


def test_a_message_says_which_trial_it_is_of() -> None:
    """One of no trial is believed: a benchmark sends such."""
    body = history.make_body("p1:7", 80, "run a.1")

    assert (80, True) == (len(body), history.is_intact("p1:7", body))
    assert (False, True) == (history.is_anothers(body, "run a.1"), history.is_anothers(body, "run a.2"))
    assert history.is_anothers(body, "")
    assert not history.is_anothers(history.make_body("p1:7", 80), "run a.1")
    assert not history.is_intact("p1:7", body.replace(b".", b":"))


def _existing(held: dict[str, int], taken: list[str], **said: object) -> Existing:
    rules = External.model_validate({"queues": ["a", "b", "ready"], **said})

    def drain(name: str) -> None:
        taken.append(name)
        held[name] = 0

    return Existing(rules, lambda name: held.get(name, 0), drain)


def test_nothing_is_taken_unless_its_owner_says_so() -> None:
    held, taken = {"a": 1, "b": 2}, list[str]()
    with pytest.raises(LaunchError, match="a holds 1 messages, b holds 2 messages, and must be empty"):
        _existing(held, taken).check()
    with pytest.raises(LaunchError, match="ready holds 3 messages"):
        _existing({"ready": 3}, taken).check()
    assert [] == taken

    _existing(held, taken, drain_queues=True).check()
    assert ["ready", "a", "b"] == taken


def test_what_is_passed_over_is_printed(theirs: adapters.Broker, spec: Spec, tmp_path: pathlib.Path) -> None:
    """In the report too, where the broker's owner looks for it."""
    readiness_probe.ProbeClient(REFERENCE, "amqp").send(theirs, "a")
    found = adapters.find(spec(queues=["a", "b", "ready"]))
    with (
        Ledger(tmp_path / "l", "l") as ledger,
        found.prepare(
            tmp_path / "x", found.effective(), ["q"], ledger, client=readiness_probe.ProbeClient(found, "amqp")
        ) as broker,
    ):
        broker.start()

        assert "passed over: it held 1 messages, which were left alone" == broker.deviations["queue a"]
        assert "b" == broker.queue_of("q")
    assert 1 == readiness_probe.depth_of(theirs, "a")


def test_a_queue_stays_that_of_its_trial_while_it_fills() -> None:
    held: dict[str, int] = {}
    found = _existing(held, [])

    assert "a" == found.name("one")
    held["a"] = 5
    assert ("a", "b", "b", "ready") == (*map(found.name, ["one", "two", "three"]), found.name(adapters.READY_QUEUE))
    assert {"a": 5} == found.passed_over


# What a broker that stores nothing leaves.


class Forgetful:
    """A client of a broker that has lost the queue of the message which proves that it is ready."""

    def __init__(self, calls: pathlib.Path) -> None:
        self.calls = calls

    def exchange(self, broker: adapters.Broker, queue: str) -> None:
        if self.calls.read_text().count(f"declare {queue}\n") < broker.epoch:
            raise ClientError(f"NOT_FOUND - no queue {queue!r}")

    def depth(self, broker: adapters.Broker, queue: str) -> int:
        return 0

    def drain(self, broker: adapters.Broker, queue: str) -> None:
        """It is empty."""


def test_queues_that_a_restart_has_lost_are_declared_again(spec: Spec, tmp_path: pathlib.Path) -> None:
    """Else a broker that stores nothing would be a broker that does not start, and no loss of it would be counted."""
    found = adapters.find(spec(declare=_script(tmp_path), kill=NO_KILL))
    with (
        Ledger(tmp_path / "l", "killed") as ledger,
        found.prepare(tmp_path / "x", found.effective(), ["q"], ledger, client=Forgetful(tmp_path / "calls")) as broker,
    ):
        broker.start()
        first = _calls(tmp_path, "declare")
        broker.target.wait_gone(0)
        broker.start()
        again = _calls(tmp_path, "declare")

    assert sorted(OURS) == first
    assert OURS == set(again)
    assert 2 == again.count("conformance-killed-q")
    assert sorted(OURS) == _calls(tmp_path, "remove")


@pytest.mark.parametrize(("lasting", "times"), [("true", 1), ("false", 2)])
def test_queues_that_do_not_last_are_declared_at_each_start(
    spec: Spec, tmp_path: pathlib.Path, lasting: str, times: int
) -> None:
    found = adapters.find(spec(declare={**_script(tmp_path), "lasting": lasting}))
    with (
        Ledger(tmp_path / "l", "killed") as ledger,
        found.prepare(tmp_path / "x", found.effective(), ["q"], ledger) as broker,
    ):
        broker.start()
        broker.start()

    assert sorted([*OURS] * times) == _calls(tmp_path, "declare")


# What a killed suite leaves.

HARNESS = """
import pathlib, sys
from conformance import adapters
from conformance.ledger import Ledger
folder = pathlib.Path(sys.argv[1])
book = Ledger(folder, "killed")
adapter = adapters.find(sys.argv[2])
broker = adapter.prepare(folder / "brokers" / "01", adapter.effective(), ["q"], book)
broker.start()
print(broker.queue_of("q"), flush=True)
sys.stdin.read()
"""
OURS = {"conformance-killed-q", "conformance-killed-ready"}


@pytest.fixture
def kill_one(tmp_path: pathlib.Path) -> Callable[..., None]:
    """A harness that has declared its queues at the broker that these words mean, and is killed."""

    def killed(words: str, queue: str = "conformance-killed-q") -> None:
        command = [sys.executable, "-c", HARNESS, str(tmp_path / "killed"), words]
        harness = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=paths.root())
        assert harness.stdout is not None
        try:
            assert queue == harness.stdout.readline().decode().strip()
            assert [] == release_leftovers()  # it is alive
        finally:
            harness.kill()
            harness.communicate()

    return killed


def _script(folder: pathlib.Path) -> dict[str, object]:
    """Its owner's commands: they note each call, and removing fails while `broken` is there."""
    script = folder / "queues.sh"
    script.write_text(
        '#!/bin/sh\ncd "$(dirname "$0")"\necho "$@" >>calls\n[ $1 = declare ] || [ ! -e broken ] || exit 7\n'
    )
    script.chmod(0o755)
    return {"command": ["./queues.sh", "declare", "{queue}"], "remove": ["./queues.sh", "remove", "{queue}"]}


def _calls(folder: pathlib.Path, verb: str) -> list[str]:
    lines = [line.split() for line in (folder / "calls").read_text().splitlines()]
    return sorted(name for word, name in lines if word == verb)


def test_the_next_run_removes_the_queues_of_a_killed_one(
    spec: Spec, kill_one: Callable[[str], None], tmp_path: pathlib.Path
) -> None:
    """Each once, by the owner's command, and tells it; how is for its owner's eyes only."""
    kill_one(spec(declare=_script(tmp_path)))
    before = _calls(tmp_path, "remove")
    mode = (tmp_path / "killed/brokers/01/remove-queues.json").stat().st_mode & 0o777
    lines = release_leftovers()

    assert (sorted(OURS), [], 0o600) == (_calls(tmp_path, "declare"), before, mode)
    assert {f"run killed: removed queue {name}" for name in OURS} == set(lines)
    assert sorted(OURS) == _calls(tmp_path, "remove")
    assert [] == release_leftovers()
    assert sorted(OURS) == _calls(tmp_path, "remove")


def test_a_broker_that_refuses_hyphens_gets_names_without_them(
    spec: Spec, kill_one: Callable[..., None], tmp_path: pathlib.Path
) -> None:
    """The queues of a killed run are known by these names too."""
    kill_one(spec(declare={**_script(tmp_path), "hyphen": "_"}), "conformance_killed_q")
    lines = release_leftovers()

    assert {f"run killed: removed queue {name.replace('-', '_')}" for name in OURS} == set(lines)
    assert sorted(name.replace("-", "_") for name in OURS) == _calls(tmp_path, "declare") == _calls(tmp_path, "remove")


def test_a_queue_that_cannot_be_removed_now_is_tried_again(
    spec: Spec, kill_one: Callable[[str], None], tmp_path: pathlib.Path
) -> None:
    """The killed run may have just killed its broker; after some tries it is told for the last time."""
    kill_one(spec(declare=_script(tmp_path)))
    (tmp_path / "broken").touch()
    first = release_leftovers()
    (tmp_path / "broken").unlink()
    second = release_leftovers()

    assert {
        f"run killed: queue {name} is left: ./queues.sh ended with 7: ; the next run tries again" for name in OURS
    } == set(first)
    assert {f"run killed: removed queue {name}" for name in OURS} == set(second)


def test_after_five_tries_it_is_left(spec: Spec, kill_one: Callable[[str], None], tmp_path: pathlib.Path) -> None:
    kill_one(spec(declare=_script(tmp_path)))
    (tmp_path / "broken").touch()
    told = [release_leftovers() for _ in range(6)]

    assert all("the next run tries again" in line for lines in told[:4] for line in lines)
    assert {f"run killed: queue {name} is left, after 5 tries: ./queues.sh ended with 7: " for name in OURS} == set(
        told[4]
    )
    assert [] == told[5]


def test_without_a_way_a_queue_of_a_killed_run_is_listed_once(tmp_path: pathlib.Path) -> None:
    _dead(tmp_path, "conformance-dead-q", {"conformance-dead-q": Removal(run="dead")})

    assert ["run dead: queue conformance-dead-q is left: its owner's file does not say how one is removed"] == (
        release_leftovers()
    )
    assert [] == release_leftovers()


def test_the_next_run_removes_queues_by_the_request_of_the_product(
    theirs: adapters.Broker, spec: Spec, kill_one: Callable[[str], None]
) -> None:
    """The owner's file says nothing of it; his own queues stay."""
    kill_one(spec())
    lines = release_leftovers()
    _, names = web.ask("GET", f"http://127.0.0.1:{theirs.service.endpoint('http')[1]}/queues")

    assert {f"run killed: removed queue {name}" for name in OURS} == set(lines)
    assert {"queues": ["a", "b", "ready"]} == json.loads(names)


@pytest.mark.parametrize("name", ["orders", "conformance-other-q", "conformance_dead_q"])
def test_a_queue_of_another_owner_is_never_removed(
    served: tuple[str, list[str], list[int]], tmp_path: pathlib.Path, name: str
) -> None:
    """A file that was changed cannot make the suite remove a name without its own prefix and the run's id."""
    url, asked, _ = served
    _dead(tmp_path, name, {name: Removal(request=Remove(url=f"{url}/{name}"), run="dead")})

    assert [] == release_leftovers()
    assert [] == asked


def test_a_run_that_ends_itself_leaves_nothing_to_the_next(spec: Spec, play: Play, tmp_path: pathlib.Path) -> None:
    """The counter-test: what it has removed is no leftover, and is removed once."""
    ((record,), folder) = play(spec(declare=_script(tmp_path)), WHOLE)
    lines = [json.loads(line) for line in (folder / "resources.jsonl").read_text().splitlines()]
    tickets = {line["ticket"] for line in lines if line.get("kind") == "queue"}

    assert "" == record.void
    assert tickets == {line["ticket"] for line in lines if line["state"] == "released"} & tickets
    assert 2 == len(tickets) == len(_calls(tmp_path, "remove"))
    assert [] == release_leftovers()


@pytest.fixture
def served() -> Iterator[tuple[str, list[str], list[int]]]:
    """An interface that answers a DELETE as it is told, and notes each; its address."""
    asked, answers = list[str](), list[int]()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_DELETE(self) -> None:
            asked.append(self.path)
            self.send_response(answers.pop(0))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """It is never read."""

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://u:secret@127.0.0.1:{server.server_port}", asked, answers
        server.shutdown()
        thread.join()


def _dead(folder: pathlib.Path, name: str, how: dict[str, Removal]) -> None:
    """What a run of a dead process has written down."""
    book = Ledger(folder, "dead")
    run_queues.write_removals(folder / "how.json", how)
    book.intend(run_queues.KIND, name=name, how=str(folder / "how.json"))
    entry = json.loads(book._index.read_text())
    book._index.write_text(json.dumps({**entry, "start": entry["start"] - 1}))


def test_an_address_is_asked_and_its_password_is_not_printed(
    served: tuple[str, list[str], list[int]], tmp_path: pathlib.Path
) -> None:
    """What is not there any more is gone; what is refused stays, and is asked again."""
    url, asked, answers = served
    _dead(tmp_path, "conformance-dead-q", {"conformance-dead-q": Removal(request=Remove(url=f"{url}/q"))})
    answers += [503, 404]
    first, second = release_leftovers(), release_leftovers()

    assert ["/q", "/q"] == asked
    assert "answered 503" in first[0]
    assert "secret" not in first[0]
    assert ["run dead: removed queue conformance-dead-q"] == second


def test_a_queue_is_kept_in_mind_by_who_cannot_remove_it(
    served: tuple[str, list[str], list[int]], tmp_path: pathlib.Path
) -> None:
    """A ledger alone knows no queues, and leaves the record for a run that does."""
    url, asked, answers = served
    _dead(tmp_path, "conformance-dead-q", {"conformance-dead-q": Removal(request=Remove(url=f"{url}/q"))})
    answers.append(204)

    assert ([], []) == (ledger.release_leftovers(), asked)
    assert ["run dead: removed queue conformance-dead-q"] == release_leftovers()


@pytest.mark.parametrize("name", ["orders", "conformance.orders", ""])
def test_no_other_queue_is_ever_removed(
    served: tuple[str, list[str], list[int]], tmp_path: pathlib.Path, name: str
) -> None:
    """Only names of the suite, with any text in the file."""
    url, asked, _ = served
    _dead(tmp_path, name, {name: Removal(request=Remove(url=f"{url}/orders"))})

    assert ([], []) == (release_leftovers(), asked)


def test_the_folder_of_a_run_that_is_gone_is_forgotten(tmp_path: pathlib.Path) -> None:
    _dead(tmp_path, "conformance-dead-q", {"conformance-dead-q": Removal(command=("false",), here="/")})
    (tmp_path / "how.json").unlink()

    assert [] == release_leftovers()
    assert [] == [*(paths.state() / "live").glob("*.json")]
