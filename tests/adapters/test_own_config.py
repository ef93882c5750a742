"""A user's own configuration: what is read from it, what a copy changes, what no copy is made of."""

import dataclasses
import pathlib
import re
import shlex
import shutil
import tomllib
from types import SimpleNamespace

import pytest

from conformance import adapters, campaign, claims, paths, records, scenario
from conformance.adapters import opening, ports, web
from conformance.adapters.config import own_configuration
from conformance.adapters.config.editors import KeysText, XmlText
from conformance.adapters.config.own_configuration import difference, redact
from conformance.adapters.container.docker import DockerLauncher
from conformance.adapters.credentials import Access, Secret
from conformance.adapters.distribution import fetch
from conformance.adapters.file.launch_tables import Xml
from conformance.adapters.file.model import Beside, Config, Listeners, Refuse, Rewrite, Setting
from conformance.adapters.launch.java import find_java
from conformance.adapters.launch.plan import BrokerSource, make_instance
from conformance.campaign import Options, prepare
from conformance.claims import unmet
from conformance.errors import ClientError, LaunchError, UsageError
from conformance.followup import replay
from conformance.followup.bundle.archive import Contents
from conformance.followup.bundle.configuration import add_configuration
from conformance.followup.replay import ReplayRequest
from conformance.frontend.cli import cli
from conformance.judge.rows import Judgement
from conformance.report import html
from conformance.run import readiness_probe
from conformance.run.trial.player import describe

NAME = "broker-killed-while-publishing"
ARTEMIS, RABBITMQ = adapters.find("artemis"), adapters.find("rabbitmq")

SMALL = """<?xml version='1.0'?>
<!-- mine -->
<configuration xmlns="urn:activemq">
   <core xmlns="urn:activemq:core">
      <journal-directory>/srv/prod/journal</journal-directory>
      <journal-sync-transactional>true</journal-sync-transactional>
      <acceptors>
         <acceptor name="all">tcp://0.0.0.0:61616?protocols=AMQP,STOMP,CORE;amqpCredits=7</acceptor>
      </acceptors>
   </core>
</configuration>
"""
"""What the unit tests change."""


def own_of(text: str, tmp_path: pathlib.Path, adapter=ARTEMIS):
    """The adapter with that configuration."""
    file = tmp_path / adapter.file.config.file
    file.write_text(text)
    return opening.with_configuration(adapter, file)


def core(inside: str) -> str:
    """`SMALL` with more in its core."""
    return SMALL.replace("      <acceptors>", f"      {inside}\n      <acceptors>")


def added(adapter) -> list[str]:
    """The lines that a copy has and the user's file has not, and those that it lacks."""
    lines = adapter.own.preview(adapter.file, adapter.effective()).splitlines()[2:]
    return [line[0] + line[1:].strip() for line in lines if line[0] in "+-"]


# What is read from it.


def test_what_the_file_says_is_what_is_stock(tmp_path):
    """A key that the file lacks is absent, although our stock configuration has it."""
    mine = own_of(core("<journal-sync-non-transactional>false</journal-sync-non-transactional>"), tmp_path)
    settings = mine.effective()

    assert (False, True) == (settings.values["sync_non_transactional"], settings.values["sync_transactional"])
    assert False is settings.values["sync_acknowledgements"]  # which follows
    assert {"sync_non_transactional", "sync_transactional"} & settings.absent == set()
    assert {"journal_type", "persistence", "data_sync"} <= settings.absent
    assert ("NIO", "ASYNCIO") == (ARTEMIS.effective().values["journal_type"], settings.values["journal_type"])
    assert {} == settings.changed
    assert {"sync_non_transactional": True} == mine.effective({"sync_non_transactional": True}).changed


@pytest.mark.parametrize(
    ("nanoseconds", "expected", "note"),
    [(3333333, 3, "core/journal-buffer-timeout is 3333333, which is journal_buffer_ms=3.33"), (500000000, 500, "")],
)
def test_a_number_is_scaled_back_and_a_loss_is_noted(tmp_path, nanoseconds, expected, note):
    mine = own_of(core(f"<journal-buffer-timeout>{nanoseconds}</journal-buffer-timeout>"), tmp_path)

    assert expected == mine.effective().values["journal_buffer_ms"]
    assert [note] == [one.partition(";")[0] for one in mine.own.notes or [""]]
    assert not [line for line in added(mine) if "buffer" in line]  # and the copy has the number of the file


@pytest.mark.parametrize(
    ("inside", "words"),
    [
        ("<journal-sync-non-transactional>maybe</journal-sync-non-transactional>", "is 'maybe', and setting sync_non"),
        ("<journal-buffer-timeout>fast</journal-buffer-timeout>", "core/journal-buffer-timeout is 'fast'"),
        ("<journal-type>NOI</journal-type>", "core/journal-type: unknown journal_type 'NOI': did you mean 'NIO'"),
        ("<journal-type>${type:NIO}</journal-type>", "unknown journal_type '${type:NIO}'"),
    ],
)
def test_a_value_of_another_type_names_file_element_and_value(tmp_path, inside, words):
    with pytest.raises(UsageError, match=re.escape(words)) as caught:
        own_of(core(inside), tmp_path)
    assert "broker.xml: line 7: core/journal-" in str(caught.value)


def policies(match: str, **keys: object) -> str:
    """Address settings of these queues."""
    inside = "".join(f"<{key.replace('_', '-')}>{value}</{key.replace('_', '-')}>" for key, value in keys.items())
    return f'<address-settings><address-setting match="{match}">{inside}</address-setting></address-settings>'


DEAD = '<addresses><address name="DEAD"><anycast><queue name="DEAD"/></anycast></address></addresses>'


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        (policies("#", max_delivery_attempts=1), {"max_delivery_attempts": 1, "dead_letter_destination": ""}),
        (policies("#", dead_letter_address="DEAD") + DEAD, {"dead_letter_destination": "DEAD"}),
        (policies("#", dead_letter_address="DEAD"), {"dead_letter_destination": ""}),  # no queue would keep them
        (
            policies("#", expiry_delay=200, expiry_address="DEAD") + DEAD,
            {"message_ttl_ms": 200, "expiry_destination": "DEAD"},
        ),
        (policies("#", max_expiry_delay=300), {"message_ttl_ms": 300}),
        (policies("*", min_expiry_delay=400), {"message_ttl_ms": 400}),
        (
            policies("orders.#", max_delivery_attempts=1, expiry_delay=9),
            {"max_delivery_attempts": 10, "message_ttl_ms": -1},
        ),
        (policies("#", address_full_policy="DROP"), {"full_queue_policy": "discard"}),
        (policies("#", address_full_policy="FAIL"), {"full_queue_policy": "refuse"}),
        (policies("#", redelivery_delay=5000), {"redelivery_delay_ms": 5000}),
        (policies("#", default_ring_size=10), {"ring_size": 10}),
        (policies("#", default_purge_on_no_consumers="true"), {"purge_without_consumers": True}),
        (policies("*", default_non_destructive="true"), {"non_destructive": True}),
        (policies("#", last_value_queue="true"), {"last_value": True}),
        (
            policies("#", default_consumers_before_dispatch=2, default_delay_before_dispatch=90),
            {"consumers_before_dispatch": 2, "dispatch_delay_ms": 90},
        ),
    ],
)
def test_policies_of_queues_are_read(tmp_path, inside, expected):
    """Those of the queues of a run: of `#`, and of `*`, which goes before it."""
    values = own_of(core(inside), tmp_path).effective().values

    assert expected == {name: values[name] for name in expected}


def test_a_dead_letter_address_without_a_queue_is_reported(tmp_path):
    mine = own_of(core(policies("#", dead_letter_address="DEAD")), tmp_path)

    (note,) = mine.own.notes
    assert "dead-letter-address is DEAD, and the file has no such queue" in note


def test_a_words_own_text_is_read_back():
    setting = Setting(type="bool", default=True, description="x", texts={"false": "NEVER"})

    assert False is own_configuration.value_of(setting, "NEVER", "a/b", "sync")
    assert True is own_configuration.value_of(setting, "true", "a/b", "sync")


# What a copy changes.


def test_the_queues_of_a_copy_have_the_policies_that_excuse_them(tmp_path):
    """Artemis gives these two to queues that it makes by itself, and not to those of its file: nothing was discarded."""
    mine = own_of(core(policies("#", default_ring_size=10, default_purge_on_no_consumers="true")), tmp_path)

    (queue,) = [line for line in added(mine) if "{queue}" in line]
    assert 'ring-size="10" purge-on-no-consumers="true"' in queue


def test_a_copy_changes_ports_paths_and_addresses_and_has_the_queues(tmp_path):
    assert added(own_of(SMALL, tmp_path)) == [
        "-<journal-directory>/srv/prod/journal</journal-directory>",
        "+<journal-directory>data/journal</journal-directory>",
        '-<acceptor name="all">tcp://0.0.0.0:61616?protocols=AMQP,STOMP,CORE;amqpCredits=7</acceptor>',
        '+<acceptor name="all">tcp://127.0.0.1:{main_port}?protocols=AMQP,STOMP,CORE;amqpCredits=7</acceptor>',
        (
            '+<addresses><address name="{queue}"><anycast>'
            '<queue name="{queue}" ring-size="-1" purge-on-no-consumers="false"><durable>true</durable></queue>'
            "</anycast></address></addresses>"
        ),
    ]


def test_a_setting_on_top_is_in_the_difference_and_no_other_is(tmp_path):
    mine = own_of(SMALL, tmp_path)
    own = mine.own
    before, after = (own.preview(mine.file, mine.effective(one)) for one in ({}, {"sync_transactional": False}))

    new = set(after.splitlines()) - set(before.splitlines())
    assert "+      <journal-sync-transactional>false</journal-sync-transactional>" in new
    assert "max-delivery-attempts" not in after


def test_a_setting_whose_place_is_not_there_gets_one(tmp_path):
    mine = own_of(SMALL, tmp_path)
    ran = mine.own.copy(mine.file, mine.effective({"max_delivery_attempts": 3}), [], {"listen": "h", "main_port": "1"})

    path = ARTEMIS.file.settings["max_delivery_attempts"].xml
    assert "3" == XmlText(ran).read(path)
    assert b'<address-setting match="#">' in ran


def test_deviations_of_ours_do_not_hold_but_the_ones_that_are_kept(tmp_path):
    mine = own_of(SMALL, tmp_path)

    assert () == mine.file.xml.edits
    assert {"JVM options"} == mine.file.deviations.keys()
    assert {"journal-directory", "acceptor"} == mine.own.why.keys()
    assert mine.file.title.endswith("(own configuration)")


def test_an_acceptor_for_each_protocol_has_a_port_of_its_own(tmp_path):
    acceptors = (
        '<acceptor name="vm">vm://0</acceptor>'
        '<acceptor name="tls">tcp://0.0.0.0:5671?protocols=AMQP;sslEnabled=true;keyStorePassword=s3cret</acceptor>'
        '<acceptor name="a">tcp://0.0.0.0:5672?protocols=AMQP&amp;host=10.0.0.1;port=9</acceptor>'
        '<acceptor name="s">tcp://${ip:0.0.0.0}:61613?protocols=STOMP</acceptor>'
        '<acceptor name="m">tcp://0.0.0.0:1883?protocols=MQTT</acceptor>'
    )
    text = re.sub(r"<acceptor name=.*</acceptor>", acceptors, SMALL)
    mine = own_of(text, tmp_path)
    ran = mine.own.copy(
        mine.file, mine.effective(), [], {"listen": "h", "main_port": "1", "stomp_port": "2", "mqtt_port": "3"}
    )

    assert XmlText(ran).values("core/acceptors/acceptor") == [
        "vm://0",
        "tcp://h:1?protocols=AMQP&",
        "tcp://h:2?protocols=STOMP",
        "tcp://h:3?protocols=MQTT",
    ]
    ports = {"amqp": "main", "stomp": "stomp", "mqtt": "mqtt", "mqtt311": "mqtt"}
    assert ports == {name: one.port for name, one in mine.file.protocols.items()}
    assert {*ports.values()} == {*mine.file.ports} == {*mine.file.start.ready_ports}
    with pytest.raises(UsageError, match="unknown protocol of artemis 'jms'"):
        mine.capabilities("jms")
    assert "s3cret" not in mine.own.preview(mine.file, mine.effective())


def test_a_broker_without_a_protocol_does_not_speak_it(tmp_path):
    mine = own_of(SMALL.replace("AMQP,STOMP,CORE", "AMQP"), tmp_path)

    assert {"amqp"} == mine.file.protocols.keys()
    with pytest.raises(UsageError, match="none speaks AMQP, by which the depth"):
        own_of(SMALL.replace("AMQP,STOMP,CORE", "STOMP"), tmp_path)


def test_an_acceptor_that_names_no_protocol_speaks_all(tmp_path):
    mine = own_of(SMALL.replace("?protocols=AMQP,STOMP,CORE;amqpCredits=7", ""), tmp_path)

    assert dict.fromkeys(("amqp", "stomp", "core", "mqtt", "mqtt311"), "main") == {
        name: one.port for name, one in mine.file.protocols.items()
    }


@pytest.mark.parametrize(
    "text",
    [
        SMALL,
        SMALL.replace("\n", "\r\n"),
        SMALL.replace("<!-- mine -->", "<!-- > a <b> 'c -->\n<?pi x?>"),
        SMALL.replace('<acceptor name="all"', '<acceptor\n   other=\'a > "b"\'  name="all" '),
        SMALL.replace("<?xml version='1.0'?>", "<?xml version='1.0' encoding='ISO-8859-1'?>").replace(
            "mine", "m\u00fcne"
        ),
    ],
)
def test_every_other_byte_stays(tmp_path, text):
    data = text.encode("latin-1")
    (tmp_path / "broker.xml").write_bytes(data)
    mine = opening.with_configuration(ARTEMIS, tmp_path / "broker.xml")
    words = {"listen": "0.0.0.0", "main_port": "61616"}  # those of the file: what is left is nothing of ours
    ran = mine.own.copy(mine.file, mine.effective(), [], words)

    assert data.replace(b"/srv/prod/journal", b"data/journal") == ran


# Texts that are edited in place.


def test_elements_are_found_changed_added_and_taken_out():
    text = XmlText(b"<a>\n  <b k='1'/>\n  <b k='2'>x &amp; y</b>\n  <c/>\n</a>")

    assert ("", "x & y", None) == (text.read("b"), text.read("b[k=2]"), text.read("d"))
    assert ["1", "2"] == text.values("b/@k")
    assert b"<b k='1'/>\n  <b k='2'>1 &lt; 2</b>" in text.with_value("b[k=2]", "1 < 2").data
    assert b"<b k='1'>z</b>" in text.with_value("b[k=1]", "z").data
    assert b'<b k="9">' in text.with_value("b[k=2]/@k", "9").data
    assert b'<c j="9"/>' in text.with_value("c/@j", "9").data
    assert b'     <d e="f"></d>' not in text.data
    assert b'   <d e="f"><g>1</g></d>' in text.with_value("d[e=f]/g", "1").data
    assert b"<a>\n  <c/>\n</a>" == text.rewritten("b", None).data
    assert b"<b/>\n  <b>x" in text.rewritten("b/@k", None).data
    assert b"<b k='1'>n</b>\n  <b k='2'>n</b>" in text.rewritten("b", "n").data
    assert text.data == text.rewritten("d", "n").data
    assert b"<d>n</d>" in text.rewritten("d", "n", add=True).data


def test_keys_are_found_changed_added_and_taken_out():
    text = KeysText(b"# a = 1\nl.tcp.1 = 5672 # mine\n\n l.ssl.1=5671\nd = x")

    assert ("5672", "5671", None) == (text.read("l.tcp.1"), text.read("l.ssl.1"), text.read("a"))
    assert b"# a = 1\n\nd = x" == text.rewritten("l.*", None).data
    assert text.data == text.rewritten("z", "1").data
    assert text.data + b"\nz = 1\n" == text.rewritten("z", "1", add=True).data
    assert text.data.replace(b"d = x", b"d = y\n") == text.with_value("d", "y").data
    assert text.data == text.with_value("d", "x").data
    with pytest.raises(UsageError, match="line 2 is not `key = value`"):
        KeysText(b"a = 1\n<xml/>\n")


@pytest.mark.parametrize(
    "line",
    [
        '<acceptor name="x">tcp://h:1?sslEnabled=true;keyStorePassword=s3cret;trustStorePassword=s3cret</acceptor>',
        "<cluster-password>s3cret</cluster-password>",
        '<property key="password" value="s3cret"/>',
        '<login user="a" password="s3cret"/>',
        "default_pass = s3cret; and s3cret",
        '<login password="s3cret with s3cret">',
        "ssl_options.password = s3cret",
        "uri = amqp://alice:s3cret@h:1",
    ],
)
def test_no_secret_is_shown(line):
    assert "s3cret" not in redact(line)
    assert "s3cret" not in difference(line.encode(), b"", "a", "b")
    assert line.split("s3cret")[0] in redact(line)


def test_what_is_no_secret_is_shown():
    assert "<journal-type>NIO</journal-type> a=b k = v" == redact("<journal-type>NIO</journal-type> a=b k = v")


# What no copy is made of.

REFUSED = [one.at for one in ARTEMIS.file.config.refuses]


def element(at: str) -> str:
    """An element or attribute at that path, which names a production system."""
    path, _, attribute = at.partition("/@")
    names = path.split("/")
    opened = "".join(f"<{name}>" for name in names[:-1])
    last = f'<{names[-1]} {attribute}="com.prod">' if attribute else f"<{names[-1]}>tcp://prod.example:1"
    return opened + last + "".join(f"</{name}>" for name in reversed(names))


@pytest.mark.parametrize("at", REFUSED)
def test_what_would_talk_to_others_is_refused_by_name(tmp_path, at):
    said = rf"broker\.xml: line 7: {at}( \(com\.prod\))?: .+; take it out of a copy of the file, and give that"
    with pytest.raises(UsageError, match=said) as caught:
        own_of(core(element(at)), tmp_path)
    assert ("com.prod" in str(caught.value)) == at.endswith("/@class-name")
    assert "prod.example" not in str(caught.value)


def test_every_reason_is_given_at_once_with_its_line_and_its_class(tmp_path):
    """Settings that cannot be read, elements that reach others, listeners, and a second file: one run shows all."""
    inside = """<bridges>
        <bridge name="b"><password>s3cret</password></bridge>
      </bridges>
      <journal-buffer-timeout>fast</journal-buffer-timeout>
      <broker-plugins><broker-plugin class-name="com.example.Audit"/></broker-plugins>
      <remoting-incoming-interceptors><class-name>com.example.Filter</class-name></remoting-incoming-interceptors>"""
    (tmp_path / "broker.xml").write_text(core(inside).replace("AMQP,STOMP,", ""))
    (tmp_path / "login.config").write_text("activemq {\n   com.example.MyLoginModule required;\n};\n")
    with pytest.raises(UsageError) as caught:
        opening.with_configuration(ARTEMIS, tmp_path)

    head, *reasons = str(caught.value).splitlines()
    assert head == f"--config {tmp_path}: 6 reasons to refuse it; change each in a copy of the folder, and give that:"
    assert [reason.split(": ")[:3] for reason in reasons] == [
        ["    broker.xml", "line 7", "bridges"],
        ["    broker.xml", "line 11", "broker-plugin/@class-name (com.example.Audit)"],
        ["    broker.xml", "line 12", "remoting-incoming-interceptors (com.example.Filter)"],
        [
            "    broker.xml",
            "line 10",
            "core/journal-buffer-timeout is 'fast', and setting journal_buffer_ms is of type int",
        ],
        ["    broker.xml", "core/acceptors/acceptor", reasons[4].split(": ")[2]],
        ["    login.config", "line 2", "com.example.MyLoginModule"],
    ]
    assert "s3cret" not in str(caught.value)


def test_the_line_of_a_key_is_that_of_its_last_value(tmp_path):
    with pytest.raises(UsageError) as caught:
        own_of("# mine\nauth_ldap.servers.1 = x\n\nauth_ldap.servers.2 = y\nload_definitions = d\n", tmp_path, RABBITMQ)

    assert ["line 5", "line 2", "line 4"] == [
        each.strip().split(": ")[0] for each in str(caught.value).splitlines()[1:]
    ]


def test_a_refused_element_in_the_words_of_its_product(tmp_path):
    """An element with children, an attribute of a prefixed element, and an address that only begins as this machine."""
    for at, inside in {
        "cluster-connections": '<cluster-connections><cluster-connection name="c"/></cluster-connections>',
        "grouping-handler": '<grouping-handler name="g"><type>REMOTE</type></grouping-handler>',
        "include/@href": '<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="bridges.xml"/>',
        "connectors/connector": "<connectors><connector>tcp://localhost.example:1</connector></connectors>",
    }.items():
        with pytest.raises(UsageError, match=at):
            own_of(core(inside), tmp_path)


@pytest.mark.parametrize(
    "inside",
    [
        "<bridges/>",
        "<!-- <bridges><bridge/></bridges> -->",
        '<connectors><connector name="me">tcp://localhost:61616</connector></connectors>',
        '<broker-plugins><broker-plugin class-name="org.apache.activemq.artemis.core.Plugin"/></broker-plugins>',
    ],
)
def test_what_does_no_harm_is_not_refused(tmp_path, inside):
    own_of(core(inside), tmp_path)


@pytest.mark.parametrize("at", [one.at for one in RABBITMQ.file.config.refuses])
def test_keys_that_would_talk_to_others_are_refused(tmp_path, at):
    with pytest.raises(UsageError, match=re.escape(f"{at}: ")) as caught:
        own_of(f"channel_max = 9\n{at.replace('*', 'x')} = s3cret\n", tmp_path, RABBITMQ)
    assert "s3cret" not in str(caught.value)


def test_a_copy_of_keys_listens_on_ports_of_its_own(tmp_path):
    mine = own_of(
        "listeners.tcp.default = 5672\nlisteners.ssl.1 = 5671\nmqtt.listeners.tcp.1 = 1883\nchannel_max = 9\n"
        "management.tcp.port = 15672\nprometheus.tcp.port = 15692\nlog.dir = /var/log/rabbitmq\nlog.channel.file = /c.log\nraft.data_dir = /srv/raft\n"
        "distribution.listener.interface = 0.0.0.0\nauth_backends.1 = internal\n",
        tmp_path,
        RABBITMQ,
    )
    ran = mine.own.copy(
        mine.file, mine.effective(), ["q"], {**own_configuration.unfilled_words(mine.file), "listen": "127.0.0.1"}
    )

    assert ran.decode().splitlines() == [
        "channel_max = 9",
        "auth_backends.1 = internal",
        "listeners.tcp.1 = 127.0.0.1:{main_port}",
        "stomp.listeners.tcp.1 = 127.0.0.1:{stomp_port}",
        "mqtt.listeners.tcp.1 = 127.0.0.1:{mqtt_port}",
        "management.tcp.ip = 127.0.0.1",
        "management.tcp.port = {http_port}",
    ]
    assert "rabbitmq.conf" not in [one.file for one in mine.file.template.files]


def test_a_setting_of_a_key_is_read_and_written(tmp_path):
    table = dict(RABBITMQ.file.settings) | {
        "sync_transactional": Setting(
            type="bool", default=True, description="x", key="raft.sync", texts={"false": "off"}
        )
    }
    adapter = dataclasses.replace(RABBITMQ, file=RABBITMQ.file.model_copy(update={"settings": table}))
    mine = own_of("raft.sync = off\n", tmp_path, adapter)
    own = mine.own

    assert (False, frozenset()) == (mine.effective().values["sync_transactional"], mine.effective().absent)
    assert "raft.sync" not in own.preview(mine.file, mine.effective())
    assert "+raft.sync = true" in own.preview(mine.file, mine.effective({"sync_transactional": True}))


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("broker.xml", SMALL.replace("</core>", ""), "not XML: line"),
        ("broker.xml", "", "not XML: line 1"),
        ("broker.xml", "listeners.tcp.1 = 1\n", "not XML: line 1"),
        ("broker.xml", "<beans><broker/></beans>", "no core, so it is the configuration of another broker; its root"),
        (
            "broker.xml",
            f"<!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/passwd'>]>{SMALL.split(chr(10), 1)[1]}",
            "DOCTYPE",
        ),
        ("broker.xml", "\0", "not XML in UTF-8"),
        ("broker.xml", "<a>" * 20_000 + "</a>" * 20_000, "nested more than 100 levels deep"),
        ("other.xml", SMALL, "the folder has no broker.xml"),
    ],
)
def test_a_file_that_is_no_configuration_is_an_error(tmp_path, name, text, words):
    (tmp_path / name).write_text(text)

    with pytest.raises(UsageError, match=words) as told:
        opening.with_configuration(ARTEMIS, tmp_path)
    assert f"--config {tmp_path}: " in str(told.value)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("reference", "reference has no \\[config\\]"),
        ("rabbitmq:docker", "guest, who declares the queues, may come .* a copy runs natively, --adapter rabbitmq@"),
        ("artemis:external=outside.toml", "its owner configures it"),
        ("rabbitmq", "line 1 is not `key = value`"),
    ],
)
def test_a_broker_that_cannot_says_so(tmp_path, spec, words, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "outside.toml").write_text('urls = { amqp = "amqp://127.0.0.1:1" }\ncreates_queues = true\n')
    (tmp_path / "broker.xml").write_text(SMALL)

    with pytest.raises(UsageError, match=words):
        opening.with_configuration(adapters.find(spec), tmp_path / "broker.xml")
    with pytest.raises(UsageError, match="there is no such file or folder"):
        opening.with_configuration(ARTEMIS, tmp_path / "nothing")


LOGIN_OF_A_USER = """activemq {
   org.apache.activemq.artemis.spi.core.security.jaas.PropertiesLoginModule required
       org.apache.activemq.jaas.properties.user="artemis-users.properties"
       org.apache.activemq.jaas.properties.role="artemis-roles.properties";
};
"""

LOGIN = "activemq {\n   org.apache.activemq.artemis.spi.core.security.jaas.PropertiesLoginModule required;\n};\n"


def test_only_named_files_are_taken_and_others_are_listed(tmp_path):
    (tmp_path / "etc").mkdir()
    for name, text in {
        "broker.xml": SMALL,
        "login.config": LOGIN,
        "artemis-users.properties": "alice = s3cret",
        "log4j2.properties": "x",
    }.items():
        (tmp_path / "etc" / name).write_text(text)
    mine = opening.with_configuration(ARTEMIS, tmp_path)  # the folder of an instance will do
    own = mine.own

    assert {"etc/login.config", "etc/artemis-users.properties"} == own.beside.keys()
    assert ("log4j2.properties",) == own.not_taken
    assert "left where they are: log4j2.properties" in own.summary(mine.file, mine.effective())
    assert "s3cret" not in "\n".join(own.summary(mine.file, mine.effective()))
    public = own_configuration.public(
        mine.file, {**own.beside, "etc/broker.xml": b"<a><cluster-password>s3cret</cluster-password></a>"}
    )
    assert {"etc/broker.xml"} == public.keys()
    assert b"s3cret" not in public["etc/broker.xml"]


@pytest.mark.parametrize(
    "module", ["LDAPLoginModule", "Krb5LoginModule", "KeycloakDirectAccessLoginModule", "com.sun.LdapLoginModule"]
)
def test_a_login_that_asks_another_server_is_refused(tmp_path, module):
    (tmp_path / "broker.xml").write_text(SMALL)
    own, package = "PropertiesLoginModule", "org.apache.activemq.artemis.spi.core.security.jaas."
    login = LOGIN.replace(f"{package}{own}", module) if "." in module else LOGIN.replace(own, module)
    (tmp_path / "login.config").write_text(login)

    with pytest.raises(UsageError, match=f"login.config: .*{module}: .+ take it out of a copy of the folder"):
        opening.with_configuration(ARTEMIS, tmp_path)


# RabbitMQ's advanced.config.

ADVANCED = {
    "tcp": "[{rabbit, [{tcp_listeners, [5672]}]}].",
    "quoted": "[{rabbit, [{ 'ssl_listeners' , [5671]}]}].",
    "management": "[{rabbitmq_management, [{tcp_config,\n [{port,\n 15672}]}]}].",
    "distribution": "[{kernel, [{inet_dist_listen_min, 25672}]}].",
    "mnesia": '[{mnesia, [{dir, "/srv/rabbit"}]}].',
    "log": '[{rabbit, [{log, [{file, [{file, "/var/log/rabbit.log"}]}]}]}].',
    "nodes": "[{rabbit, [{cluster_nodes, {['rabbit@a'], disc}}]}].",
    "shovel": '[{rabbitmq_shovel, [{shovels, [{s, [{sources, [{broker, "x"}]}]}]}]}].',
    "definitions": '[{rabbit, [{load_definitions, "/etc/rabbitmq/d.json"}]}].',
    "backends": "[{rabbit, [{auth_backends, [my_own]}]}].",
    "user": '[{rabbit, [{default_user, <<"alice">>}]}].',
    "syslog": "[{syslog, [{dest_host, prod}]}].",
    "exchange": "[{rabbit, [{log, [{exchange, [{enabled, true}]}]}]}].",
    "prefix": '[{rabbitmq_management, [{path_prefix, "/r"}]}].',
    "proxy": "[{rabbit, [{proxy_protocol, true}]}].",
    "address": '[{my_plugin, [{"100%", x}, {peer, "amqp://prod.example"}]}].',
}
"""A term for each refusal; the last stands behind a mark of comments that begins none."""


def with_advanced(text: str, tmp_path: pathlib.Path):
    """The adapter with such a folder."""
    (tmp_path / "rabbitmq.conf").write_text("channel_max = 9\n")
    (tmp_path / "advanced.config").write_text(text)
    return opening.with_configuration(RABBITMQ, tmp_path)


@pytest.mark.parametrize("name", ADVANCED)
def test_a_term_that_a_copy_would_share_or_talk_by_is_refused(tmp_path, name):
    with pytest.raises(UsageError, match=r"--config \S+: .*\s*advanced.config: line 1: .+: .+") as caught:
        with_advanced(ADVANCED[name], tmp_path)
    lines = str(caught.value).splitlines()
    assert 3 == len(lines) if name == "management" else "; take it out of a copy of the folder" in lines[0]


def test_every_refusal_of_terms_has_a_case():
    (rules,) = RABBITMQ.file.config.beside
    caught = {next(one for one in rules.refuses if re.search(one, text)) for text in ADVANCED.values()}

    assert caught == rules.refuses.keys()


def test_terms_that_do_no_harm_are_carried_along_and_said(tmp_path):
    """Comments are not looked at; the file is run as it is, and the difference names it."""
    text = '[{rabbit, [ %% {tcp_listeners, [5672]}, "\n  {tcp_listen_options, [{backlog, 9}]},\n  {x, $"} %{port, 1}\n]}].\n'
    mine = with_advanced(text, tmp_path)
    own = mine.own
    shown = own.preview(mine.file, mine.effective())

    assert {"advanced.config": text.encode()} == own.beside
    assert "# advanced.config (yours): run as it is, as advanced.config" in shown
    assert shown.splitlines()[-1] in own.summary(mine.file, mine.effective())
    alone = opening.with_configuration(RABBITMQ, tmp_path / "rabbitmq.conf").own
    assert "advanced.config" not in alone.preview(mine.file, mine.effective())


# In a container.


def test_in_a_container_a_copy_listens_on_every_address_of_it(tmp_path):
    (tmp_path / "broker.xml").write_text(SMALL)
    mine = opening.with_configuration(adapters.find("artemis:docker"), tmp_path / "broker.xml")

    assert [line for line in added(mine) if line.startswith("+<acceptor")] == [
        '+<acceptor name="all">tcp://0.0.0.0:{main_port}?protocols=AMQP,STOMP,CORE;amqpCredits=7</acceptor>'
    ]
    assert DockerLauncher().recipe(mine.source).source.own is mine.own
    assert "127.0.0.1:{main_port}" in "".join(added(own_of(SMALL, tmp_path)))  # natively


def test_files_that_a_configuration_names_are_given_to_its_container(tmp_path):
    """Key stores that are here; no folder, nothing of the image's own, and nothing that is not there."""
    store = tmp_path / "keys" / "broker.ks"
    store.parent.mkdir()
    store.write_bytes(b"k")
    text = SMALL.replace(
        "amqpCredits=7",
        f"sslEnabled=true;keyStorePath={store};trustStorePath=/nowhere.ks;x=/usr/bin/env;y={store.parent};z=a{store}",
    )

    assert [store] == own_of(text, tmp_path).own.outside
    assert [] == own_of(SMALL, tmp_path).own.outside


# A run.


def stock_etc(tmp_path: pathlib.Path) -> pathlib.Path:
    """The folder `etc` of what `artemis create` makes."""
    java = str(find_java(17).home)
    words = {"home": str(ARTEMIS.install()), "instance": str(tmp_path / "made"), "java_home": java}
    make_instance(BrokerSource(ARTEMIS.file, ARTEMIS.path.parent, ARTEMIS.version, ARTEMIS.install()), words)
    return tmp_path / "made" / "etc"


def conditions(run: campaign.Campaign) -> dict[str, str]:
    """Of every claim, which condition is not met: what makes it not apply."""
    found = run.selection.settings
    return {name: unmet(claim.when, found.values, found.absent) for name, claim in run.catalogue.claims.items()}


@pytest.mark.artemis
def test_a_stock_file_is_stock_and_an_unsynced_one_gives_up_what_the_setting_gives_up(tmp_path):
    etc = stock_etc(tmp_path)
    stock, same = (prepare(Options("artemis", config=config, seed=1)) for config in (None, etc))
    text = (etc / "broker.xml").read_text()
    key = "<journal-sync-non-transactional>false</journal-sync-non-transactional>"
    (etc / "broker.xml").write_text(text.replace("<journal-datasync>", f"{key}<journal-datasync>"))
    mine = prepare(Options("artemis", config=etc, seed=1))
    typed = prepare(Options("artemis", settings=["sync_non_transactional=false"], seed=1))

    assert stock.selection.settings == same.selection.settings
    assert conditions(stock) == conditions(same)
    assert [trial.id for trial in stock.trials] == [trial.id for trial in same.trials]
    assert conditions(typed) == conditions(mine) != conditions(stock)
    assert "sync_non_transactional is false, the claim needs true" in conditions(mine).values()
    assert [trial.id for trial in typed.trials] == [trial.id for trial in mine.trials]
    assert ({}, {"sync_non_transactional": False}) == (
        mine.selection.settings.changed,
        typed.selection.settings.changed,
    )
    assert f"--config {etc}" in campaign.command(mine)


@pytest.mark.artemis
def test_a_copy_runs_beside_the_original_and_touches_nothing_of_its(tmp_path, ledger):
    """Absolute folders of a production broker, its ports on all interfaces, and a login."""
    production = tmp_path / "production"
    production.mkdir()
    etc = stock_etc(tmp_path)
    text = (etc / "broker.xml").read_text().replace(">data/", f">{production}/")
    (etc / "broker.xml").write_text(text)
    assert 4 <= text.count(str(production))
    mine = opening.with_configuration(ARTEMIS, etc)

    with mine.prepare(tmp_path / "broker", mine.effective(), ["orders"], ledger) as broker:
        broker.start()
        readiness_probe.ProbeClient(mine, "amqp").exchange(broker, "orders")
        readiness_probe.depth_of(broker, "orders", wanted=0)
        assert (broker.journal / "activemq-data-1.amq").is_file()
    ran = (tmp_path / "broker/instance/etc/broker.xml").read_text()
    diff = (tmp_path / "broker/config.diff").read_text()

    assert [] == [*production.iterdir()]
    assert [] == [one.name for one in XmlText(ran.encode()).root.every() if str(production) in one.text]
    assert "0.0.0.0:" not in ran
    assert f'+         <acceptor name="artemis">tcp://127.0.0.1:{broker.endpoint("amqp")[1]}?' in diff
    assert '+         <address name="orders">' in diff
    assert (text, 0o600) == (
        (etc / "broker.xml").read_text(),
        (broker.folder / "instance/etc/broker.xml").stat().st_mode & 0o777,
    )


@pytest.mark.artemis
def test_the_login_of_the_copy_is_the_users_and_a_refusal_names_the_next_step(tmp_path, ledger, monkeypatch):
    etc = stock_etc(tmp_path)
    (etc / "login.config").write_text(LOGIN_OF_A_USER)
    (etc / "artemis-users.properties").write_text("alice = wonderland\n")
    (etc / "artemis-roles.properties").write_text("amq = alice\n")
    monkeypatch.setenv("OF_ALICE", "wonderland")
    mine = opening.with_configuration(ARTEMIS, etc)
    alice = opening.with_credentials(mine, Access(user="alice", password=Secret(env="OF_ALICE")))

    with alice.prepare(tmp_path / "broker", alice.effective(), ["orders"], ledger) as broker:
        broker.start()
        readiness_probe.ProbeClient(alice, "amqp").exchange(broker, "orders")
        broker.plan = dataclasses.replace(broker.plan, source=dataclasses.replace(broker.plan.source, file=mine.file))
        with pytest.raises(ClientError, match=r"unauthorized-access.*; give a login .--user with --password-env"):
            readiness_probe.ProbeClient(mine, "amqp").exchange(broker, "orders")


@pytest.mark.artemis
def test_a_file_that_the_broker_refuses_is_an_error_with_its_log(tmp_path, ledger):
    mine = own_of(core("<journal-min-files>few</journal-min-files>"), tmp_path)

    broker = mine.prepare(tmp_path / "broker", mine.effective(), [], ledger)
    with broker, pytest.raises(LaunchError, match="own configuration") as told:
        broker.start()
    assert any("few" in line for line in told.value.log_tail)


@pytest.fixture(scope="module")
def recorded_once(tmp_path_factory):
    """The folder of a run with a configuration and a login, as far as its records go; what was given is gone."""
    given, out = (tmp_path_factory.mktemp(name) for name in ("given", "run"))
    (given / "broker.xml").write_text(core("<journal-type>NIO</journal-type>").replace(">true</", ">false</"))
    (given / "login.config").write_text(LOGIN)
    run = dataclasses.replace(prepare(Options("artemis", config=given, seed=1)), folder=out)
    records.save(campaign.run_record(run), out / "run.json")
    trial = next(one for one in run.trials if one.arm == "subject" and one.script.id == NAME)
    (out / "trials" / trial.id).mkdir(parents=True)
    records.save(describe(trial), out / "trials" / trial.id / "trial.json")
    shutil.rmtree(given)
    return out


@pytest.fixture
def recorded(recorded_once, tmp_path):
    """A copy of that folder, which the test may change."""
    return shutil.copytree(recorded_once, tmp_path / "run")


def test_a_run_keeps_what_it_was_given_for_its_owner(recorded):
    modes = {path.name: path.stat().st_mode & 0o777 for path in [recorded / "config", *(recorded / "config").iterdir()]}
    record = records.read(recorded / "run.json", records.RunRecord)

    assert {"config": 0o700, "broker.xml": 0o600, "login.config": 0o600} == modes
    assert "+      <journal-directory>data/journal</journal-directory>" in record.configuration
    assert record.configuration == (recorded / "config.diff").read_text()


def test_a_replay_finds_what_the_run_kept(recorded):
    prepared = replay.prepare(ReplayRequest(recorded, NAME, "1", trust=True))
    own = prepared.campaign.adapter.own

    assert (False, {}) == (prepared.campaign.selection.settings.values["sync_transactional"], {})
    assert ({"etc/login.config": LOGIN.encode()}, "broker.xml") == (own.beside, own.name)
    assert any(str(recorded / "config") in note for note in prepared.notes)


def test_a_replay_of_a_copy_that_was_edited_since_is_refused(recorded):
    kept = recorded / "config" / "broker.xml"
    kept.write_text(kept.read_text().replace(">false</", ">true</"))

    with pytest.raises(UsageError, match="sync_transactional was false in the run and would be true"):
        replay.prepare(ReplayRequest(recorded, NAME, "1", trust=True))


@pytest.mark.artemis
def test_a_bundle_has_no_login_file_and_no_secret(recorded, tmp_path):
    broker, etc = tmp_path / "01-artemis", tmp_path / "01-artemis" / "instance" / "etc"
    etc.mkdir(parents=True)
    for name in ("login.config", "artemis-users.properties"):
        (etc / name).write_text("alice = s3cret")
    (etc / "broker.xml").write_text("<a><cluster-password>s3cret</cluster-password></a>")
    trial = SimpleNamespace(folder=recorded, broker=broker, adapter=ARTEMIS, record=SimpleNamespace(settings={}))
    contents = Contents()
    add_configuration(trial, contents)
    files = {name.removeprefix("configuration/"): data for name, data in contents.members.items()}

    assert {"effective/etc/broker.xml"} == {name for name in files if name.startswith("effective/")}
    assert [] == [name for name, data in files.items() if b"s3cret" in data]


def test_a_report_shows_the_difference(recorded):
    record = records.read(recorded / "run.json", records.RunRecord)
    page = html.page(
        Judgement(run=record, rows=(), self_checks=(), trials=()), claims.load(), scenario.load(claims.load())
    )

    assert "journal-directory&gt;data/journal&lt;/journal-directory" in page
    assert "as your configuration says" in page
    assert "Difference from your own configuration" in page
    assert "as it is delivered" not in page


def test_the_command_shows_it_at_the_start_and_refuses_in_one_line(typed, tmp_path):
    (tmp_path / "broker.xml").write_text(core("<bridges><bridge name='b'/></bridges>"))
    made = typed("run", "--adapter", "artemis", "--config", "broker.xml", "--out", "run")

    assert 4 == made.returncode
    assert (
        "--config broker.xml: line 7: bridges: a copy would move messages to other brokers; take it out" in made.stderr
    )
    assert not (tmp_path / "run").exists()


# The page.

PAGE = (paths.root() / "docs/how-to/own-configuration.md").read_text()


def block(kind: str) -> str:
    """The first block of the page of that kind."""
    return PAGE.split(f"```{kind}\n")[1].split("```")[0]


def test_the_difference_of_the_page_is_what_is_printed(tmp_path):
    mine = own_of(block("xml"), tmp_path)

    assert block("diff") == mine.own.preview(mine.file, mine.effective())


def test_the_settings_of_the_page_are_those_that_are_read(tmp_path):
    settings = own_of(block("xml"), tmp_path).effective()
    shown = re.findall(r"^\| `(\w+)` \| (absent: )?(\w+) \|$", PAGE, re.MULTILINE)

    assert 5 == len(shown)
    for name, absent, value in shown:
        assert (value, bool(absent)) == (
            str(settings.values[name]).replace("F", "f").replace("T", "t"),
            name in settings.absent,
        )


def test_the_error_of_the_page_is_what_is_said(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broker.xml").write_text(core(element("cluster-connections")))

    with pytest.raises(UsageError) as told:
        opening.with_configuration(ARTEMIS, pathlib.Path("broker.xml"))
    assert f"conformance: {told.value}\n" in PAGE


def test_the_command_lines_of_the_page_are_known():
    lines = [shlex.split(line) for line in PAGE.splitlines() if line.startswith("conformance run")]

    assert 5 == len(lines)
    for words in lines:
        params = cli.commands["run"].make_context("run", words[2:]).params
        assert all(adapters.find(name).file.config is not None for name in params["adapter"])
        assert params["config"].is_absolute()


def test_the_table_of_the_page_is_one_and_shows_every_key():
    table = tomllib.loads(block("toml"))["config"]
    read = Config.model_validate(table)

    assert "keys" == read.format
    assert set(Config.model_fields) - {"listeners"} == set(table)
    assert set(Rewrite.model_fields) == {*table["rewrite"][0], *table["rewrite"][1]}
    assert set(Refuse.model_fields) == set(table["refuses"][0])
    assert set(Beside.model_fields) == set(table["beside"][0])
    assert [] == [name for name in Listeners.model_fields if f"`{name}`" not in PAGE]


NEEDS_RABBITMQ = pytest.mark.skipif(
    bool(fetch.not_installed(RABBITMQ.file)), reason=fetch.not_installed(RABBITMQ.file) or "-"
)


def overview(broker) -> str:
    """What a running RabbitMQ says of itself."""
    url = f"http://guest:guest@127.0.0.1:{broker.service.endpoint('http')[1]}/api/overview"
    return web.ask("GET", url, timeout_s=10)[1]


@pytest.mark.process
@NEEDS_RABBITMQ
def test_a_copy_of_rabbitmqs_keys_runs(tmp_path, ledger):
    """Its ports and its log are those of the copy; what it says of the broker itself is in force."""
    log = tmp_path / "production.log"
    text = f"listeners.tcp.default = 5672\nlog.file = {log}\nmanagement.rates_mode = detailed\nstomp.default_user = guest\n"
    mine = own_of(f"{text}stomp.default_pass = guest\nprometheus.tcp.port = 15692\n", tmp_path, RABBITMQ)

    with mine.prepare(tmp_path / "broker", mine.effective(), ["orders"], ledger) as broker:
        broker.start()
        for protocol in ("amqp", "stomp"):
            readiness_probe.ProbeClient(mine, protocol).exchange(broker, "orders")
        listening = {number for _, number in ports.listening(broker.processes())}
        said = overview(broker)
    assert not log.exists()
    assert not listening & {5672, 61613, 15672, 15692}
    assert '"rates_mode":"detailed"' in said


@pytest.mark.full
@NEEDS_RABBITMQ
def test_a_copy_of_rabbitmqs_terms_is_in_force(tmp_path, ledger):
    """What an advanced.config says is what the broker runs with; without the file it is not."""
    (tmp_path / "etc").mkdir()
    mine = with_advanced(
        "[{rabbit, [{channel_max, 7}]}, {rabbitmq_management, [{rates_mode, detailed}]}].", tmp_path / "etc"
    )

    with mine.prepare(tmp_path / "broker", mine.effective(), ["orders"], ledger) as broker:
        broker.start()
        readiness_probe.ProbeClient(mine, "amqp").exchange(broker, "orders")
        said = overview(broker)
    alone = opening.with_configuration(RABBITMQ, tmp_path / "etc" / "rabbitmq.conf")
    with alone.prepare(tmp_path / "alone", alone.effective(), ["orders"], ledger) as broker:
        broker.start()
        without = overview(broker)

    assert '"rates_mode":"detailed"' in said
    assert '"rates_mode":"basic"' in without


def test_a_queue_may_be_declared_as_a_copy():
    """Of everything that is sent to an address."""
    rules = Xml(file="f", queues_at="a", queue="<q n='{queue}'/>", copy_of="<c n='{queue}' of='{address}'/>")
    made = XmlText(b"<x><a/></x>").with_queues(rules, ["r", "s<"], {}, {"s<": "r&"})

    assert b"<q n='r'/>\n<c n='s&lt;' of='r&amp;'/>" in made.data
