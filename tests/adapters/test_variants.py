"""Variants of a broker, and the liar that it may be: words that make another broker of it."""

from __future__ import annotations

import pathlib
import sys

import pytest

from conformance import adapters
from conformance.adapters import parse_assignments
from conformance.adapters.file.reading import load
from conformance.adapters.launch.plan import BrokerSource, make_instance
from conformance.errors import UsageError
from conformance.ledger import Ledger
from conformance.reference import liars
from conformance.scenario.needs import CREATED, EXPIRY_QUEUE, FRESH, SETTINGS, UNDECLARED, need_of

REFERENCE = adapters.find("reference")
VARIED = """
name = "mine"
title = "Mine"
vendor = "me"
default_version = "1.0"
profiles = ["base"]
capabilities = ["queues"]
ports = ["amqp"]
[protocols.amqp]
port = "amqp"
capabilities = ["transactions"]
[settings.profile]
type = "word"
default = "plain"
argument = ["--profile", "{value}"]
description = "which"
[settings.liar]
type = "word"
default = ""
words = ["{python}", "-c", "print('lies', 'steals', sep=chr(10))"]
argument = ["--liar", "{value}"]
description = "how it lies"
[variants.fancy]
description = "more"
profiles = ["solace"]
capabilities = ["ranged_confirms"]
ack_modes = { individual = "explicit" }
[variants.fancy.settings.publish_window]
type = "int"
default = 50
fixed = true
description = "how many"
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


def written(tmp_path: pathlib.Path, old: str = "", new: str = "") -> pathlib.Path:
    file = tmp_path / "broker.toml"
    assert old in VARIED
    file.write_text(VARIED.replace(old, new, 1))
    return file


@pytest.fixture
def mine(tmp_path: pathlib.Path) -> adapters.Adapter:
    return adapters.find(str(written(tmp_path)))


def test_a_variant_adds_and_takes_nothing_away(mine: adapters.Adapter) -> None:
    fancy = mine.chosen({"profile": "fancy"})

    assert ("base",) == mine.file.profiles
    assert ("base", "solace") == fancy.file.profiles
    assert {"queues", "transactions", "ranged_confirms"} == fancy.capabilities("amqp")
    assert {"individual": "explicit"} == fancy.file.ack_modes
    assert {"profile": "fancy", "liar": "", "publish_window": 50} == fancy.effective({"profile": "fancy"}).values
    assert {"profile": "plain", "liar": ""} == mine.effective().values


def test_what_it_was_made_into_is_in_its_title(mine: adapters.Adapter) -> None:
    both = mine.chosen({"profile": "fancy", "liar": "lies"})

    assert ("Mine (profile fancy), liar lies", mine.spec) == (both.file.title, both.spec)
    assert mine == mine.chosen({"liar": ""}) == mine.chosen({"profile": "plain"})


@pytest.mark.process
def test_words_are_taken_from_the_variants_and_from_the_broker_itself(mine: adapters.Adapter) -> None:
    assert {"profile": "fancy", "liar": "steals"} == parse_assignments(["profile=fancy", "liar=steals"], mine.file)
    assert {"profile": "plain"} == parse_assignments(["profile=plain"], mine.file)


@pytest.mark.process
@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        ("profile=fanzy", "unknown profile of mine 'fanzy': did you mean 'fancy'"),
        ("liar=stales", "unknown liar of mine 'stales': did you mean 'steals'"),
    ],
)
def test_an_unknown_word_is_refused_with_the_closest(mine: adapters.Adapter, assignment: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_assignments([assignment], mine.file)


@pytest.mark.parametrize("name", ["liar", "profile"])
def test_a_broker_without_liars_or_variants_says_so(name: str) -> None:
    with pytest.raises(UsageError, match=f"artemis has no {name}: only the reference broker has"):
        parse_assignments([f"{name}=solace"], adapters.find("artemis").file)


@pytest.mark.process
def test_a_broker_that_cannot_tell_its_words_is_named(tmp_path: pathlib.Path) -> None:
    file = load(written(tmp_path, "print('lies', 'steals', sep=chr(10))", "raise SystemExit(3)"))

    with pytest.raises(UsageError, match="setting 'liar' of mine: its values cannot be listed"):
        parse_assignments(["liar=lies"], file)


@pytest.mark.process
def test_the_reference_broker_knows_its_variants_and_liars() -> None:
    names = list(liars.LIARS)

    assert ["artemis", "qpid", "ems", "solace", "rabbitmq", "activemq"] == list(REFERENCE.file.variants)
    assert {"liar": names[0]} == parse_assignments([f"liar={names[0]}"], REFERENCE.file)
    numbered = {"liar": "confirms-10-ms-before-storing"}
    assert numbered == parse_assignments([f"liar={numbered['liar']}"], REFERENCE.file)
    with pytest.raises(UsageError, match="N is a whole number from 1 to 999999"):
        parse_assignments(["liar=confirms-0-ms-before-storing"], REFERENCE.file)
    assert {"ack_immediately", "ranged_confirms"} == {
        *REFERENCE.chosen({"profile": "solace"}).file.capabilities - REFERENCE.file.capabilities
    }
    assert "explicit-client" == REFERENCE.chosen({"profile": "ems"}).file.ack_modes["individual"]


def test_a_variant_and_a_liar_are_words_of_the_command(tmp_path: pathlib.Path) -> None:
    chosen = {"profile": "solace", "liar": "counts-from-one"}
    solace = REFERENCE.chosen(chosen)
    with (
        Ledger(tmp_path, "t") as ledger,
        solace.prepare(
            tmp_path / "b",
            solace.effective(chosen),
            ["a", "b"],
            ledger,
            options={"b": (("durable", False), ("max_length", 4))},
        ) as broker,
    ):
        command = broker.plan.command

    assert (sys.executable, "-m", "conformance.reference") == command[:3]
    assert ("--queue", "a", "--queue", "b:durable=false,max_length=4") == command[-8:-4]
    assert ("--profile", "solace", "--liar", "counts-from-one") == command[-4:]


def test_a_queue_option_that_the_broker_has_not_is_refused(tmp_path: pathlib.Path) -> None:
    with Ledger(tmp_path, "t") as ledger, pytest.raises(UsageError, match="did you mean 'max_length'"):
        REFERENCE.prepare(tmp_path / "b", REFERENCE.effective(), ["a"], ledger, options={"a": (("max_lenght", 4),)})


def test_what_an_adapter_has_no_words_for() -> None:
    classic = adapters.find("activemq")

    assert "the adapter of activemq has no queue option max_length" == classic.lacks(need_of("max_length"))
    assert "the adapter of activemq has no start.offer" == classic.lacks(SETTINGS)
    assert "" == REFERENCE.lacks(need_of("max_length")) == REFERENCE.lacks(SETTINGS)


def test_a_move_of_expired_messages_needs_a_queue_for_them() -> None:
    """A broker that names one in its stock needs no setting for it."""
    found = {name: adapters.find(name).lacks(EXPIRY_QUEUE) for name in ("reference", "activemq", "openmq", "rabbitmq")}

    assert "the file of rabbitmq names no queue for expired messages" == found.pop("rabbitmq")
    assert {""} == set(found.values())


def test_which_queues_an_adapter_can_leave_undeclared() -> None:
    rabbitmq = adapters.find("rabbitmq")

    assert "" == REFERENCE.lacks(UNDECLARED) == REFERENCE.lacks(CREATED) == rabbitmq.lacks(FRESH)
    assert "the file of rabbitmq does not say external.creates_queues" == rabbitmq.lacks(CREATED)
    assert "the file of reference has no [queues]: they are in its configuration" == REFERENCE.lacks(FRESH)


@pytest.mark.process
def test_the_command_of_a_template_has_its_variables(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counter-example: an old version stops at options of its own script that a newer Java does not know."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    command = """["sh", "-c", 'mkdir -p "$0" && printf %s "$SAID" >"$0/said"', "{instance}"]"""
    table = f'[template]\ncommand = {command}\nenvironment = {{ SAID = "hello" }}\n[start]'
    (tmp_path / "broker.toml").write_text(VARIED.replace("[start]", table))
    source = BrokerSource(load(tmp_path / "broker.toml"), tmp_path, "1.0", tmp_path)
    make_instance(source, {"instance": str(tmp_path / "instance")})

    assert (tmp_path / "instance" / "said").read_text() == "hello"
