"""Which version of a broker runs: read from its distribution, and from the log of its start."""

from __future__ import annotations

import pathlib
import re
import zipfile
from collections.abc import Callable

import pytest

from conformance import adapters
from conformance.adapters.distribution import versions
from conformance.adapters.file.launch_tables import VersionTable
from conformance.adapters.launch import native
from conformance.errors import LaunchError, StartFailure, UsageError

Make = Callable[..., native.NativeBroker]

LOGGED = [
    ("artemis", "2.56.0", " Apache Artemis 2.56.0\n\n"),
    ("artemis", "2.56.0", "core.server] AMQ221001: Apache Artemis Message Broker version 2.56.0 [0.0.0.0, nodeID=8"),
    ("artemis", "2.13.0", "AMQ221001: Apache ActiveMQ Artemis Message Broker version 2.13.0 [0.0.0.0, nodeID=8"),
    (
        "activemq",
        "6.1.7",
        "BrokerService - Apache ActiveMQ 6.1.7 (localhost, ID:vm-42999-1795827798554-0:1) is starting",
    ),
    ("qpid", "8.0.6", "[Broker] BRK-1001 : Startup : Version: 8.0.6 Build: 1bd1c16b2a7f2743a947ee4a4acd4d62f2ab65ba"),
    ("openmq", "6.7.0", "Message Queue 6.7.0\nCopyright"),
    ("rabbitmq", "3.10.8", "  ##  ##      RabbitMQ 3.10.8\n"),
]


@pytest.mark.parametrize(("name", "version", "line"), LOGGED)
def test_the_version_in_the_log_of_a_start(name: str, version: str, line: str) -> None:
    assert versions.logged_version(adapters.find(name).file, f"first\n{line}\nlast") == version


GREETINGS = [
    ("artemis", "2.56.0", "apache-activemq-artemis 2.56.0"),
    ("artemis", "2.19.0", "ActiveMQ-Artemis/2.19.0 ActiveMQ Artemis Messaging Engine"),
    ("qpid", "10.1.0", "Apache Qpid Broker-J Core 10.1.0"),
    ("activemq", "6.1.7", "ActiveMQ 6.1.7"),
    ("activemq", "6.1.7", "ActiveMQ/6.1.7"),
    ("rabbitmq", "3.10.8", "RabbitMQ 3.10.8"),
    ("rabbitmq", "3.10.8", "RabbitMQ/3.10.8"),
]
"""What brokers called themselves over AMQP 1.0 and STOMP, recorded."""


@pytest.mark.parametrize(("name", "version", "greeting"), GREETINGS)
def test_the_version_in_the_greeting_of_a_broker(name: str, version: str, greeting: str) -> None:
    file = adapters.find(name).file

    assert "" == versions.greeted_version_differs(file, version, greeting)
    assert versions.greeted_version_differs(file, "1.0", greeting).startswith(f"answered as version {version}, and ")


def test_a_greeting_may_have_braces() -> None:
    """A broker chooses the text: it is no format of ours."""
    said = versions.greeted_version_differs(adapters.find("artemis").file, "1.0", "artemis 2.56.0 {0.x} {y}")

    assert "in its greeting, 'artemis 2.56.0 {0.x} {y}'. Ask" in said


def test_a_broker_without_a_greeting_has_no_other_version() -> None:
    assert "" == versions.greeted_version_differs(adapters.find("artemis").file, "2.56.0", "")


def test_a_log_with_another_version_is_an_error_that_names_both() -> None:
    file = adapters.find("artemis").file

    assert versions.version_differs(file, "2.56.0", "Apache Artemis 2.56.0") == ""
    assert versions.version_differs(file, "2.40.0-alpine", "Apache ActiveMQ Artemis 2.40.0") == ""
    assert versions.version_differs(file, "2.56.0", "Apache ActiveMQ Artemis 2.13.0") == (
        "answered as version 2.13.0, and version 2.56.0 was asked for: version.logged finds 2.13.0 in the log of its "
        "start. Ask for the version that runs (artemis@2.13.0), or let 2.56.0 run"
    )


SAYS = "[version]\nlogged = 'fake (\\d[\\w.]*)'"
SERVES = "amqp(said['amqp'])"


def test_a_broker_that_answers_as_another_version_is_not_tried(make: Make) -> None:
    broker = make(f"print('this is fake 2.0', flush=True)\n{SERVES}", more=SAYS)

    with pytest.raises(LaunchError, match=r"^Fake 1\.0 answered as version 2\.0, and version 1\.0 was asked for"):
        broker.start()
    assert broker.gone()


def test_the_version_may_be_logged_after_everything_else_is_ready(make: Make) -> None:
    late = (
        "def late():\n    while not pathlib.Path('go').exists(): time.sleep(0.01)\n    print('fake 1.0', flush=True)\n"
        "threading.Thread(target=late).start()\n"
    )
    broker = make(late + SERVES, more=SAYS)
    lacks = broker._readiness.lacks
    seen: list[str] = []

    def look(log: pathlib.Path) -> str:
        seen.append(lacks(log))
        if seen[-1].startswith("version.logged"):
            (broker.plan.working_folder / "go").touch()
        return seen[-1]

    broker._readiness.lacks = look  # type: ignore[method-assign]
    broker.start()

    assert "version.logged: its log has no 'fake (\\\\d[\\\\w.]*)'" in seen


def test_a_broker_that_never_says_its_version_is_not_ready(make: Make) -> None:
    broker = make(SERVES, "ready_s = 3", SAYS)

    with pytest.raises(LaunchError, match=r"was not ready within 3 s .*: version\.logged: its log has no") as caught:
        broker.start()
    assert caught.value.failure == StartFailure.LATE


# a folder of the user


def _jar(path: pathlib.Path, manifest: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("META-INF/MANIFEST.MF", manifest)


DISTRIBUTIONS = [
    ("artemis", "lib/artemis-server-2.13.0.jar", "", "2.13.0"),
    ("activemq", "lib/activemq-broker-5.16.7.jar", "", "5.16.7"),
    ("activemq", "lib/activemq-all-6.2.7.jar", "", "6.2.7"),
    ("qpid", "lib/qpid-broker-core-8.0.6.jar", "", "8.0.6"),
    ("openmq", "lib/imqbroker.jar", "Specification-Version: 6.7.0\r\nImplementation-Version: 6.7.0 (Build 1)", "6.7.0"),
]


@pytest.mark.parametrize(("name", "jar", "manifest", "version"), DISTRIBUTIONS)
def test_a_folder_says_which_version_it_holds(
    tmp_path: pathlib.Path, name: str, jar: str, manifest: str, version: str
) -> None:
    """Also the one that the archive unpacked to. Another version than the one asked for is refused."""
    home = tmp_path / "unpacked"
    _jar(home / jar, manifest)
    (home / "bin").mkdir()
    (home / "bin/artemis").touch()

    assert adapters.find(f"{name}:native={home}").version == version
    assert adapters.find(f"{name}:native={tmp_path}").spec == f"{name}@{version}:native={tmp_path}"
    assert adapters.find(f"{name}@{version}:native={home}").version == version
    with pytest.raises(UsageError, match=rf"^{name}@9\.9:.* is version {re.escape(version)}; leave @9\.9 out, or name"):
        adapters.find(f"{name}@9.9:native={home}")


def test_the_version_in_the_folder_chooses_the_tables_of_since(tmp_path: pathlib.Path) -> None:
    """Artemis 2.5.0 knows no ring-size: with the tables of a later version it would refuse its configuration."""
    _jar(tmp_path / "lib/artemis-server-2.5.0.jar")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/artemis").touch()
    xml = adapters.find(f"artemis:native={tmp_path}").file.xml

    assert xml is not None
    assert "ring-size" not in xml.queue


def test_a_folder_that_does_not_say_its_version_needs_it_typed(tmp_path: pathlib.Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/artemis").touch()

    with pytest.raises(
        UsageError, match=r"version cannot be read: .*\(version\.file .*; say which version it is, arte"
    ):
        adapters.find(f"artemis:native={tmp_path}")
    for version in ("2.13.0", "2.56.0"):  # one unpacked over the other
        _jar(tmp_path / f"lib/artemis-server-{version}.jar")
    with pytest.raises(UsageError, match=r"it holds the versions 2\.13\.0, 2\.56\.0: expected one file"):
        adapters.find(f"artemis:native={tmp_path}")
    assert adapters.find(f"artemis@2.13.0:native={tmp_path}").version == "2.13.0"


def test_a_folder_of_another_product_is_refused(tmp_path: pathlib.Path) -> None:
    _jar(tmp_path / "lib/other-1.0.jar")

    with pytest.raises(UsageError, match=r"it holds no lib/qpid-broker-core-"):
        adapters.find(f"qpid:native={tmp_path}")


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"logged": "x"}, "needs one group"),
        ({"file": "lib/x"}, "needs one group"),
        ({"file": "lib/(x)", "member": "a", "pattern": "(b)"}, "or none beside a member"),
        ({"file": "lib/x", "member": "a"}, "belong together"),
        ({"member": "a", "pattern": "(b)"}, "file is the jar"),
    ],
)
def test_a_table_that_finds_no_version_is_refused(table: dict[str, str], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        VersionTable(**table)
