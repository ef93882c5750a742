"""An external broker: what the suite does to it, what it does not do, and the error for each mistake in its file."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Callable, Iterator

import pytest
from owned_broker import COMMANDS, Theirs, recorded
from process_end import gone

from conformance import adapters, claims, history, paths, scenario
from conformance.adapters import ports, web
from conformance.adapters.credentials import Access, ClientTls, Secret
from conformance.adapters.external import addresses
from conformance.adapters.external.addresses import Place
from conformance.adapters.external.commands import Commands
from conformance.adapters.external.queues import PREFIX
from conformance.adapters.file.launch_tables import External
from conformance.adapters.launch.process_tree import MARK
from conformance.adapters.launchers import is_owned
from conformance.adapters.system import BrokerUnderTest
from conformance.claims import Kind
from conformance.errors import ConformanceError, LaunchError, UsageError
from conformance.faults import possible
from conformance.history import Op, Phase
from conformance.ledger import RUN_VARIABLE, Ledger
from conformance.protocols import VENDOR_SURFACES
from conformance.records import TrialRecord
from conformance.run import readiness_probe
from conformance.run.planning import Selection, plan
from conformance.scenario import SYNC_OFF, Check, Liar, SessionLiar, weakened
from conformance.scenario.controls import substitute
from conformance.scenario.script import SETTLE, Drain, Kill, Nth, Pause, Publish, Restart, Step

Play = Callable[..., tuple[TrialRecord, pathlib.Path]]


@pytest.fixture
def play(tmp_path: pathlib.Path) -> Play:
    """Record one trial of these steps at the broker that these words mean; its record, and the folder of the run."""

    def run(spec: str, *steps: Step) -> tuple[TrialRecord, pathlib.Path]:
        (record,) = recorded(tmp_path / "run", adapters.find(spec), steps)
        return record, tmp_path / "run"

    return run


def _prepared(spec: str, folder: pathlib.Path, ledger: Ledger) -> adapters.Broker:
    adapter = adapters.find(spec)
    return adapter.prepare(folder, adapter.effective(), ["q"], ledger)


def _queues(theirs: Theirs) -> str:
    """The names of all its queues, by its own word."""
    return web.ask("GET", f"http://127.0.0.1:{theirs.numbers['http']}/queues")[1]


def _faults(folder: pathlib.Path) -> list[tuple[str, Phase]]:
    events = [event for path in folder.glob("trials/*/*.jsonl") for event in history.read(path).events]
    ordered = sorted((event.at_ns, event.fault, event.phase) for event in events if event.op is Op.FAULT)
    return [(str(fault), phase) for _, fault, phase in ordered]


# a real broker


def test_a_kill_is_fired_when_the_connection_is_lost_and_the_owner_gets_his_broker_back(
    theirs: Theirs, play: Play
) -> None:
    """Its command began before: in between the client went on. Nothing of ours is left untold."""
    steps = (Publish(30, window=20, until=Kill(Nth("confirm", 20))), Restart(), *SETTLE)
    record, folder = play(theirs.spec(**COMMANDS), *steps)
    (broker,) = (folder / "brokers").iterdir()

    assert "" == record.void
    assert [("kill", phase) for phase in (Phase.ARMED, Phase.INFO, Phase.FIRED, Phase.EFFECTIVE)] == _faults(folder)
    assert [] == [*adapters.leftovers(folder)]
    assert PREFIX not in _queues(theirs)
    assert ["kill", "start", "stop", "start"] == [path.stem.partition("-")[2] for path in sorted(broker.glob("*.log"))]
    assert not any(place.wrong()[0] for place in [Place("amqp", "127.0.0.1", theirs.numbers["amqp"])])


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (
            {"command": ["true"], "seconds": 1.0},
            "the kill did not take effect: the connection was still there 1 s after",
        ),
        ({"command": ["sh", "-c", "./broker.sh kill; echo no luck; exit 3"], "seconds": 20.0}, "ended with status 3"),
        ({"command": ["sh", "-c", "./broker.sh kill; sleep 60"], "seconds": 1.0}, "did not end within 1 s"),
    ],
    ids=["does nothing", "fails", "never ends"],
)
def test_a_kill_that_does_nothing_or_fails_voids_its_trial(
    theirs: Theirs, play: Play, command: object, says: str
) -> None:
    """So no verdict can rest on it."""
    kill, pid = Kill(Nth("confirm", 20)), theirs.pid
    record, folder = play(
        theirs.spec(**{**COMMANDS, "kill": command}), Publish(30, window=20, until=kill), Restart(), Drain()
    )

    assert says in record.void
    assert ("kill", Phase.EFFECTIVE) not in _faults(folder)
    if says.startswith("the kill did not"):
        assert pid == theirs.pid
    else:
        assert gone(pid)  # else the next test would meet a dying broker


def test_queues_are_removed_when_the_broker_that_was_brought_back_is_ready(theirs: Theirs, play: Play) -> None:
    """Its `start` returns long before that, as a service's does. A void trial leaves the broker down."""
    kill = {"command": ["sh", "-c", "./broker.sh kill; exit 3"], "seconds": 20.0}
    start = ["sh", "-c", "(sleep 1; ./broker.sh start) &"]
    steps = (Publish(30, window=20, until=Kill(Nth("confirm", 20))), Restart(), Drain())
    record, folder = play(theirs.spec(**{**COMMANDS, "kill": kill, "start": start}), *steps)

    assert "ended with status 3" in record.void
    assert [] == [*adapters.leftovers(folder)]
    assert PREFIX not in _queues(theirs)


def test_a_start_that_was_begun_already_is_waited_for(theirs: Theirs, tmp_path: pathlib.Path) -> None:
    """A run that is interrupted in a restart has begun it, and a service refuses to be started twice."""
    start = ["sh", "-c", "test ! -e began && touch began && { (sleep 1; ./broker.sh start) & }"]
    spec = theirs.spec(**{**COMMANDS, "start": start})
    with Ledger(tmp_path / "run", "run-1") as ledger, _prepared(spec, tmp_path / "broker", ledger) as broker:
        broker.start()
        broker.service.queue_of("q")
        broker.target.stop()
        broker.target.launch()

    assert not (tmp_path / "broker" / "left.txt").exists()
    assert PREFIX not in _queues(theirs)


def test_a_pause_that_does_nothing_voids_its_trial(theirs: Theirs, play: Play) -> None:
    """What is asked after its command had ended is answered, which a halted broker cannot."""
    commands = {**COMMANDS, "pause": ["true"], "resume": ["true"]}
    record, _ = play(theirs.spec(**commands), Publish(400, window=20, until=Pause(Nth("confirm", 20))), Drain())

    assert "the pause did not take effect" in record.void


def test_a_pause_by_command_is_effective_and_healed(theirs: Theirs, play: Play) -> None:
    pause = Pause(Nth("confirm", 20), hold_s=0.3)
    record, folder = play(theirs.spec(**COMMANDS), Publish(100, window=20, until=pause), Drain())

    assert "" == record.void
    phases = [Phase.ARMED, Phase.FIRED, Phase.EFFECTIVE, Phase.HEALED]
    assert [("pause", phase) for phase in phases] == _faults(folder)


def test_an_existing_queue_that_holds_something_is_left_alone(
    theirs: Theirs, play: Play, tmp_path: pathlib.Path
) -> None:
    """The error names it, and what it holds is still there."""
    with Ledger(tmp_path / "one", "one") as ledger, _prepared(theirs.spec(), tmp_path / "first", ledger) as broker:
        readiness_probe.ProbeClient(adapters.find("reference"), "amqp").send(broker, "theirs")
    record, _ = play(theirs.spec(queues=["theirs", "ready"]), Publish(5, window=5), Drain())

    assert "external.queues: theirs holds 1 messages, and must be empty: they were left alone" in record.void
    with Ledger(tmp_path / "two", "two") as ledger, _prepared(theirs.spec(), tmp_path / "second", ledger) as broker:
        assert 1 == readiness_probe.depth_of(broker, "theirs")


def test_existing_queues_are_used_in_turn_and_nothing_else(theirs: Theirs, play: Play, tmp_path: pathlib.Path) -> None:
    record, folder = play(theirs.spec(queues=["a", "b", "ready"]), Publish(5, window=5), Drain())
    events = [event for path in folder.glob("trials/*/publisher-1.jsonl") for event in history.read(path).events]

    assert ("", {"a"}) == (record.void, {event.queue for event in events if event.queue})
    assert [] == [*adapters.leftovers(folder)]


def test_declared_queues_are_removed_by_the_owners_command(theirs: Theirs, play: Play) -> None:
    """Each that was declared, and no other; every one has the run in its name."""
    (theirs.folder / "calls").write_text("")
    declare = {"command": ["./broker.sh", "declare", "{queue}"], "remove": ["./broker.sh", "remove", "{queue}"]}
    record, folder = play(theirs.spec(declare=declare), Publish(5, window=5), Drain())
    calls = [line.split() for line in (theirs.folder / "calls").read_text().splitlines()]
    declared, removed = ({name for verb, name in calls if verb == word} for word in ("declare", "remove"))

    assert "" == record.void
    assert {"conformance-run-1-odd-1", "conformance-run-1-ready"} == declared == removed
    assert [] == [*adapters.leftovers(folder)]


def test_only_the_addresses_that_were_given_are_checked(theirs: Theirs, tmp_path: pathlib.Path) -> None:
    """As a run needs one of them only; what was left out is told by its key."""
    from conformance.followup import contract

    steps: list[contract.Step] = []
    spec = f"reference:external={theirs.urls['stomp']},{theirs.urls['http']}"
    with Ledger(tmp_path / "run", "check-2") as ledger:
        contract.check(adapters.find(spec), tmp_path / "broker", ledger, steps.append)
    told = {step.name: step for step in steps}

    assert told["stomp: send and receive"].tried
    assert (False, "no address was given for it (external.urls.amqp)") == (
        told["amqp: send and receive"].tried,
        told["amqp: send and receive"].detail,
    )
    assert "Give external.stop.command in the broker's file" in told["stop"].detail


# what cannot be tried


def _selection(spec: str) -> Selection:
    adapter, catalogue = adapters.find(spec), claims.load()
    wanted = (each for item in scenario.load(catalogue).values() for each in item.wanted)
    settings = adapter.effective()
    return Selection(
        adapter, "amqp", settings, {}, list(catalogue.claims.values()), frozenset(), 1, 1,
        unable=possible.unable(wanted, BrokerUnderTest(adapter, "amqp", settings)),
    )  # fmt: skip


PLACE = "external=amqp://127.0.0.1:1,http://127.0.0.1:2"


def test_without_commands_only_clients_and_links_are_hurt() -> None:
    """Each of the others with the command that is missing, or why no command would help."""
    selection, catalogue = _selection(f"reference:{PLACE}"), claims.load()
    trials = plan(selection, scenario.load(catalogue), catalogue)
    faults = {fault.name for trial in trials for fault in trial.script.faults}

    assert {"consumer_crash", "cut"} <= faults
    assert not {"kill", "stop", "pause", "power_loss", "held_sync", "failed_sync", "disk_full", "watched"} & faults
    assert "external.kill.command" in selection.unable["kill"]
    assert "external.pause.command and external.resume.command" in selection.unable["pause"]
    assert "out of reach" in selection.unable["power_loss"]
    assert "external.stop.command" in selection.unable["a clean restart"]


def test_without_a_stop_the_last_look_has_no_clean_restart() -> None:
    """Two drains stay; where the broker can be stopped, and where it is ours, nothing is left out."""
    catalogue = claims.load()
    every = plan(_selection(f"reference:{PLACE}"), scenario.load(catalogue), catalogue)
    subjects = [trial.script for trial in every if trial.arm == "subject"]
    liars = [trial.script for trial in every if trial.liar]

    assert all(Restart(clean=True) not in script.steps for script in subjects)
    assert all(
        script.steps[-2:] == (Drain(), Drain()) for script in subjects if script.id.startswith("consumer-killed")
    )
    assert any(script.steps[-3:] == SETTLE for script in liars)


LOST = Check("lost", "confirmed_in_window", SYNC_OFF)
COMMITTED = dataclasses.replace(LOST, anomaly="lost_committed")
BACK = dataclasses.replace(LOST, anomaly="delivered_after_restart")
JOURNAL = dataclasses.replace(LOST, control=dataclasses.replace(SYNC_OFF, journal=True))
POWER = Check("lost", "confirmed_in_window", weakened(sync_non_transactional=False, journal_buffer_ms=500))
OF_CLIENT = Check("send_returned", "sends_halted", weakened(block_on_durable_send=False))
UNANSWERED, AGAIN, STUCK = (
    Check("unanswered_send", "sends", Liar(name))
    for name in ("never-answers-one-send", "requeues-settled", "stuck-after-recovery")
)
OLDEST = Liar("loses-the-oldest")
ALL, NO_BUFFER = (
    ("journal_buffer_ms", "persistence", "sync_non_transactional"),
    ("persistence", "sync_non_transactional"),
)


@pytest.mark.parametrize(
    ("check", "kind", "fault", "launcher", "protocol", "weakens", "control"),
    [
        # An external broker is not weakened. A claim about a default keeps its control, which is then not run.
        (LOST, Kind.SAFETY, "kill", "external", "amqp", ALL, OLDEST),
        (LOST, Kind.DEFAULT, "kill", "external", "amqp", ALL, SYNC_OFF),
        (LOST, Kind.SAFETY, "kill", "native", "amqp", ALL, SYNC_OFF),
        # A longer buffer alone makes nothing fail, and syncs of commits say nothing of sends.
        (LOST, Kind.SAFETY, "kill", "native", "amqp", ("journal_buffer_ms", "sync_transactional"), OLDEST),
        (COMMITTED, Kind.SAFETY, "kill", "native", "amqp", ("journal_buffer_ms", "sync_transactional"), SYNC_OFF),
        # The suite starts the client itself, so a setting of the client stays the control.
        (OF_CLIENT, Kind.SAFETY, "pause", "external", "jms", (), OF_CLIENT.control),
        # A liar that answers no more would silence a vendor's client; none speaks AMQP 0-9-1.
        (UNANSWERED, Kind.LIVENESS, "none", "native", "jms", (), SessionLiar("leaves-out-a-listener", 3, waits_for_liveness=True)),
        (AGAIN, Kind.SAFETY, "none", "native", "amqp091", (), SessionLiar("sends-its-first-message-again")),
        (STUCK, Kind.SAFETY, "none", "native", "jms", (), STUCK.control),
        (UNANSWERED, Kind.LIVENESS, "none", "native", "amqp", (), UNANSWERED.control),
        # Without a buffer, a broker with its syncs off loses nothing by SIGKILL: the page cache has it all.
        (LOST, Kind.SAFETY, "kill", "native", "amqp", NO_BUFFER, weakened(persistence=False)),
        (LOST, Kind.SAFETY, "kill", "native", "amqp", NO_BUFFER[1:], OLDEST),
        (BACK, Kind.SAFETY, "kill", "native", "amqp", NO_BUFFER, Liar("brings-acknowledged-back")),
        (LOST, Kind.DEFAULT, "kill", "native", "amqp", NO_BUFFER, SYNC_OFF),
        (JOURNAL, Kind.SAFETY, "kill", "native", "amqp", NO_BUFFER, OLDEST),
        (POWER, Kind.SAFETY, "power_loss", "native", "amqp", NO_BUFFER, POWER.control),
        # Its only switch for syncs is to store nothing, which shows nothing about a missing sync.
        (POWER, Kind.SAFETY, "power_loss", "native", "amqp", ("persistence",), Liar("never-syncs-confirms", tail=True)),
        (LOST, Kind.SAFETY, "kill", "native", "amqp", ("persistence",), weakened(persistence=False)),
    ],
)  # fmt: skip
def test_the_control_that_a_broker_can_be_given(
    check: Check, kind: Kind, fault: str, launcher: str, protocol: str, weakens: tuple[str, ...], control: object
) -> None:
    assert dataclasses.replace(check, control=control) == substitute(
        check, kind, fault, is_owned(launcher), protocol in VENDOR_SURFACES, weakens
    )


def test_every_kill_scenario_of_an_external_broker_has_a_control(theirs: Theirs) -> None:
    """And none of them reconfigures it."""
    catalogue = claims.load()
    trials = plan(_selection(theirs.spec(**COMMANDS)), scenario.load(catalogue), catalogue)
    controls = [trial for trial in trials if trial.arm == "control"]

    assert {"reference"} == {trial.adapter.name for trial in controls}
    assert {"native"} == {trial.adapter.launcher.word for trial in controls}
    assert "loses-the-oldest" in {trial.liar for trial in controls}


# commands


@pytest.fixture
def ledger(tmp_path: pathlib.Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / "ledger", "run-1") as made:
        yield made


def _commands(tmp_path: pathlib.Path, ledger: Ledger, **said: object) -> Commands:
    return Commands(External.model_validate(said), tmp_path, tmp_path, lambda text, _: text, ledger)


@pytest.mark.process
def test_a_command_at_its_gate_runs_only_when_it_is_opened(tmp_path: pathlib.Path, ledger: Ledger) -> None:
    """Not when the gate is closed, as where its owner dies."""
    commands = _commands(tmp_path, ledger, kill=["sh", "-c", "echo done >>ran"])
    with commands.gated("kill"):
        pass
    never = (tmp_path / "ran").exists()
    with commands.gated("kill") as running:
        os.write(running.gate, b"go\n")
        running.finish()

    assert (False, "done\n") == (never, (tmp_path / "ran").read_text())


@pytest.mark.process
def test_a_command_carries_no_mark_of_the_run(
    tmp_path: pathlib.Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that it starts would be ended by the next run, which ends every process with its mark."""
    monkeypatch.setenv(RUN_VARIABLE, "an-outer-run")
    commands = _commands(tmp_path, ledger, start=["env"])
    commands.run("start")
    said = dict(line.split("=", 1) for line in commands.logs[-1].read_text().splitlines() if "=" in line)

    assert ("run-1", "start") == (said["CONFORMANCE_RUN_ID"], said["CONFORMANCE_COMMAND"])
    assert {MARK, RUN_VARIABLE}.isdisjoint(said)


def test_a_missing_command_is_an_error_before_anything_is_done(tmp_path: pathlib.Path, ledger: Ledger) -> None:
    with pytest.raises(LaunchError, match=r"external\.kill: \./nothing is not a program"):
        _commands(tmp_path, ledger, kill=["./nothing"])


# words, addresses and files


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("reference:external", "the address is missing"),
        ("openmq:external", "the address is missing: give openmq:external=stomp://HOST:PORT, or"),
        ("openmq:external=http://h:1", "needs the address of a protocol: external=stomp://HOST:PORT, or"),
        ("openmq:external=amqp://h:1", "openmq speaks no amqp; its addresses are stomp://HOST:PORT, http://HOST:PORT"),
        ("reference:external=", "expected a value after it"),
        ("external=amqp://h:1", "expected NAME:external=amqp://h:1"),
        ("reference:external=h:1", "no scheme"),
        ("reference:external=ampq://h:1", "did you mean 'amqp'"),
        ("reference:external=amqp://u:p@h:1", "has a password in it"),
        ("reference:external=amqp://h:1,amqp://h:2", "two addresses for amqp"),
        ("reference:external=http://h:1", "needs the address of a protocol"),
        ("reference:external=/nowhere/mine.toml", "cannot be read"),
        ("reference:outside=amqp://h:1", "unknown launcher"),
        ("artemis:native=/nowhere", "no such folder"),
    ],
)
def test_words_that_mean_no_broker(spec: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        adapters.find(spec)

    assert says in str(caught.value)
    assert "u:p" not in str(caught.value)


@pytest.mark.parametrize("name", adapters.names())
def test_the_addresses_that_an_error_suggests_can_be_read(name: str) -> None:
    """Each is one of the product: of OpenMQ, whose own protocol has no scheme, only the one of STOMP."""
    file = adapters.find(name).file
    suggested = [one.replace("HOST:PORT", "h:1") for one in addresses.examples(file)]

    assert suggested == [*addresses.urls_by_protocol(",".join(suggested)).values()]
    assert {*addresses.urls_by_protocol(",".join(suggested))} <= {*file.protocols}


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ('kill = ["x", "{quee}"]', "external.kill.command: unknown placeholder"),
        ("settings = { sync_transactionl = true }", "did you mean 'sync_transactional'"),
        (
            'policies = { method = "http", fields = { sync_transactionl = ["x"] } }',
            "external.policies.fields: unknown setting 'sync_transactionl': did you mean 'sync_transactional'",
        ),
        ('policies = { method = "http", url = "http://h/{quee}" }', "external.policies.url: unknown placeholder"),
        ('urls = { amqp = "stomp://h:1" }', "is an address for stomp"),
    ],
)
def test_a_faulty_file_names_the_key(tmp_path: pathlib.Path, said: str, says: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(said if said.startswith("urls") else f'urls = {{ amqp = "amqp://h:1" }}\n{said}\n')
    with pytest.raises(UsageError) as caught:
        adapters.find(f"reference:external={file}")

    assert says in str(caught.value)


def test_settings_are_said_and_never_set(theirs: Theirs) -> None:
    adapter = adapters.find(theirs.spec(settings={"persistence": False}))

    assert adapter.effective().values["persistence"] is False
    with pytest.raises(UsageError, match="does not reconfigure"):
        adapter.effective({"sync_transactional": False})


def test_an_owner_says_how_the_broker_is_asked_for_alarms(tmp_path: pathlib.Path) -> None:
    """It replaces the way of the product, which stands without one."""
    file, addresses = tmp_path / "mine.toml", 'urls = { amqp = "amqp://h:1", http = "http://h:2" }\n'
    found = []
    for own in ("", '[alarms.disk]\nmethod = "http"\nurl = "http://h:2/disk"\npattern = "full"\n'):
        file.write_text(addresses + own)
        found.append(adapters.find(f"rabbitmq:external={file}").file.alarms)

    assert adapters.find("rabbitmq").file.alarms == found[0] != {}
    assert {"disk": "full"} == {name: alarm.pattern for name, alarm in found[1].items()}


def test_an_owner_says_only_what_differs_from_the_policies_of_the_product(tmp_path: pathlib.Path) -> None:
    """A queue in another virtual host has another address, and what its answer means stays."""
    file = tmp_path / "mine.toml"
    file.write_text(
        'policies = { method = "http", url = "http://h:2/other/{queue}" }\nurls = { amqp = "amqp://h:1" }\n'
    )
    product, owned = (adapters.find(f"rabbitmq{at}").file.policies for at in ("", f":external={file}"))

    assert product is not None
    assert owned == product.model_copy(update={"url": "http://h:2/other/{queue}"})
    assert owned.present == "effective_policy_definition"


def _started(spec: str, tmp_path: pathlib.Path) -> ConformanceError:
    with Ledger(tmp_path / "l", "l") as ledger, pytest.raises(ConformanceError) as caught:
        broker = _prepared(spec, tmp_path / "b", ledger)
        broker.start()
    return caught.value


def test_the_error_names_the_address_that_does_not_answer(theirs: Theirs, tmp_path: pathlib.Path) -> None:
    """No process listens; another protocol answers."""
    free = ports.Ports(["none"])
    http = theirs.urls["http"]
    unheard = _started(f"reference:external=amqp://127.0.0.1:{free['none']},{http}", tmp_path)
    other = _started(f"reference:external=amqp://127.0.0.1:{theirs.numbers['stomp']},{http}", tmp_path / "2")
    free.close()

    assert "external.urls.amqp: nothing listens" in str(unheard)
    assert "external.urls.amqp" in str(other)
    assert "AMQP 1.0" in str(other)


def test_a_file_of_ones_own_needs_no_start(tmp_path: pathlib.Path) -> None:
    """It is external without being asked, natively there is nothing to start, and it must say how queues are made."""
    text = (paths.fixtures() / "brokers/reference/broker.toml").read_text()
    kept = text.partition("[start]")[0].partition("[settings.profile]")[0].replace('"bundled"', '"1.0"')
    depth = '[depth]\nmethod = "http"\nurl = "http://127.0.0.1:{http_port}/queues/{queue}"\nfield = "depth"\n'
    where = '[external]\nurls = { amqp = "amqp://h:1", http = "http://h:2" }\n'
    mine, silent = tmp_path / "mine.toml", tmp_path / "silent.toml"
    mine.write_text(f"{kept}{where}creates_queues = true\n{depth}")
    silent.write_text(f"{kept}{where}{depth}")

    assert "external" == adapters.find(str(mine)).launcher.word
    with pytest.raises(UsageError, match=r"has no \[start\]"):
        adapters.find(f"{mine}:native")
    with pytest.raises(UsageError, match="does not say how a queue is made"):
        adapters.find(str(silent))


def test_a_local_folder_holds_the_distribution(tmp_path: pathlib.Path) -> None:
    """Itself, or in the folder that it was unpacked to; nothing is fetched then."""
    with pytest.raises(UsageError, match="it holds no bin/artemis"):
        adapters.find(f"artemis:native={tmp_path}")
    (tmp_path / "apache-artemis/bin").mkdir(parents=True)
    (tmp_path / "apache-artemis/bin/artemis").touch()
    adapter = adapters.find(f"artemis@9.9.9:native={tmp_path}")

    assert tmp_path / "apache-artemis" == adapter.install() == adapters.find(adapter.spec).install()
    assert ((), "native", "9.9.9") == (adapter.artifacts, adapter.launcher.word, adapter.version)


# the page

PAGE = (paths.root() / "docs/how-to/external-brokers.md").read_text()
EXAMPLES = [part.split("```")[0] for part in PAGE.split("```toml\n")[1:]]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda text: text.splitlines()[1][:20])
def test_each_example_of_the_page_is_such_a_file(tmp_path: pathlib.Path, example: str) -> None:
    (tmp_path / "mine.toml").write_text(example)

    name = "qpid" if "NODE/HOST" in example else "artemis"  # the one example that is for a virtual host of Broker-J

    assert "external" == adapters.find(f"{name}:external={tmp_path / 'mine.toml'}").launcher.word


def test_every_key_is_on_the_page() -> None:
    shown = {line.split("`")[1] for line in PAGE.split("## The file")[1].splitlines() if line.startswith("| `")}

    assert set(External.model_fields) == shown


def test_the_user_of_the_address_and_a_password_that_was_typed_go_together(
    tmp_path: pathlib.Path, ledger: Ledger
) -> None:
    """Neither is enough by itself, so they are looked at together; what was typed is above the address."""
    adapter = adapters.find("reference:external=amqps://alice@broker.example,http://broker.example:1")
    assert isinstance(adapter, adapters.FileAdapter)
    password = Secret(env="BROKER_PASSWORD")
    typed = dataclasses.replace(adapter, file=adapter.file.with_credentials(Access(password=password)))
    broker = typed.prepare(tmp_path / "broker", typed.effective(), ["q"], ledger)

    assert broker.access("amqp") == Access(user="alice", password=password, tls=ClientTls())
    renamed = dataclasses.replace(adapter, file=adapter.file.with_credentials(Access(user="bob", password=password)))
    assert renamed.prepare(tmp_path / "other", renamed.effective(), ["q"], ledger).access("amqp").user == "bob"
