"""The native launcher: the life of a broker, and which of its processes a fault hits."""

from __future__ import annotations

import os
import pathlib
import signal
from collections.abc import Callable

import pytest

from conformance import adapters
from conformance.adapters.launch import native
from conformance.errors import LaunchError, StartFailure, UsageError
from conformance.ledger import Ledger
from conformance.processes import is_alive

Make = Callable[..., native.NativeBroker]

SERVES = "amqp(said['amqp'])"
WITH_A_CHILD = f"subprocess.Popen(['sleep', '600'])\n{SERVES}"
KIND = """
[settings.kind]
type = "word"
default = "plain"
argument = ["--set", "{name}={value}"]
description = "absent from the command line as stock"
choices = { plain = {}, other = {} }
"""


def kill(broker: native.NativeBroker) -> None:
    with broker.target.armed("kill") as descriptors:
        for descriptor in descriptors:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    assert broker.wait_gone(20)


def pids(descriptors: list[int]) -> list[int]:
    texts = [pathlib.Path(f"/proc/self/fdinfo/{descriptor}").read_text() for descriptor in descriptors]
    return [int(line.split()[1]) for text in texts for line in text.splitlines() if line.startswith("Pid:")]


@pytest.mark.parametrize(("chosen", "words"), [({}, []), ({"kind": "other"}, ["--set", "kind=other"])])
def test_queues_and_settings_that_are_set_are_on_the_command_line(
    make: Make, chosen: dict[str, str], words: list[str]
) -> None:
    broker = make("", 'each_queue = ["--queue", "{queue}"]', KIND, **chosen)

    assert [*broker.plan.command[5:]] == ["--queue", "q1", "--queue", "q2", *words]


def test_a_killed_broker_starts_again_at_the_same_port_with_a_log_of_its_own(make: Make) -> None:
    broker = make(SERVES)
    seconds, before = broker.start(), broker.endpoint("amqp")
    kill(broker)
    status = broker.exit_status
    broker.start()

    assert seconds > 0
    assert (broker.epoch, status, broker.gone()) == (2, -signal.SIGKILL, False)
    assert broker.endpoint("amqp") == before
    assert [path.name for path in broker.logs] == ["start-1.log", "start-2.log"]


def test_a_broker_that_dies_by_itself_is_noticed_with_the_end_of_its_log(make: Make) -> None:
    broker = make(SERVES)
    broker.start()
    broker.alive_check()
    os.kill(broker.processes()[0], signal.SIGABRT)
    assert broker.wait_gone(20)

    with pytest.raises(LaunchError, match=r"died by itself \(status -6\)") as caught:
        broker.alive_check()
    assert (caught.value.log_tail[-1], caught.value.log) == ("listens", str(broker.log))


def test_a_broker_that_is_never_ready_is_ended_after_the_longer_time(make: Make) -> None:
    broker = make("signal.pause()", "ready_s = 0.3")
    for given, waited in ((0.0, "0.3"), (0.6, "0.6")):
        with pytest.raises(LaunchError, match=rf"was not ready within {waited} s") as caught:
            broker.start(ready_s=given)
        assert (broker.gone(), caught.value.failure) == (True, StartFailure.LATE)


def test_a_second_start_is_refused_and_a_second_stop_or_close_does_nothing(make: Make, ledger: Ledger) -> None:
    broker = make(SERVES)
    broker.start()
    for start in (broker.start, broker.launch):
        with pytest.raises(LaunchError, match="is running already"):
            start()
    broker.alive_check()
    broker.stop()
    broker.stop()
    stopped = broker.exit_status
    broker.start()
    pid = broker.processes()[0]
    broker.close()
    broker.close()

    assert (stopped, broker.gone(), is_alive(pid)) == (-signal.SIGTERM, True, False)
    assert '"state":"released"' in ledger.path.read_text().splitlines()[-1]


def test_the_tree_holds_children_also_when_their_parent_is_gone(make: Make) -> None:
    broker = make(WITH_A_CHILD)
    broker.start()
    leader, child = broker.processes()
    os.kill(leader, signal.SIGKILL)

    assert not broker.wait_gone(0.2)
    assert broker.processes() == [child]
    broker.close()
    assert not is_alive(child)


def test_a_kill_is_for_the_whole_tree_and_a_stop_for_its_main_process(make: Make) -> None:
    broker = make(WITH_A_CHILD)
    with broker.target.armed("stop") as main, broker.target.armed("kill") as tree:
        assert (main, tree) == ([], [])  # before its first start
    broker.start()
    with broker.target.armed("kill") as tree, broker.target.armed("stop") as main:
        assert sorted(pids(tree)) == sorted(broker.processes())
        assert pids(main) == broker.processes()[:1]
    with pytest.raises(OSError, match="Bad file descriptor"):
        signal.pidfd_send_signal(main[0], 0)


def test_a_wrapped_broker_is_stopped_itself_and_not_its_wrapper(make: Make) -> None:
    broker = make(SERVES)
    broker.start(wrap=["/bin/sh", "-c", 'trap : TERM; "$@"; echo wrapper saw $?', "sh"])
    leader, child = broker.processes()
    with broker.target.armed("stop") as main:
        assert pids(main) == [child]
    broker.stop()

    assert "wrapper saw 143" in broker.log.read_text()
    assert not is_alive(leader)


def test_what_it_does_not_have_is_refused(make: Make, tmp_path: pathlib.Path, ledger: Ledger) -> None:
    broker = make(SERVES)
    adapter = adapters.find(str(tmp_path / "fake.toml"))

    with pytest.raises(UsageError, match="has no liars"):
        adapter.prepare(tmp_path / "liar", adapter.effective(), [], ledger, liar="early_confirm")
    with pytest.raises(UsageError, match="unknown protocol of fake 'stomp'"):
        broker.endpoint("stomp")
