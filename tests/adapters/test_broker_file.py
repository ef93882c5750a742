"""Reading a broker.toml: each mistake names its field and what was expected, and all of them are reported at once."""

from __future__ import annotations

import copy
import pathlib
import tomllib
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conformance import paths
from conformance.adapters.file.launch_tables import External
from conformance.adapters.file.reading import TEXTS, _at, _unknown_placeholders, check_external, load, read_table
from conformance.adapters.file.table import read_file
from conformance.errors import UsageError

TOML = """
name = "mine"
title = "Mine"
vendor = "me"
default_version = "1.0"
capabilities = []
ports = ["amqp", "http"]
[protocols.amqp]
port = "amqp"
[settings.level]
type = "int"
default = 3
stock = 3
description = "its key is filled in"
[settings.sync]
type = "bool"
default = true
argument = ["--sync", "{value}"]
off_with = { before = "2", settings = { level = 1 } }
description = "its key can be absent"
[settings.profile]
type = "word"
default = "plain"
argument = ["{value}"]
description = "chooses a variant"
[settings.kind]
type = "word"
default = "now"
fixed = true
description = "has choices"
[settings.kind.choices]
now = {}
late = { without = ["sync"], requires = { level = 3 }, stored = { files = "*", pattern = '{queue}\\x00' } }
[variants.fancy]
description = "adds a setting"
[variants.fancy.settings.window]
type = "int"
default = 50
argument = ["{value}"]
description = "of the variant only"
[template]
files = [{ file = "broker.conf", when = { kind = "late" } }]
[fetch]
folder = "mine-{version}"
[[fetch.jars."1.0"]]
maven = "org.example:core:1.0"
sha512 = "SUM"
[[fetch.jars."1.0"]]
maven = "org.example.store:store:7"
sha512 = "SUM"
[start]
command = ["{python}", "--amqp={amqp_port}"]
environment = { LEVEL = "{setting.level}" }
[queues]
url = "http://127.0.0.1:{http_port}/{queue}"
[depth]
method = "http"
url = "http://127.0.0.1:{http_port}/{queue}"
field = "depth"
[data]
path = "{instance}/data"
[journal]
path = "{instance}/data"
[deviations]
"--sync" = "said aloud"
[config]
file = "broker.xml"
to = "etc/broker.xml"
format = "xml"
keeps = ["--sync"]
[config.listeners]
at = "acceptor"
speaks = { amqp = "AMQP" }
why = "ports"
[access]
user = "alice"
password = { env = "SECRET" }
""".replace("SUM", "0" * 128)
FILE = tomllib.loads(TOML)
HERE = pathlib.Path("/nowhere")


def changed(data: dict[str, Any], at: str, value: Any) -> dict[str, Any]:
    """A copy with that value at a path of keys; None removes the key."""
    made = copy.deepcopy(data)
    *above, key = at.split("/")
    table: Any = made
    for step in above:
        table = table[int(step)] if isinstance(table, list) else table.setdefault(step, {})
    place: Any = int(key) if isinstance(table, list) else key
    if value is None:
        del table[place]
    else:
        table[place] = value
    return made


def errors(data: dict[str, Any]) -> list[str]:
    """The lines of the error, without the list of known words."""
    with pytest.raises(UsageError) as caught:
        read_table(data, HERE)
    return [line.strip().partition(" known:")[0] for line in str(caught.value).splitlines()]


def test_the_file_itself_is_right() -> None:
    assert read_table(FILE, HERE).start.ready_ports == ("amqp",)


TYPES = [
    ("start/command", "./run.sh", "start.command: Input should be a list, in brackets"),
    ("start/command", [], "start.command: List should have at least 1 item"),
    ("start/ready_s", True, "start.ready_s: Input should be a valid number"),
    ("start/stop_s", 0, "start.stop_s: Input should be greater than 0"),
    ("start/stop_signal", "TERM", "start.stop_signal: Input should be 'SIGTERM'"),
    ("start/ready_log", "(open", "start.ready_log: '(open' is not a regular expression: missing )"),
    ("start/ready_http", {"url": "http://x/", "field": "x"}, "start.ready_http: field and value belong together"),
    ("start/redy_http", "http://x/", "start: unknown key 'redy_http': did you mean 'ready_http'?"),
    ("defualt_version", "1", "unknown key 'defualt_version': did you mean 'default_version'?"),
    ("vendor", None, "vendor: Field required"),
    ("variants/fancy/ack_modus", {}, "variants.fancy: unknown key 'ack_modus': did you mean 'ack_modes'?"),
    ("settings/level/default", True, "settings.level: True is not of type int"),
    ("settings/kind/default", "never", "settings.kind: 'never' is not one of its choices: now, late"),
    (
        "settings/kind/choices/late/stored/pattern",
        "(",
        "settings.kind.choices.late.stored.pattern: '(' is not a regular",
    ),
    (
        "settings/kind/choices/late/stored/files",
        "../*",
        "settings.kind.choices.late.stored.files: '../*' is not inside",
    ),
    ("settings/kind/words", ["x"], "settings.kind: choices need type word, and a setting has either choices or words"),
    ("template/files/0/file", "/etc/x", "template.files.0.file: '/etc/x' is not inside the folder"),
    ("template/files/0/why", "x", "template.files.0: a file with `when` takes no `why`"),
    ("queues/method", "command", "queues: expected url with method http, or command with method command"),
    ("queues/options", {"a": "b"}, "queues: options replace {options}, which neither body nor command has"),
    ("fetch/folder", "mine", "fetch: the jars of two versions need two folders"),
    ("fetch/artifact", "core", "fetch: expected artifact and groups for an archive, or jars, or both"),
    ("fetch/groups", [{"since": "0", "group": "org"}], "fetch: expected artifact and groups for an archive"),
    ("fetch/sha512", {"1.0": "0" * 128}, "fetch: sha512 pins an archive; each of the jars has a sum of its own"),
    ("fetch/added", {"1.0": []}, "fetch: added goes into the folder of an archive"),
    ("fetch/jars/1.0/1/maven", "org.example:core:1.0", "fetch: jars.1.0: twice in one folder: core-1.0.jar"),
    ("fetch/jars/1.0/0/maven", "org.example:core", "fetch.jars.1.0.0.maven: String should match pattern"),
    ("fetch/jars/1.0/0/sha512", "g" * 128, "fetch.jars.1.0.0.sha512: String should match pattern"),
    ("config/format", "json", "config.format: Input should be 'xml' or 'keys'"),
    ("config/format", "keys", "config: listeners need format xml; a file of keys has rewrite"),
    ("config/rewrite", [{"at": "a", "add": True, "why": "x"}], "config.rewrite.0: add needs a text"),
    ("config/rewrite", [{"at": "*", "text": "x", "add": True, "why": "x"}], "config.rewrite.0: add needs a text"),
    ("access/pasword", {}, "access: unknown key 'pasword': did you mean 'password'?"),
    ("access/password", "hunter2", "access.password: Input should be a valid dictionary"),
    ("access/password", {"env": "A", "file": "B"}, "access.password: expected either env or file"),
    ("access/password", {}, "access.password: expected either env or file"),
    ("access/mechanism", "DIGEST-MD5", "access.mechanism: Input should be 'ANONYMOUS'"),
    ("access/tls", {"ca": "{instance}/x"}, "access: {instance}/x: {instance} is unknown; this table knows only {here}"),
    ("access/stomp", {"mechanism": "PLAIN"}, "access: stomp has no SASL"),
    ("installed", {"command": ["x"], "needs": "x", "pattern": "1"}, "installed.pattern: '1' needs one group"),
]
"""Errors of one table."""

REFERENCES = [
    ("protocols/amqp/port", "amqps", "protocols.amqp.port: unknown port 'amqps': did you mean 'amqp'?"),
    ("start/ready_port", ["amqp", "htpt"], "start.ready_port: unknown port 'htpt': did you mean 'http'?"),
    ("container", {"images": [], "ports": {"amp": 1}}, "container.ports: unknown port 'amp': did you mean 'amqp'?"),
    ("settings/kind/follows", "snc", "settings.kind.follows: unknown setting 'snc': did you mean 'sync'?"),
    ("settings/kind/choices/late/without", ["levl"], "settings.kind.choices.late.without: unknown setting 'levl'"),
    ("settings/kind/choices/late/requires", {"levl": 1}, "settings.kind.choices.late.requires: unknown setting 'levl'"),
    ("settings/sync/off_with/settings", {"levl": 1}, "settings.sync.off_with.settings: unknown setting 'levl'"),
    (
        "settings/sync/off_with/settings/level",
        "x",
        "settings.sync.off_with.settings.level: 'x' is not a value of the setting level: expected int",
    ),
    ("template/files/0/when", {"knd": "x"}, "template.files.0.when: unknown setting 'knd': did you mean 'kind'?"),
    (
        "template/files/0/when/kind",
        "x",
        "template.files.0.when.kind: 'x' is not a value of the setting kind: expected 'now' or 'late'",
    ),
    (
        "policies",
        {"method": "http", "present": "x", "fields": {"levl": ["x"]}},
        "policies.fields: unknown setting 'levl': did you mean 'level'?",
    ),
    ("alarms", {"memory": {"method": "http", "url": "http://host/"}}, "alarms.memory.pattern: "),
    (
        "alarms",
        {"memory": {"method": "http", "url": "http://{queue}/", "pattern": "x"}},
        "alarms.memory.url: unknown placeholder 'queue'",
    ),
    ("policies", {"method": "http"}, "policies.fields: required: without it no policy is read from the answer"),
    ("config/listeners/speaks", {"mqtt": "MQTT"}, "config.listeners.speaks: unknown protocol 'mqtt'"),
    ("config/keeps", ["--snc"], "config.keeps: unknown deviation '--snc': did you mean '--sync'?"),
    ("depth", None, "depth: required: without it the suite cannot tell an empty queue from a stuck one"),
    ("settings/level/xml", "core/level", "settings.level.xml: this is a place in the file of [xml], which is missing"),
    ("versions", ["1.1"], "fetch.jars: expected the jars of every version of the file, and 1.1 has none"),
    ("start/queue_options", ["durable"], "start.queue_options: these are words of start.each_queue, which is missing"),
    ("settings/profile/type", "text", "variants: they are chosen by a setting profile of type word, which is missing"),
    ("variants/fancy/settings/sync", FILE["settings"]["sync"], "variants.fancy.settings.sync: the broker has this"),
    ("settings/sync/argument", [], "settings.sync: expected xml, argument, follows or fixed = true, or {setting.sync}"),
    ("variants/fancy/settings/window/argument", [], "variants.fancy.settings.window: expected xml, argument, follows"),
    ("settings/level/stock", None, "settings.level: {setting.level} is always filled, so the key is never absent"),
]
"""Errors between tables."""


@pytest.mark.parametrize(("at", "value", "expected"), [*TYPES, *REFERENCES])
def test_a_mistake_names_its_field_and_brings_no_second_error(at: str, value: Any, expected: str) -> None:
    (line,) = errors(changed(FILE, at, value))

    assert line.startswith(expected)
    assert "hunter2" not in line


EXTERNAL = {"remove": {"url": "x"}, "depth": {"method": "http"}, "declare": {"command": ["x"]}, "kill": {}}


@pytest.mark.parametrize("path", TEXTS)
def test_every_text_knows_its_placeholders_and_no_other(path: str) -> None:
    """`{quee}` is unknown everywhere, and `{queue}` and the like in most places."""
    at = path.replace("*", "x").replace(".", "/")
    for step in at.split("/"):
        at = at.replace(step, step.split("|")[0])
    text = "".join(f"{{{word}}}" for word in (*TEXTS[path], "python", "http_port", "setting.level", "setting.window"))
    data = changed({**FILE, "external": EXTERNAL}, "template/files", []) if "external" in at else copy.deepcopy(FILE)
    for table in ("config/rewrite", "xml/edits"):
        if at.startswith(table):
            data = changed(data, f"{table}/x", {})
    right, wrong = (changed(data, at, value) for value in (text, text + "{quee}"))
    (line,) = _unknown_placeholders(wrong)

    assert [] == [*_unknown_placeholders(right)]
    assert line.startswith(f"{at.replace('/', '.')}: unknown placeholder 'quee': ")
    assert ("did you mean 'queue'" in line) == ("queue" in TEXTS[path])


def test_five_mistakes_of_both_kinds_are_reported_at_once(tmp_path: pathlib.Path) -> None:
    """Two of types, three of references; the file is named once, and each line has its field."""
    file = tmp_path / "broker.toml"
    broken = TOML.replace('port = "amqp"', 'port = "htpp"').replace("[start]\n", "[start]\nredy_s = 3\n")
    broken = (
        broken.replace("{amqp_port}", "{amqp_prot}").replace('vendor = "me"\n', "").replace("level = 3 }", "lvl = 3 }")
    )
    file.write_text(broken)

    with pytest.raises(UsageError) as caught:
        load(file)
    assert [line.partition(" known:")[0] for line in str(caught.value).splitlines()] == [
        f"{file}: 5 errors",
        "  vendor: Field required",
        "  start: unknown key 'redy_s': did you mean 'ready_s'?",
        "  protocols.amqp.port: unknown port 'htpp': did you mean 'http'?",
        "  settings.kind.choices.late.requires: unknown setting 'lvl': did you mean 'level'?",
        "  start.command: unknown placeholder 'amqp_prot': did you mean 'amqp_port'?",
    ]


def test_a_file_of_which_little_is_right_reports_each_mistake_once(tmp_path: pathlib.Path) -> None:
    """A misspelt key is not missing as well, and a value of several types is one mistake."""
    file = tmp_path / "mine.toml"
    file.write_text(
        'name = "x"\ntitel = "X"\nports = "amqp"\n[start]\nredy_s = 3\n[settings.a]\ntype = "bool"\ndefault = 1.5\n'
        '[protocols.amqp]\nport = "amqp"\n'
    )

    with pytest.raises(UsageError) as caught:
        load(file)
    assert [line.strip().partition(" known:")[0] for line in str(caught.value).splitlines()[1:]] == [
        "vendor: Field required",
        "default_version: Field required",
        "capabilities: Field required",
        "ports: Input should be a list, in brackets",
        "settings.a.default: Input should be a valid boolean",
        "settings.a.description: Field required",
        "start.command: Field required",
        "start: unknown key 'redy_s': did you mean 'ready_s'?",
        "journal: Field required",
        "data: Field required",
        "unknown key 'titel': did you mean 'title'?",
        "depth: required: without it the suite cannot tell an empty queue from a stuck one",
        "settings.a: expected xml, argument, follows or fixed = true, or {setting.a} in a text",
    ]


BUNDLED = [FILE, *(tomllib.loads(file.read_text()) for file in sorted(paths.fixtures().glob("brokers/*/broker.toml")))]


def every_place(value: Any, at: str = "") -> list[str]:
    """Each path of keys of a file."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = [(f"{at}/{key}" if at else str(key), inner) for key, inner in items]
    return [place for path, inner in found for place in (path, *every_place(inner, path)) if place.count("/") < 5]


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(data=st.data())
def test_any_other_value_anywhere_is_accepted_or_a_usage_error(data: st.DataObject) -> None:
    """A check that trusts a value whose type is wrong would end with a traceback."""
    file = data.draw(st.sampled_from(BUNDLED))
    at = data.draw(st.sampled_from([place for place in every_place(file) if "." not in place.split("/")[-1]]))
    junk = st.sampled_from([0, -1, True, 1.5, "", "x", "{x}", [], ["x"], [1], {}, {"x": 1}, {"x": {"x": []}}, [[]]])

    try:
        read_table(changed(file, at, data.draw(junk)), HERE)
    except UsageError as error:
        assert str(error)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('kil = ["x"]', "unknown key 'kil': did you mean 'kill'?"),
        ('pause = ["x"]', "file: pause and resume belong together"),
        ('queues = ["one"]', "file: queues needs at least two different ones"),
        ('queues = ["a", "a"]', "file: queues needs at least two different ones"),
        ("kill = { command = [] }", "kill.command: List should have at least 1 item"),
        ('creates_queues = true\nqueues = ["a", "b"]', "file: expected one of declare, creates_queues and queues"),
        ("drain_queues = true", "file: drain_queues needs existing queues"),
        ("=", "not TOML: "),
    ],
)
def test_a_file_of_an_external_broker_names_its_mistake(tmp_path: pathlib.Path, text: str, expected: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text)

    with pytest.raises(UsageError) as caught:
        read_file(file, External)
    assert str(caught.value).startswith(f"{file}: {expected}")


def test_the_rules_of_an_external_broker_are_checked_against_its_file(tmp_path: pathlib.Path) -> None:
    """A command and a request have other placeholders; both mistakes are reported."""
    (tmp_path / "a.toml").write_text(
        'kill = ["x", "{queue}"]\nsettings = { lvl = 1 }\n[remove]\nurl = "{queue}:{http_port}"'
    )

    with pytest.raises(UsageError) as caught:
        check_external(read_table(FILE, HERE), read_file(tmp_path / "a.toml", External))
    assert [line.strip().partition(":")[0] for line in str(caught.value).splitlines()] == [
        "2 errors",
        "external.kill.command",
        "external.settings",
    ]


def test_a_path_of_keys_leads_to_values() -> None:
    assert [("a.0.b", 1), ("a.1.c", 2)] == _at({"a": [{"b": 1, "d": 4}, {"c": 2}], "e": None}, "a.*.b|c")


# what is different from a version on


def test_a_later_version_is_laid_over_the_file() -> None:
    since = {"2": {"settings": {"level": {"default": 4}}}, "10.1": {"title": "Ten", "ports": ["amqp", "http", "more"]}}
    read = read_table({**FILE, "since": since}, HERE)
    levels = [read.at(version).settings["level"].default for version in ("1.9", "2", "10.0", "10.1")]

    assert levels == [3, 4, 4, 4]
    assert [read.at(version).title for version in ("10.0", "10.1")] == ["Mine", "Ten"]
    assert read.at("10.1").ports == ("amqp", "http", "more")
    assert read.at("2").settings["level"].stock == 3
    assert read.at("1.9") == read


def test_an_error_of_a_later_version_names_the_version() -> None:
    since = {"2": {"protocols": {"amqp": {"port": "amqps"}}, "titel": "?"}}

    found = errors({**FILE, "since": since})

    assert found[1:] == [
        "since.2.unknown key 'titel': did you mean 'title'?",
        "since.2.protocols.amqp.port: unknown port 'amqps': did you mean 'amqp'?",
    ]
