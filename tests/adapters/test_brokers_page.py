"""docs/how-to/broker-file.md and the examples: checked against the model, so that neither can lag behind."""

from __future__ import annotations

import pathlib
import re
import tomllib
from collections.abc import Iterator

import pydantic
import pytest

from conformance import adapters, paths
from conformance.adapters.credentials import ClientTls, mechanism_of
from conformance.adapters.file import schema
from conformance.adapters.file.access_tables import AccessTable, ProtocolAccess, TlsTable
from conformance.adapters.file.launch_tables import Alarm, Installed, QueuesTable, ReadyHttp, StartTable, TemplateFile
from conformance.adapters.file.model import (
    OF_PROTOCOL,
    BrokerFile,
    Depth,
    Folder,
    JournalFolder,
    Protocol,
    Setting,
)
from conformance.adapters.file.nodes_table import BesideNode, Leads, Links, NodesTable
from conformance.adapters.file.placeholders import MEANING
from conformance.adapters.file.reading import read_table
from conformance.errors import UsageError

PAGE = (paths.root() / "docs/how-to/broker-file.md").read_text()
EXAMPLE = tomllib.loads(PAGE.split("```toml\n")[1].split("```")[0])
ACCESS = tomllib.loads(PAGE.split("## TLS and login")[1].split("```toml\n")[1].split("```")[0])["access"]
SEVERAL = tomllib.loads(PAGE.split("## Several nodes")[1].split("```toml\n")[1].split("```")[0])
OTHERS = {
    "nodes",
    "policies",
    "fetch",
    "java",
    "xml",
    "container",
    "variants",
    "ack_modes",
    "external",
    "access",
    "config",
}
"""Tables of the brokers that come with the package."""


def places() -> Iterator[tuple[type, dict[str, object], set[str]]]:
    """Each table of the page, its model, and the keys that are another's business."""
    yield BrokerFile, EXAMPLE, OTHERS
    yield StartTable, EXAMPLE["start"], {"queue_options", "liar", "offer", "refused_status", "ready_ports"}
    yield ReadyHttp, EXAMPLE["start"]["ready_http"], set()
    yield QueuesTable, EXAMPLE["queues"], {"command", "remove"}
    common = EXAMPLE["protocols"]["stomp"].keys() & Protocol.model_fields
    for name, model in OF_PROTOCOL.items():
        yield model, EXAMPLE["protocols"][name] | dict.fromkeys({*common, "capabilities"}), set()
    others = {"fixed", "follows", "xml", "key", "words", "choices", "scale", "off_with", "also", "exists", "reads"}
    yield Setting, EXAMPLE["settings"]["sync"], others
    yield TemplateFile, EXAMPLE["template"]["files"][0] | EXAMPLE["template"]["files"][1], set()
    yield Depth, EXAMPLE["depth"], {"address", "properties", "needs", "relayed", "command", "pattern"}
    yield JournalFolder, EXAMPLE["journal"], set()
    yield NodesTable, SEVERAL["nodes"], set()
    yield BesideNode, SEVERAL["nodes"]["beside"], set()
    yield Links, SEVERAL["nodes"]["links"], set()
    yield Leads, SEVERAL["nodes"]["leads"], set()
    yield AccessTable, ACCESS | {"mechanism": ""}, set()
    yield ProtocolAccess, ACCESS["amqp"] | ACCESS["stomp"] | {"password": {}}, set()
    yield TlsTable, ACCESS["tls"] | ACCESS["amqp"]["tls"], set()


def test_the_example_of_the_page_is_a_broker(tmp_path: pathlib.Path) -> None:
    read = read_table(EXAMPLE, tmp_path)

    assert read.start.ready_ports == ("amqp", "stomp")
    assert read.start.ready_http is not None
    assert read.start.leaves_its_parent


def test_the_nodes_of_the_page_are_of_that_broker(tmp_path: pathlib.Path) -> None:
    """Three nodes, each with a command of its own; no other number of them."""
    ports = [*EXAMPLE["ports"], "names"]
    settings = EXAMPLE["settings"] | SEVERAL["settings"]
    read = read_table({**EXAMPLE, "ports": ports, "settings": settings, "nodes": SEVERAL["nodes"]}, tmp_path)

    several = read.of_nodes(3)

    assert read.of_nodes(1) is read
    assert several.start.command[-2:] == ("--node", "{node}")
    assert "{peer.2.amqp_port}" in several.start.environment["PEERS"]
    assert several.title == f"3 nodes of {read.title}"
    with pytest.raises(UsageError, match="nodes"):
        read.of_nodes(2)


def test_a_table_of_several_nodes_is_checked(tmp_path: pathlib.Path) -> None:
    """A word that no node has, and a port that the broker does not have."""
    command = {"start": {"command": ["./mybroker", "{peer.4.amqp_port}"]}}
    beside = {"command": ["./names"], "port": "names"}
    wrong = {"counts": [3], "beside": beside, "changes": command}

    with pytest.raises(
        UsageError, match=r"nodes\.beside\.port(.|\n)*nodes\.changes\.start\.command.*peer\.4\.amqp_port"
    ):
        read_table({**EXAMPLE, "nodes": wrong}, tmp_path)


@pytest.mark.parametrize("count", [0, 1, 10])
def test_a_number_of_nodes_that_cannot_be_is_refused(tmp_path: pathlib.Path, count: int) -> None:
    with pytest.raises(UsageError, match=r"nodes\.counts"):
        read_table({**EXAMPLE, "nodes": {"counts": [count]}}, tmp_path)


def test_the_access_of_the_page_is_one(tmp_path: pathlib.Path) -> None:
    """A login over TLS; for AMQP a certificate instead."""
    read = read_table({**EXAMPLE, "access": ACCESS}, tmp_path)

    assert mechanism_of(read.credentials("amqp", tmp_path)) == "EXTERNAL"
    assert read.credentials("amqp", tmp_path).tls == ClientTls(
        *(f"{tmp_path}/{name}" for name in ("ca.pem", "client.pem", "client.key"))
    )
    assert read.credentials("stomp", tmp_path).user == "bob"


@pytest.mark.parametrize(("model", "table", "others"), list(places()), ids=lambda one: getattr(one, "__name__", ""))
def test_every_key_has_an_example(model: type, table: dict[str, object], others: set[str]) -> None:
    """A key that is added to the model must be shown, or be named here as another's business."""
    fields = set(model.model_fields)

    assert others <= fields
    assert fields - others == set(table)


def test_required_keys_are_marked() -> None:
    """On the page those of the model, in each table that it shows, and no other; so in the schema."""
    tables = PAGE.split("```toml\n")[1].split("```")[0].split("\n[")
    models = {
        "protocols.": Protocol,
        "settings.": Setting,
        "start]": StartTable,
        "queues]": QueuesTable,
        "depth]": Depth,
        "subscription_depth]": Depth,
        "alarms.": Alarm,
    }
    models |= {"data]": Folder, "journal]": JournalFolder, "installed]": Installed, "[template.files]": TemplateFile}
    marked = [re.findall(r"^(\w+) = .*# required", table, re.MULTILINE) for table in tables]

    assert set(marked[0]) | {"protocols", "start", "data", "journal"} == set(required(BrokerFile))
    for table, keys in zip(tables[1:], marked[1:], strict=True):
        if table.startswith("since."):
            continue  # parts of other tables
        model = next((model for name, model in models.items() if table.startswith(name)), None)
        shown = set(required(model)) if model else set()
        inferred = {"method"} if model is QueuesTable else set()
        assert set(keys) == shown - inferred, table
    for name in ("protocols.amqp", "start", "depth", "data", "journal"):
        assert re.search(rf"^\[{name}\] +# required", PAGE, re.MULTILINE), name
    published = schema.schema()
    assert set(published["required"]) == set(marked[0]) | {"protocols"}
    made = ["start", "data", "journal"]
    asked, owned, of_clients = published["anyOf"]
    assert [{"required": [*made, "depth"]}, {"required": ["external"]}] == [asked, owned]
    assert made == of_clients["required"]
    assert ["mqtt", "mqtt311"] == of_clients["properties"]["protocols"]["propertyNames"]["enum"]


def required(model: type[pydantic.BaseModel]) -> list[str]:
    """The keys that a table must have."""
    return [name for name, field in model.model_fields.items() if field.is_required()]


def test_every_word_is_on_the_page() -> None:
    shown = dict(re.findall(r"^\| `\{(\w+)\}` \| (.*) \|$", PAGE, re.MULTILINE))

    assert shown == MEANING


def test_the_class_of_the_page_is_an_adapter(tmp_path: pathlib.Path) -> None:
    reference = (paths.fixtures() / "brokers/reference/broker.toml").read_text()
    (tmp_path / "mine.py").write_text(PAGE.split("```python\n")[1].split("```")[0] + f"\n\nTEXT = {reference!r}\n")

    assert adapters.find(f"{tmp_path}/mine.py:MyBroker").file.title == "Reference broker"


def test_the_examples_can_be_read() -> None:
    """rabbitmq/broker.toml with rabbitmq.conf and enabled_plugins beside it."""
    (file,) = paths.fixtures().glob("examples/*/broker.toml")
    adapter = adapters.find(str(file))

    assert (adapter.name, sorted(adapter.file.protocols)) == ("rabbitmq-debian", ["stomp"])
    assert adapter.file.template is not None
    assert [one.file for one in adapter.file.template.files] == ["rabbitmq.conf", "enabled_plugins"]
    assert all((file.parent / one.file).is_file() for one in adapter.file.template.files)


def test_an_example_says_of_its_broker_what_the_bundled_file_says() -> None:
    """A SEND in a transaction that RabbitMQ answers at COMMIT only was waited for, and each trial with one was void."""
    (file,) = paths.fixtures().glob("examples/*/broker.toml")
    ours, theirs = (adapters.find(name).file.protocols["stomp"] for name in ("rabbitmq", str(file)))

    assert (theirs.options.answers_at_commit, theirs.ack_confirm) == (ours.options.answers_at_commit, ours.ack_confirm)
    assert theirs.destination == ours.destination
