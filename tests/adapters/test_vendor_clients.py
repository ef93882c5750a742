"""Vendors' own clients as data: which there are, what each shows of a broker, and what it is told."""

from __future__ import annotations

import itertools
import pathlib
import re
import types

import pytest

from conformance import adapters, paths
from conformance.adapters import VARIANT, parse_assignments
from conformance.adapters.vendor_clients import address_parameters, choose, find, names, of_broker, with_client
from conformance.clients.roles.modes import MODES
from conformance.errors import UsageError
from conformance.protocols import VENDOR_SURFACES
from conformance.scenario.needs import (
    ENDS_ONE,
    HOLDS,
    PEEKS,
    RAW,
    REFUSES,
    RESENDS,
    SPREADS,
    SUBSCRIBED,
    TURNED_AWAY,
    Need,
    in_mode,
)

BROKERS = ["activemq", "artemis", "ems", "openmq", "qpid", "rabbitmq", "reference", "solace"]
FAULTY = """
name = "mine"
title = "Mine"
vendor = "me"
version = "1"
surface = "jms"
wire = "amqp"
api = "jakarta.jms"
factory = "me.Factory"
address = "amqp://{host}:{port}?{parameters}"
prefetch = "prefetch"
modes = { auto = 1 }
[[jars]]
maven = "me:client:1"
sha512 = "SUM"
""".replace("SUM", "0" * 128)


# the files


def test_an_unknown_name_gets_the_closest_one() -> None:
    with pytest.raises(UsageError, match=r"^unknown client 'qpid-jsm': did you mean 'qpid-jms'\? known: artemis-jms, "):
        find("qpid-jsm")


@pytest.mark.parametrize("name", names())
def test_each_is_whole(name: str) -> None:
    """It goes by the name of its folder, can be addressed, and its modes are ours."""
    client = find(name)

    assert client.name == name
    assert all(word in client.address for word in ("{host}", "{port}", "{parameters}"))
    assert set(client.modes) <= set(MODES)
    assert client.surface in VENDOR_SURFACES
    assert client.wire not in VENDOR_SURFACES or client.wire == client.surface


@pytest.mark.parametrize("name", names())
def test_each_pins_its_jars(name: str) -> None:
    """Its own among them, in its version; none of them twice."""
    client = find(name)
    files = [jar.of("").file for jar in client.jars]

    assert all(re.fullmatch(r"[0-9a-f]{128}", jar.sha512) for jar in client.jars)
    assert len(files) == len(set(files))
    assert any(jar.maven.endswith(f":{client.version}") for jar in client.jars)


def test_a_jar_of_two_clients_has_one_sum() -> None:
    """They share the cache: with two sums, one of them could never be had."""
    sums: dict[str, set[str]] = {}
    for jar in itertools.chain.from_iterable(find(name).jars for name in names()):
        sums.setdefault(jar.maven, set()).add(jar.sha512)

    assert [path for path, each in sums.items() if len(each) > 1] == []


@pytest.mark.parametrize("name", names())
def test_what_it_hides_is_there_to_be_hidden(name: str) -> None:
    """At one of the brokers that it speaks with, or at a variant of one; any other word would hide nothing."""
    client = find(name)
    shown = [adapters.find(broker) for broker in BROKERS if client.wire in adapters.find(broker).file.protocols]
    varied = [adapter.chosen({VARIANT: word}) for adapter in shown for word in adapter.file.variants]

    assert client.hides <= {word for adapter in [*shown, *varied] for word in adapter.capabilities(client.wire)}
    assert not client.hides & client.capabilities


@pytest.mark.parametrize("name", names())
def test_no_setting_of_a_client_covers_one_of_a_broker(name: str) -> None:
    """Both are set by `--set NAME=VALUE`."""
    client, files = find(name), {broker: adapters.find(broker).file for broker in BROKERS}
    met = {broker: file for broker, file in files.items() if client.wire in file.protocols}
    shared = {broker: set(client.settings) & set(file.settings) for broker, file in met.items()}

    assert [broker for broker, both in shared.items() if both] == []


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('title = "Mine"', 'tilte = "Mine"', "unknown key 'tilte': did you mean 'title'?"),
        (f'sha512 = "{"0" * 128}"', "", "jars.0.sha512"),
        ('surface = "jms"', 'surface = "amqp"', "surface"),
        ('surface = "jms"', "surface = jms", "Invalid value"),
    ],
)
def test_a_faulty_file_is_an_error_with_its_path(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, words: str
) -> None:
    file = tmp_path / "clients" / "faulty" / "client.toml"
    file.parent.mkdir(parents=True)
    file.write_text(FAULTY.replace(old, new))
    monkeypatch.setattr(paths, "fixtures", lambda: tmp_path)

    with pytest.raises(UsageError) as caught:
        find("faulty")
    assert str(caught.value).startswith(f"{file}: ")
    assert words in str(caught.value)


# which of them


@pytest.mark.parametrize(
    ("asked", "protocol", "broker", "expected"),
    [
        ("", "jms", "artemis", "artemis-jms"),
        ("", "jms", "qpid", "qpid-jms"),
        ("qpid-amqp091", "amqp091", "qpid", "qpid-amqp091"),
        ("", "amqp091", "qpid", ""),
        ("qpid-jms", "jms", "artemis", "qpid-jms"),
        ("qpid-jms", "jms", "qpid", "qpid-jms"),
        ("qpid-jms", "jms", "reference", "qpid-jms"),
        ("", "amqp", "artemis", ""),
        ("", "stomp", "reference", ""),
        ("", "jms", "ems", ""),
    ],
)
def test_the_one_that_was_asked_for_or_the_own(asked: str, protocol: str, broker: str, expected: str) -> None:
    """None where our own sessions speak, or no client can."""
    assert choose(asked, protocol, adapters.find(broker)) is (find(expected) if expected else None)


@pytest.mark.parametrize(
    ("asked", "protocol", "broker", "code", "fitting"),
    [
        ("qpid-jms", "amqp", "artemis", "client-not-needed", None),
        ("artemis-jms", "jms", "qpid", "client-does-not-fit", ("qpid-jms",)),
        ("qpid-jms", "amqp091", "qpid", "client-does-not-fit", ("qpid-amqp091",)),
        ("qpid-jms", "jms", "ems", "client-does-not-fit", ()),
        ("qpid-amqp091", "amqp091", "reference", "client-does-not-fit", ()),
        ("qpid-amqp091", "amqp091", "rabbitmq", "client-does-not-fit", ()),
        ("artemis", "jms", "artemis", "unknown-client", None),
    ],
)
def test_one_that_does_not_go_with_the_rest_is_refused(
    asked: str, protocol: str, broker: str, code: str, fitting: tuple[str, ...] | None
) -> None:
    with pytest.raises(UsageError) as caught:
        choose(asked, protocol, adapters.find(broker))
    assert (code, fitting) == (caught.value.code, caught.value.fields.get("fitting"))


def test_the_virtual_host_that_a_client_opens_is_named() -> None:
    with pytest.raises(UsageError, match="--client qpid-amqp091 opens the virtual host 'default', and the file of ref"):
        choose("qpid-amqp091", "amqp091", adapters.find("reference"))


# a broker as it shows it


def test_without_a_client_an_adapter_is_itself() -> None:
    adapter = adapters.find("reference")

    assert with_client(adapter, None) is adapter


def test_a_client_hides_and_adds() -> None:
    """Over its surface only, and beside what the broker speaks itself; the rest of the file is that of the broker."""
    own, client = adapters.find("reference"), find("qpid-jms")
    shown = with_client(own, client)
    spoken, wire = shown.file.protocols["jms"], own.file.protocols["amqp"]

    assert shown.capabilities("jms") == (own.capabilities("amqp") - client.hides) | client.capabilities
    assert {"ack_confirmed", "presettled_delivery"} <= own.capabilities("amqp")
    assert not {"ack_confirmed", "presettled_delivery"} & shown.capabilities("jms")
    assert "simplified_api" in shown.capabilities("jms") - own.capabilities("amqp")
    assert (spoken.port, spoken.destination, spoken.ack_confirm) == (wire.port, wire.destination, None)
    assert spoken.topic == wire.topic
    assert {**shown.file.protocols, "jms": None} == {**own.file.protocols, "jms": None}
    assert shown.file.settings == {**own.file.settings, **client.settings}
    assert {name for name in type(own.file).model_fields if getattr(shown.file, name) != getattr(own.file, name)} == {
        "protocols",
        "settings",
        "capabilities",
    }
    assert (shown.spec, shown.version, shown.path) == (own.spec, own.version, own.path)


def test_the_file_of_the_broker_stays_as_it_is() -> None:
    """All users of the adapter share it."""
    adapter = adapters.find("artemis")
    before = adapter.file.model_dump()
    with_client(adapter, find("artemis-jms"))

    assert adapter.file.model_dump() == before
    assert "jms" not in adapter.file.protocols


def test_a_variant_of_the_broker_is_seen_through_it_as_well() -> None:
    shown = with_client(adapters.find("reference"), find("qpid-jms")).chosen({"profile": "solace"})

    assert "jms" in shown.file.protocols
    assert {"publish_window", "block_on_durable_send"} <= set(shown.file.settings)


@pytest.mark.parametrize(
    ("adapter", "code"),
    [
        (adapters.find("qpid:external=amqp://h:1"), "client-with-external"),
        (types.SimpleNamespace(name="mine"), "client-needs-file"),
    ],
)
def test_a_broker_that_cannot_be_seen_through_it_is_refused(adapter: adapters.Adapter, code: str) -> None:
    with pytest.raises(UsageError) as caught:
        with_client(adapter, find("qpid-jms"))
    assert code == caught.value.code


# its settings


def test_settings_of_the_client_are_not_the_brokers() -> None:
    """One broker serves trials of any of them; a setting of its own makes another of it."""
    adapter = with_client(adapters.find("reference"), find("qpid-jms"))
    stock, waits, async_, lossy = (
        of_broker(adapter.file, adapter.effective(parse_assignments(words, adapter.file)))
        for words in (
            [],
            ["block_on_durable_send=true"],
            ["block_on_durable_send=false", "block_on_non_durable_send=true"],
            ["sync_non_transactional=false"],
        )
    )

    assert stock == waits == async_ != lossy
    assert hash(stock) == hash(waits)
    assert set(stock.values) == set(adapters.find("reference").file.settings)
    assert stock == adapters.find("reference").effective()


def test_without_a_client_all_settings_are_the_brokers() -> None:
    adapter = adapters.find("reference")
    settings = adapter.effective({"sync_non_transactional": False})

    assert of_broker(adapter.file, settings) is settings


@pytest.mark.parametrize(
    ("client", "words", "expected"),
    [
        ("qpid-jms", [], {}),
        ("qpid-jms", ["block_on_durable_send=true"], {"jms.forceAsyncSend": "false"}),
        ("qpid-jms", ["block_on_durable_send=false"], {"jms.forceAsyncSend": "true"}),
        ("qpid-jms", ["sync_transactional=false"], {}),
        ("artemis-jms", [], {}),
        (
            "artemis-jms",
            ["block_on_acknowledge=true", "confirmation_window_bytes=4096"],
            {"blockOnAcknowledge": "true", "confirmationWindowSize": "4096"},
        ),
    ],
)
def test_only_settings_that_were_given_are_said(client: str, words: list[str], expected: dict[str, str]) -> None:
    """In the client's own words; one that is absent is left to what the client does by itself."""
    adapter = with_client(adapters.find("artemis"), find(client))

    assert address_parameters(adapter.file, adapter.effective(parse_assignments(words, adapter.file))) == expected


# its address


def test_an_address_has_every_parameter() -> None:
    """Those of the client, what is sent ahead, and what was set; who connects fills in where."""
    assert find("qpid-jms").url(7, {"jms.forceSyncSend": "true"}) == (
        "amqp://{host}:{port}?amqp.idleTimeout=120000&jms.connectTimeout=20000&jms.prefetchPolicy.all=7"
        "&jms.forceSyncSend=true"
    )


def test_an_address_of_several_nodes_has_every_parameter() -> None:
    found = find("qpid-jms").url(7, {"jms.forceSyncSend": "true"}, several=True)

    assert found.startswith("failover:([amqp://{host}:{port}?amqp.idleTimeout=120000])?failover.")
    assert found.endswith("&jms.connectTimeout=20000&jms.prefetchPolicy.all=7&jms.forceSyncSend=true")


def test_what_is_sent_ahead_is_scaled() -> None:
    """Artemis counts bytes, 1,024 a message."""
    assert "&consumerWindowSize=7168" in find("artemis-jms").url(7, {})


def test_parameters_are_quoted_where_the_client_wants_it() -> None:
    assert find("qpid-amqp091").url(7, {"x": "1"}).endswith("''&sync_publish='all'&maxprefetch='7'&x='1'")


def test_a_listener_has_parameters_of_its_own() -> None:
    """Only where sends are answered to one, and what was set comes first."""
    client = find("artemis-jms")

    assert "confirmationWindowSize" not in client.url(7, {})
    assert "&confirmationWindowSize=1048576" in client.url(7, {}, asynchronous=True)
    assert re.findall(
        r"confirmationWindowSize=(\d+)", client.url(7, {"confirmationWindowSize": "5"}, asynchronous=True)
    ) == ["5"]
    assert find("qpid-amqp091").url(7, {}, asynchronous=True) == find("qpid-amqp091").url(7, {})


# what its applications cannot do


@pytest.mark.parametrize("need", [RAW, REFUSES, HOLDS, PEEKS, TURNED_AWAY, RESENDS, SPREADS, ENDS_ONE])
def test_no_application_of_jms_does_what_our_own_sessions_do(need: Need) -> None:
    assert find("qpid-jms").lacks(need) == "an application of Apache Qpid JMS has nothing of the kind"


@pytest.mark.parametrize(
    ("name", "mode", "expected"),
    [
        ("qpid-jms", "individual", ""),
        ("qpid-jms", "pre", "Apache Qpid JMS has no such mode"),
        ("artemis-jms", "pre", ""),
        ("artemis-jms", "no_ack", "Apache Artemis JMS has no such mode"),
        ("qpid-amqp091", "no_ack", ""),
        ("qpid-amqp091", "individual", "Apache Qpid JMS for AMQP 0-9-1 has no such mode"),
    ],
)
def test_an_unknown_mode_is_an_error(name: str, mode: str, expected: str) -> None:
    assert find(name).lacks(in_mode(mode)) == expected


@pytest.mark.parametrize(
    ("broker", "client", "promised"),
    [
        ("reference", "qpid-jms", True),
        ("qpid", "qpid-jms", True),
        ("artemis", "artemis-jms", True),
        ("artemis", "qpid-jms", False),
        ("rabbitmq", "qpid-jms", False),
    ],
)
def test_a_client_of_another_house_promises_nothing_for_a_broker(broker, client, promised):
    """RabbitMQ counts no delivery over AMQP 1.0, and promises no count: Qpid JMS cannot bind it to the mark."""
    seen = with_client(adapters.find(broker), find(client))

    assert ("redelivered_flag_promised" in seen.capabilities("jms")) is promised


@pytest.mark.parametrize(
    ("broker", "client", "why"),
    [
        ("artemis", "artemis-jms", ""),
        ("activemq", "qpid-jms", ""),
        ("qpid", "qpid-jms", ""),
        ("qpid", "qpid-amqp091", "the adapter of qpid does not say `topic` over amqp091"),
        ("rabbitmq", "qpid-jms", "the adapter of rabbitmq does not say `topic` over jms"),
    ],
)
def test_a_client_subscribes_durably_where_its_wire_has_a_topic(broker, client, why):
    """Over AMQP 1.0 RabbitMQ attaches receivers to queues only."""
    seen = with_client(adapters.find(broker), find(client))

    assert why == seen.lacks_over(SUBSCRIBED, find(client).surface)
