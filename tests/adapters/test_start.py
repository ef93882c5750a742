"""A command line as a broker: when it is ready, what of it is hurt, and what is told where it is not what was said.

The brokers here are commands of a few lines: what is on trial is the launcher.
"""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from conformance import adapters, limits
from conformance.adapters import broker_log, web
from conformance.adapters.launch import native, plan, readiness
from conformance.adapters.launch.plan import Options
from conformance.adapters.launch.process_tree import MARK, Tree
from conformance.errors import BlockedError, ClientError, LaunchError, LoginError, StartFailure, UsageError
from conformance.ledger import Ledger
from conformance.processes import cannot_hold, identify, is_alive
from conformance.scenario.needs import need_of

Make = Callable[..., native.NativeBroker]


def refused(broker: native.NativeBroker) -> LaunchError:
    """Its start fails, and nothing of it is left."""
    with pytest.raises(LaunchError) as caught:
        broker.start()
    assert broker.gone()
    return caught.value


def late(broker: native.NativeBroker, lacks: str) -> LaunchError:
    """The error of a start whose time is over once it has printed something and lacks this.

    No clock of a busy machine decides: its own `ready_s` is far away.
    """
    check = broker._check_late

    def over(missing: object, cause: ClientError | None = None) -> None:
        if lacks in str(missing) and broker.log.stat().st_size > 0:
            broker._began -= 1e6
        check(missing, cause)

    broker._check_late = over  # type: ignore[method-assign]
    return refused(broker)


def kill(broker: native.NativeBroker) -> int:
    with broker.target.armed("kill") as descriptors:
        for descriptor in descriptors:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        return len(descriptors)


def wait_for(come: Callable[[], bool], timeout_s: float = 10.0) -> bool:
    """Poll for what has no event: the end of a process that is not our child."""
    deadline = time.monotonic() + timeout_s
    while not come() and time.monotonic() < deadline:
        time.sleep(0.01)
    return come()


# what is filled in


def test_words_are_filled_in_everywhere(make: Make) -> None:
    broker = make(
        "print(said, os.getcwd(), os.environ['WHERE'], flush=True); amqp(said['amqp'])",
        'folder = "{instance}"\nenvironment = { WHERE = "{data_dir}:{setting.level}" }',
        level=7,
    )
    broker.start()
    printed = broker.log.read_text()

    assert "'level': '7000'" in printed
    assert f"'amqp': '{broker.endpoint('amqp')[1]}'" in printed
    assert f"{broker.folder / 'instance'} {broker.data}:7000" in printed


def test_a_file_of_the_template_keeps_every_brace_that_is_not_ours(make: Make, tmp_path: pathlib.Path) -> None:
    (tmp_path / "fake.conf").write_text('{amqp_port} {unknown} ${amqp_port} {{amqp_port}} {"a": {setting.level}}\n')
    (tmp_path / "fake.conf").chmod(0o750)
    broker = make("", more='[[template.files]]\nfile = "fake.conf"\nto = "etc/fake.conf"\nwhy = "because"')
    made = broker.folder / "instance/etc/fake.conf"
    port = broker.endpoint("amqp")[1]

    assert made.read_text() == f'{port} {{unknown}} ${{amqp_port}} {{{{amqp_port}}}} {{"a": 3000}}\n'
    assert made.stat().st_mode & 0o777 == 0o750
    assert broker.deviations == {"etc/fake.conf": "because"}


# when it is ready


def test_without_a_word_it_is_ready_when_its_protocol_is_answered(make: Make) -> None:
    broker = make("amqp(said['amqp'])")
    broker.start()

    assert broker.was_ready
    assert kill(broker) == 1
    assert broker.wait_gone(5)
    assert not broker.was_ready


def test_it_is_waited_for_until_every_port_and_its_http_answer_are_there(make: Make) -> None:
    broker = make(
        "web(said['http']); amqp(said['amqp'])",
        'ready_port = ["amqp", "http"]\n'
        'ready_http = { url = "http://127.0.0.1:{http_port}/state", field = "states.0.state", value = "ACTIVE" }',
    )
    broker.start()

    assert web.ask("GET", f"http://127.0.0.1:{broker.service.endpoint('http')[1]}/")[0] == 200


@pytest.mark.parametrize(
    ("http", "words"),
    [
        ('"http://127.0.0.1:{http_port}/"', None),
        ('{ url = "http://127.0.0.1:{http_port}/", status = 204 }', "answered 200, not 204"),
        ('{ url = "http://u:secret@127.0.0.1:{http_port}/", field = "x", value = "y" }', "no field x in '{"),
        ('{ url = "http://127.0.0.1:{amqp_port}/" }', "no answer in HTTP"),
        (
            '{ url = "http://127.0.0.1:{http_port}/", field = "states.0.state", value = "OPEN" }',
            "states.0.state is 'ACTIVE', not 'OPEN'",
        ),
    ],
)
def test_an_http_answer_that_never_comes_is_an_error(make: Make, http: str, words: str | None) -> None:
    broker = make("web(said['http']); amqp(said['amqp'])", f"ready_http = {http}")
    if words is None:
        broker.start()
        return
    text = str(late(broker, words))

    assert "was not ready within 10 s (start.ready_s): start.ready_http: GET http://127.0.0.1:" in text
    assert "secret" not in text


def test_a_pattern_is_looked_for_in_the_log_file_of_this_start_only(make: Make) -> None:
    script = "log = open(said['log'], 'a'); log.tell() or print('open for business', file=log, flush=True); amqp(said['amqp'])"
    command = '["{python}", "{here}/broker.py", "amqp={amqp_port}", "log={log_file}"]'
    broker = make(script, 'ready_log = "^open for business$"', command=command)
    broker.start()
    kill(broker)
    assert broker.wait_gone(5)
    broker.launch()  # which writes it no second time
    began_ready = broker.was_ready

    assert not began_ready
    assert [path.name for path in broker.logs] == ["start-1.log", "start-2.log", "broker.log"]


def test_a_message_is_the_last_proof_and_is_asked_for_again_until_it_comes(make: Make) -> None:
    asked: list[float] = []

    def prove(broker: native.NativeBroker) -> None:
        asked.append(time.monotonic())
        if len(asked) < 3:
            raise ClientError("the virtual host recovers")

    broker = make("amqp(said['amqp'])", "ready_message = true", prove=prove)
    broker.start()
    kill(broker)
    assert broker.wait_gone(5)
    broker.start(wrap=["/usr/bin/env"])  # a traced start: the message would be the fault's first victim

    assert len(asked) == 3
    assert adapters.READY_QUEUE in broker.plan.queues


STORED = """
[settings.kind]
type = "word"
default = "plain"
argument = ["kind={value}"]
description = "what its queues are"
[settings.kind.choices]
plain = {}
late = { stored = { files = "*", pattern = '{queue}\\x00' } }
"""
STORES = """
def store(*queues):
    pathlib.Path(said["data"], "names").write_bytes(b"".join(queue.encode() + bytes(1) for queue in queues))
"""
COMMAND = '["{python}", "{here}/broker.py", "amqp={amqp_port}", "data={data_dir}"]'


@pytest.mark.parametrize("kind", ["plain", "late"])
def test_no_message_goes_to_a_queue_that_a_kill_would_take(make: Make, kind: str) -> None:
    """Where the setting says that queues are stored late; nowhere else is that waited for."""
    script = f"{STORES}\nthreading.Timer(0.5, store, ['q1', 'q2', 'conformance-ready']).start(); amqp(said['amqp'])"
    seen: list[bool] = []

    def prove(broker: native.NativeBroker) -> None:
        seen.append((broker.data / "names").is_file())

    make(script, "ready_message = true", STORED, command=COMMAND, prove=prove, kind=kind).start()

    assert [kind == "late"] == seen


def test_a_queue_that_no_restart_keeps_is_not_waited_for(make: Make) -> None:
    rules = f'{STORED}[queues]\nmethod = "command"\ncommand = ["true"]\nlasting = "false"\n'

    assert make("amqp(said['amqp'])", "", rules, command=COMMAND, kind="late").start() > 0


def test_a_folder_among_the_files_of_queues_is_passed_over(make: Make) -> None:
    """RabbitMQ 3.8.9 unpacks its plugins beside them."""
    script = f"{STORES}\npathlib.Path(said['data'], 'unpacked').mkdir()\nstore('q1', 'q2'); amqp(said['amqp'])"

    assert make(script, "", STORED, command=COMMAND, kind="late").start() > 0


def test_the_error_names_the_queue_that_is_not_stored(make: Make) -> None:
    """One whose name only begins like it is another."""
    broker = make(f"{STORES}\nstore('q1', 'q20'); amqp(said['amqp'])", "", STORED, command=COMMAND, kind="late")
    text = str(late(broker, "of queue q2"))

    assert "was not ready within 10 s (start.ready_s): settings.kind.choices.late.stored: no file" in text
    assert "has '{queue}\\\\x00' of queue q2;" in text


def test_a_message_that_never_comes_is_an_error(make: Make) -> None:
    def prove(broker: native.NativeBroker) -> None:
        raise ClientError("no credit")

    broker = make("amqp(said['amqp'])", "ready_message = true", prove=prove)

    assert "start.ready_message: no credit" in str(late(broker, "no credit"))


ARTEMIS_LOG = """
2026-11-28 02:41:15,068 ERROR [org.apache.activemq.artemis.core.client] AMQ214019: Invalid configuration
org.xml.sax.SAXParseException; cvc-complex-type.2.4.a: Invalid content was found starting with element 'no-such-key'.
\tat java.xml/com.sun.org.apache.xerces.internal.util.ErrorHandlerWrapper.createSAXParseException(Wrapper.java:204)
java.lang.IllegalStateException: Invalid configuration
\tat org.apache.activemq.artemis.utils.XMLUtil.validate(XMLUtil.java:372) ~[artemis-core-client-2.56.0.jar:?]
"""
RABBITMQ_LOG = """
2026-11-28 02:41:34.990756+00:00 [error] <0.132.0> You've tried to set nonsense, but there is no setting with that name.
2026-11-28 02:41:34.990756+00:00 [notice] <0.44.0> Logging: configured log handlers are now ACTIVE
BOOT FAILED
===========
Error during startup: {error,failed_to_prepare_configuration}
"""


@pytest.mark.parametrize(
    ("log", "reasons"),
    [
        (ARTEMIS_LOG, ["AMQ214019: Invalid configuration", "'no-such-key'.", "IllegalStateException: Invalid config"]),
        (RABBITMQ_LOG, ["tried to set nonsense", "BOOT FAILED", "Error during startup"]),
        ("".join(f"ERROR {number}\n  at Main.run\n" for number in range(9)), [f"ERROR {n}" for n in (0, 1, 6, 7, 8)]),
        ("ready\n", []),
        ("starting\n{error,eaddrinuse}\nstopped\n", ["{error,eaddrinuse}"]),
        ("2026 [info] <0.9.0> failed with eacces\neacces\nDirectMethodHandleAccessor.invoke", ["eacces"]),
        ("INFO 3 connections in use\n2026 [info] guest denied\nNOTICE: no space for Error\nDEBUG FATAL is a level", []),
        ("WARN the address is in use\nERROR INFO is no level\nbind: Permission denied", ["WARN", "ERROR", "bind: "]),
    ],
)
def test_the_lines_of_a_log_that_name_an_error(log: str, reasons: list[str]) -> None:
    """At most five, and none of a stack trace."""
    found = broker_log.reasons_in(log)

    assert len(reasons) == len(found)
    assert [] == [(one, line) for one, line in zip(reasons, found, strict=True) if one not in line]


def test_a_reason_far_before_the_end_of_the_log_is_shown(make: Make) -> None:
    """Counter-example: 80 lines of a stack trace after it, and only the end of the log was printed."""
    lines = 'print("FATAL: no such key"); [print("  at Main.run", n) for n in range(200)]; sys.exit(3)'
    with pytest.raises(LaunchError, match="ended with status 3") as caught:
        make(lines).start()

    assert ("FATAL: no such key",) == caught.value.log_lines
    assert "  at Main.run 199" == caught.value.log_tail[-1]


def test_no_more_of_a_log_is_read_than_its_bound(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counter-example: a broker that had logged for a week was read as a whole when it died."""
    monkeypatch.setattr(limits, "LOG", 2_000)
    with pytest.raises(LaunchError, match="ended with status 3") as caught:
        make('print("FATAL: far before\\n" + "x\\n" * 2_000 + "ERROR the last"); sys.exit(3)').start()

    assert ("ERROR the last",) == caught.value.log_lines


@pytest.mark.process
def test_a_product_that_makes_no_instance_says_why(tmp_path: pathlib.Path) -> None:
    """Before the 100 lines that follow."""
    file = adapters.find("artemis").file
    source = plan.BrokerSource(file, tmp_path, "1.0", tmp_path)
    script = "import sys; print('ERROR no such option'); print('usage\\n' * 100); sys.exit(2)"
    with pytest.raises(LaunchError, match=r"ended with 2$") as caught:
        plan._create([sys.executable, "-c", script], source, {"java_home": "/none"})

    assert ("ERROR no such option",) == caught.value.log_lines


def test_a_refused_login_ends_the_first_start_soon(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the words of the client, and not as a start that was late: the broker is not to blame."""
    monkeypatch.setattr(native, "LOGIN_S", 0.3)

    def prove(broker: native.NativeBroker) -> None:
        raise LoginError("the login of 'alice' was refused; look at the user and at the file wrong")

    broker = make("amqp(said['amqp'])", "ready_message = true\nready_s = 1e9", prove=prove)
    error = refused(broker)

    assert "refuses the login of the suite: the login of 'alice' was refused; look at the user" in str(error)
    assert (None, LoginError) == (error.failure, type(error.__cause__))


@pytest.mark.parametrize(("ready_s", "own_s"), [(0.0, 1e9), (3.0, 3.0)], ids=["first", "after a fault"])
def test_an_alarm_is_no_late_start(make: Make, monkeypatch: pytest.MonkeyPatch, ready_s: float, own_s: float) -> None:
    """It ends the first start soon. After a fault the broker has its time, and has not failed to recover."""
    monkeypatch.setattr(native, "LOGIN_S", 0.3)

    def prove(broker: native.NativeBroker) -> None:
        raise BlockedError("the broker gave no credit, and announces an alarm (memory)")

    broker = make("amqp(said['amqp'])", f"ready_message = true\nready_s = {own_s}", prove=prove)
    with pytest.raises(LaunchError, match="the broker gave no credit, and announces an alarm") as raised:
        broker.start(ready_s=ready_s)

    assert (None, True) == (raised.value.failure, raised.value.of_broker)
    assert isinstance(raised.value.__cause__, BlockedError)


@pytest.mark.parametrize(("ready_s", "times"), [(0.0, 2), (60.0, 6)])
def test_a_login_that_is_refused_at_first(
    make: Make, monkeypatch: pytest.MonkeyPatch, ready_s: float, times: int
) -> None:
    """Some products read their users late, and a restart after a fault (`ready_s`) has its whole time to recover them."""
    monkeypatch.setattr(native, "LOGIN_S", 0.0 if ready_s else 1e6)
    asked: list[float] = []

    def prove(broker: native.NativeBroker) -> None:
        asked.append(time.monotonic())
        if len(asked) < times:
            raise LoginError("refused")

    broker = make("amqp(said['amqp'])", "ready_message = true", prove=prove)
    broker.start(ready_s=ready_s)
    assert len(asked) == times

    kill(broker)
    assert broker.wait_gone(5)
    asked.clear()
    broker.start()
    assert len(asked) == times


def test_another_error_begins_the_time_of_a_refused_login_again() -> None:
    refused_logins = readiness.RefusedLogins(1e6)
    assert not refused_logins.final(LoginError("refused"))
    assert not refused_logins.final(ClientError("the virtual host recovers"))
    assert refused_logins._since is None
    assert readiness.RefusedLogins(0.0).final(LoginError("refused"))


# queues


def test_queues_are_declared_once_over_http(make: Make, tmp_path: pathlib.Path) -> None:
    puts = tmp_path / "puts"
    command = f'["{{python}}", "{{here}}/broker.py", "amqp={{amqp_port}}", "http={{http_port}}", "puts={puts}"]'
    broker = make(
        "web(said['http']); amqp(said['amqp'])",
        'ready_port = ["amqp", "http"]',
        '[queues]\nmethod = "http"\nurl = "http://u:p@127.0.0.1:{http_port}/queues/{queue}?x=1"\n'
        'body = \'{"name": "{queue}", "a": {"durable": true}}\'',
        command=command,
    )
    broker.start()
    kill(broker)
    assert broker.wait_gone(5)
    broker.start()

    assert puts.read_text().splitlines() == [
        f'/queues/{queue}?x=1 {{"name": "{queue}", "a": {{"durable": true}}}} Basic dTpw' for queue in ("q1", "q2")
    ]


def test_a_queue_has_rules_of_its_own(make: Make, tmp_path: pathlib.Path) -> None:
    """Each where `{options}` stands, and nothing there for a queue without any."""
    puts = tmp_path / "puts"
    command = f'["{{python}}", "{{here}}/broker.py", "amqp={{amqp_port}}", "http={{http_port}}", "puts={puts}"]'
    make(
        "web(said['http']); amqp(said['amqp'])",
        'ready_port = ["amqp", "http"]',
        '[queues]\nurl = "http://127.0.0.1:{http_port}/{queue}"\nbody = \'{"durable": true{options}}\'\n'
        "options = { max_length = ', \"limit\": {value}' }",
        command=command,
    )
    adapter = adapters.find(str(tmp_path / "fake.toml"))
    limited: dict[str, Options] = {"q2": (("max_length", 40),)}
    assert adapter.lacks(need_of("max_length")) == ""
    assert adapter.lacks(need_of("durable")) == "the adapter of fake has no queue option durable"
    with Ledger(tmp_path / "run", "limited") as book:
        with adapter.prepare(tmp_path / "b", adapter.effective(), ["q1", "q2"], book, options=limited) as broker:
            broker.start()
        with pytest.raises(UsageError, match="did you mean 'max_length'"):
            adapter.prepare(tmp_path / "c", adapter.effective(), ["q"], book, options={"q": (("max_lenght", 4),)})

    assert [line.split(" ", 1)[1] for line in puts.read_text().splitlines()] == [
        '{"durable": true} None',
        '{"durable": true, "limit": 40} None',
    ]


def test_a_refused_queue_is_an_error_with_the_answer(make: Make, tmp_path: pathlib.Path) -> None:
    words = f'"amqp={{amqp_port}}", "http={{http_port}}", "puts={tmp_path}/puts", "status=404"'
    broker = make(
        "web(said['http']); amqp(said['amqp'])",
        'ready_port = ["amqp", "http"]',
        '[queues]\nurl = "http://127.0.0.1:{http_port}/{queue}"\nbody = "x"\nstatus = [201]',
        command=f'["{{python}}", "{{here}}/broker.py", {words}]',
    )
    told = str(refused(broker))

    assert "took no queue: queues.url: PUT http://127.0.0.1:" in told
    assert '/q1 answered 404, not 201 (queues.status): {"said": "no such virtual host"}' in told


def test_queues_are_declared_by_a_command(make: Make, tmp_path: pathlib.Path) -> None:
    shell = f"echo {{queue}} ${MARK} >> {tmp_path}/declared"
    broker = make("amqp(said['amqp'])", more=f'[queues]\ncommand = ["/bin/sh", "-c", "{shell}"]')
    broker.start()
    lines = [line.split() for line in (tmp_path / "declared").read_text().splitlines()]

    assert [line[0] for line in lines] == ["q1", "q2"]
    assert all(len(line) == 2 for line in lines)  # what it starts is a part of the broker


def test_a_broker_that_refuses_hyphens_gets_another_character(make: Make, tmp_path: pathlib.Path) -> None:
    shell = f"echo {{queue}} >> {tmp_path}/declared"
    more = f'[queues]\ncommand = ["/bin/sh", "-c", "{shell}"]\nhyphen = "_"'
    broker = make("amqp(said['amqp'])", more=more)
    broker.start()
    broker.declare("of-a-trial")

    assert broker.queue_of("of-a-trial") == "of_a_trial"
    assert (tmp_path / "declared").read_text().split() == ["q1", "q2", "of_a_trial"]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ('["/bin/sh", "-c", "echo no such queue; exit 3"]', "/bin/sh ended with 3 for queue q1: no such queue"),
        ('["/no/such/ctl"]', "queues.command: /no/such/ctl cannot be started: No such file"),
        ('["/bin/sleep", "60"]\nseconds = 0.2', "/bin/sleep did not end within 0.2 s"),
    ],
)
def test_a_command_that_declares_no_queue_is_an_error(make: Make, command: str, words: str) -> None:
    told = refused(make("print('hello', flush=True); amqp(said['amqp'])", more=f"[queues]\ncommand = {command}"))

    assert words in str(told)
    assert "hello" in told.log_tail


# the tree

FORKS = """
if os.fork():
    sys.exit(0)
os.setsid()
child = os.fork()
if child:
    os._exit(0)
if "pid" in said:
    pathlib.Path(said["pid"]).write_text(str(os.getpid()))
subprocess.Popen(["sleep", "600"])
amqp(said["amqp"])
"""
FORKING = '["{python}", "{here}/broker.py", "amqp={amqp_port}", "pid={instance}/pid"]'


def test_a_broker_that_leaves_its_parent_is_refused_where_that_is_not_said(make: Make) -> None:
    told = str(refused(make("if os.fork():\n    os._exit(0)\ntime.sleep(600)")))

    assert f"left its parent: `{sys.executable}` ended with status 0, and pid " in told
    assert "say start.pid_file (or start.forks = true)" in told


def test_it_is_refused_as_well_where_its_end_was_seen_before(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading the status of an ended process removes it: it can no longer be opened."""
    assert not cannot_hold()  # asked once, by the same call
    opened = os.pidfd_open

    def seen(pid: int) -> int:
        monkeypatch.setattr(os, "pidfd_open", opened)
        os.waitpid(pid, 0)
        return opened(pid)

    monkeypatch.setattr(os, "pidfd_open", seen)

    assert "left its parent: " in str(refused(make("if os.fork():\n    os._exit(0)\ntime.sleep(600)")))


def test_one_that_leaves_its_parent_when_it_is_ready_is_the_same_error(make: Make) -> None:
    """Its parent waits till it listens, as good daemons do: the start is over by then."""
    script = "if os.fork():\n    signal.pause()\nos.setsid()\namqp(said['amqp'])"
    broker = make(script)
    broker.start()
    os.kill(broker.processes()[0], signal.SIGKILL)
    assert wait_for(lambda: len(broker.processes()) == 1)
    with pytest.raises(LaunchError, match=r"left its parent: .* ended with status -9, and pid .* goes on"):
        broker.alive_check()


@pytest.mark.parametrize("start", ['pid_file = "{instance}/pid"', "forks = true"])
def test_faults_hit_the_whole_tree_of_a_broker_that_left_its_parent(make: Make, start: str) -> None:
    """It has another session and another parent: only its environment, or its pid file, says whose it is."""
    broker = make(FORKS, start, command=FORKING)
    broker.start()
    served = int((broker.folder / "instance/pid").read_text())
    assert wait_for(lambda: len(broker.processes()) == 2)  # the one between them has gone
    every_pid = set(broker.processes())
    broker.alive_check()
    with broker.target.armed("stop") as main:
        info = pathlib.Path(f"/proc/self/fdinfo/{main[0]}").read_text()

    assert f"Pid:\t{served}\n" in info
    assert len(every_pid) == 2
    assert kill(broker) == 2
    assert broker.wait_gone(5)
    assert not any(map(is_alive, every_pid))
    with pytest.raises(LaunchError, match="died by itself"):
        broker.alive_check()
    broker.start()
    assert int((broker.folder / "instance/pid").read_text()) != served


def test_who_was_seen_is_known_without_his_environment(make: Make) -> None:
    """A process that ends loses it before its files; one that goes on with an empty one is as easily overlooked."""
    clears = FORKS.replace(
        'subprocess.Popen(["sleep", "600"])\n', "signal.signal(signal.SIGUSR1, lambda *_: again())\n"
    )
    again = "def again():\n    os.execve('/bin/sleep', ['sleep', '600'], {})\n"
    broker = make(again + clears, "forks = true", command=FORKING)
    broker.start()
    served = int((broker.folder / "instance/pid").read_text())
    assert wait_for(lambda: broker.processes() == [served])  # the one between them has gone
    os.kill(served, signal.SIGUSR1)
    assert wait_for(lambda: pathlib.Path(f"/proc/{served}/environ").read_bytes() == b"")

    assert [served] == broker.processes()
    assert not broker.wait_gone(0.1)
    assert kill(broker) == 1
    assert broker.wait_gone(5)
    assert not is_alive(served)


def test_who_clears_his_environment_is_found_by_the_pid_file(make: Make) -> None:
    clears = FORKS.replace(
        'subprocess.Popen(["sleep", "600"])\namqp(said["amqp"])',
        "if 'again' not in said:\n"
        "    os.execve(sys.executable, [sys.executable, __file__, 'again=1', f'amqp={said[\"amqp\"]}'], {})\n",
    ).replace("if os.fork():", "if 'again' in said:\n    amqp(said['amqp'])\nif os.fork():")
    broker = make(clears, 'pid_file = "{instance}/pid"', command=FORKING)
    broker.start()
    (pid,) = broker.processes()

    assert MARK.encode() not in pathlib.Path(f"/proc/{pid}/environ").read_bytes()
    assert kill(broker) == 1
    assert broker.wait_gone(5)
    assert not is_alive(pid)


def test_an_old_pid_file_names_no_process(make: Make) -> None:
    """The pid of an earlier start may be another's by now."""
    stranger = subprocess.Popen(["sleep", "600"])
    began = identify(stranger.pid)
    assert began is not None
    # The kernel dates processes by ticks of 10 ms, and of one tick it cannot be told which is the older.
    while time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK") < began.start + 1:
        pass
    try:
        broker = make("amqp(said['amqp'])", 'pid_file = "{instance}/pid"')
        file = broker.folder / "instance/pid"
        file.write_text(str(stranger.pid))
        broker.start()
        removed = not file.exists()
        file.write_text(str(stranger.pid))  # written after all: it is older than the broker, and cannot be a part of it

        assert removed
        assert stranger.pid not in broker.processes()
        assert kill(broker) == 1
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_pid_file_lies_in_the_folder_of_the_broker(make: Make) -> None:
    with pytest.raises(UsageError, match=r"start.pid_file: /run/fake.pid is not in the broker's own folder"):
        make("amqp(said['amqp'])", 'pid_file = "/run/fake.pid"').start()


def test_what_is_said_to_stay_behind_is_ended_after_a_clean_stop(make: Make) -> None:
    stays = "child = subprocess.Popen(['sleep', '600'], start_new_session=True)\nprint('pid', child.pid, flush=True)\n"
    broker = make(stays + "amqp(said['amqp'])", 'left_behind = ["sleep"]\nstop_s = 3'.replace("\nstop_s = 3", ""))
    broker.start()
    helper = next(int(line.split()[1]) for line in broker.log.read_text().splitlines() if line.startswith("pid"))
    broker.stop()

    assert not is_alive(helper)
    assert broker.gone()


@pytest.mark.process
def test_the_oldest_of_a_tree_is_its_main_process() -> None:
    """Where no file names it: a daemon starts its helpers, and not they it."""
    shell = "(sleep 600 & exec sleep 600) & exit 0"
    leader = subprocess.Popen(["/bin/sh", "-c", shell], start_new_session=True)
    tree = Tree(leader, forks=True)
    leader.wait(5)
    left = tree.pids()
    main = tree.main(wrapped=False)
    assert tree.kill()

    assert main == min(left)
    with pytest.raises(ProcessLookupError):
        tree.main(wrapped=False)


# what it may be instead of a broker


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("time.sleep(600)", "start.ready_port: nothing listens on 127.0.0.1:"),
        ("amqp(said['amqp'], b'')", "accepts connections and says nothing in AMQP 1.0"),
        ("amqp(0)", "; its processes listen on "),
    ],
)
def test_a_broker_that_is_not_ready_is_an_error_with_its_field_and_log(make: Make, script: str, words: str) -> None:
    error = late(make(f"print('its last word', flush=True)\n{script}"), words)

    assert (words in str(error), str(error).count("\n")) == (True, 0)
    assert "its last word" in error.log_tail


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("sys.exit('no such option')", "ended with status 1 before it was ready (start.command)"),
        ("amqp(said['amqp'], b'HTTP/1.1 400 Bad')", "protocols.amqp.port: amqp, 127.0.0.1:"),
        ("amqp(said['amqp'], b'AMQP\\0\\0\\x09\\1')", "which is not AMQP 1.0"),
    ],
)
def test_an_end_and_another_protocol_are_recognised_at_once(make: Make, script: str, words: str) -> None:
    """Its time is never over: waiting on would hang."""
    error = refused(make(f"print('its last word', flush=True)\n{script}", "ready_s = 1e9"))

    assert words in str(error)
    assert "its last word" in error.log_tail


def test_a_port_that_the_broker_does_not_get_is_an_error(make: Make) -> None:
    broker = make("amqp(0)", command='["{python}", "{here}/broker.py"]')
    hint = "{amqp_port} is not in the file, so the broker does not know its port"

    assert hint in str(late(broker, hint))


def test_the_end_of_its_own_log_is_shown_where_it_prints_nothing(make: Make) -> None:
    command = '["/bin/sh", "-c", "echo disk is full > {log_file}; exit 2"]'
    told = refused(make("", command=command))

    assert (told.failure, told.log_tail) == (StartFailure.ENDED, ("disk is full",))
    assert str(told.log).endswith("broker.log")


@pytest.mark.parametrize(
    ("command", "start", "words"),
    [
        ('["/no/such/broker"]', "", "start.command: /no/such/broker cannot be started: No such file or directory"),
        ('["/etc/passwd"]', "", "start.command: /etc/passwd cannot be started: Permission denied"),
        ('["/bin/true"]', 'folder = "{instance}/none"', "start.folder: "),
    ],
)
def test_a_command_that_cannot_be_started_is_an_error(make: Make, command: str, start: str, words: str) -> None:
    assert words in str(refused(make("", start, command=command)))


def test_a_broker_that_ignores_its_stop_signal_is_killed_and_recorded(make: Make) -> None:
    broker = make(
        "signal.signal(signal.SIGINT, signal.SIG_IGN); amqp(said['amqp'])", 'stop_signal = "SIGINT"\nready_s = 9'
    )
    broker.plan.source.file.start.__dict__["stop_s"] = 0.3
    broker.start()
    with pytest.raises(LaunchError, match=r"did not end within 0.3 s of SIGINT \(start.stop_s, start.stop_signal\)"):
        broker.stop()

    assert broker.gone()


def test_fields_of_json_are_found_by_their_path() -> None:
    text = json.dumps({"a": [{"b": "x"}, {"b": 2}], "c": True})

    assert (web.field_of(text, "a.0.b"), web.field_of(text, "a.1.b"), web.field_of(text, "c")) == ("x", "2", "true")
    for path in ("a.2.b", "a.b", "d", "c.d"):
        with pytest.raises(ValueError, match="no field"):
            web.field_of(text, path)


def test_a_long_log_is_read_from_its_end(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that logs without end does not fill the memory; what is before this start stays out."""
    monkeypatch.setattr(limits, "LOG", 10)
    log = tmp_path / "broker.log"
    log.write_text("0123456789ready")

    assert (b"56789ready", b"ready", b"") == (
        broker_log.end_of(log),
        broker_log.end_of(log, 10),
        broker_log.end_of(tmp_path / "none"),
    )
