"""A broker that no client here speaks to is described and listed, and never passes: nothing of it was tried."""

from __future__ import annotations

import pathlib
import socket
import subprocess
from collections.abc import Callable

import pytest

from conformance import adapters, campaign, claims, records
from conformance.adapters import opening, vendor_clients
from conformance.adapters.credentials import Access, Secret
from conformance.adapters.file.reading import read_table
from conformance.errors import ExitCode, UsageError
from conformance.followup import contract
from conformance.frontend.cli.adapters import listing
from conformance.judge.rows import Verdict
from conformance.ledger import Ledger
from conformance.records import RunRecord

Run = Callable[..., subprocess.CompletedProcess[str]]
EMS = {claim.id for claim in claims.load().claims.values() if not claim.binds or "ems" in claim.binds}


@pytest.mark.process
def test_a_run_of_it_tries_nothing_touches_nothing_and_is_no_pass(tmp_path: pathlib.Path) -> None:
    """Every claim that binds it is NOT_TRIED with the reason; those of other vendors do not apply."""
    with socket.create_server(("127.0.0.1", 0)) as theirs:
        at = f"ems:external=tcp://127.0.0.1:{theirs.getsockname()[1]}"
        prepared = campaign.prepare(campaign.Options(adapter=at, out=tmp_path / "run"))
        judgement = campaign.execute(prepared, campaign.Watcher())
        theirs.setblocking(False)
        with pytest.raises(BlockingIOError):
            theirs.accept()
    rows = [*judgement.rows, *judgement.self_checks]
    tried = {row.verdict for row in rows} - {Verdict.NOT_TRIED, Verdict.NOT_APPLICABLE}

    assert set() == tried
    assert {row.claim for row in rows if row.verdict is Verdict.NOT_TRIED} >= EMS
    assert {prepared.selection.no_client_reason} == {row.reason for row in rows if row.verdict is Verdict.NOT_TRIED}
    assert "No client that this suite has speaks jms as TIBCO EMS does" in prepared.selection.no_client_reason
    assert (
        records.read(tmp_path / "run" / "run.json", RunRecord).no_client_reason == prepared.selection.no_client_reason
    )


@pytest.mark.process
def test_its_run_ends_with_the_code_for_nothing_tried(typed: Run, tmp_path: pathlib.Path) -> None:
    done = typed("run", "--adapter", "ems:external=tcp://127.0.0.1:1", "--quiet", "--out", "run")

    assert done.returncode == ExitCode.NOTHING_RAN, done.stderr
    assert "Nothing was tried." in done.stdout
    assert "unverified: written from the documentation" in (tmp_path / "run" / "report.html").read_text()


def test_a_broker_that_is_spoken_to_is_tried() -> None:
    """The opposite: the protocol is the reason, not the launcher, nor that the file is unverified."""
    solace = campaign.prepare(campaign.Options(adapter="solace"))

    assert ("amqp", "") == (solace.selection.protocol, solace.selection.no_client_reason)
    assert solace.trials


@pytest.mark.parametrize(("name", "word"), [("artemis", "core"), ("reference", "coap"), ("qpid", "http")])
def test_a_word_that_only_the_broker_speaks_is_refused_where_it_speaks_one_of_ours(name: str, word: str) -> None:
    with pytest.raises(
        UsageError, match=rf"unknown protocol '{word}'.* known: amqp, amqp091, jms, mqtt, mqtt311, stomp"
    ):
        opening.choose_protocol(word, adapters.find(name))


def test_a_protocol_of_vendors_clients_is_spoken_where_one_of_them_can() -> None:
    artemis, reference = adapters.find("artemis"), adapters.find("reference")

    assert ("jms", "") == (opening.choose_protocol("jms", artemis), opening.no_client_reason("jms", artemis))
    assert "jms" == opening.choose_protocol("jms", reference)
    with pytest.raises(
        UsageError, match="no client of this suite speaks amqp091 with Apache ActiveMQ Artemis"
    ) as caught:
        opening.choose_protocol("amqp091", artemis)
    assert "no-client" == caught.value.code


def test_the_client_of_a_run_is_named_with_its_version() -> None:
    words, table = opening.client_versions("jms", vendor_clients.find("qpid-jms"))

    assert "Apache Qpid JMS 2.10.0" == words
    assert {"qpid-jms", "JPype1"} == table.keys()


def test_without_a_word_the_first_protocol_of_ours_is_spoken() -> None:
    artemis = adapters.find("artemis")
    stomp = {"stomp": artemis.file.protocols["stomp"]}
    only = adapters.FileAdapter(
        "s", "1", artemis.launcher, artemis.file.model_copy(update={"protocols": stomp}), artemis.path
    )  # fmt: skip

    assert ("amqp", "stomp") == (opening.choose_protocol("", artemis), opening.choose_protocol("", only))


def test_its_listing_says_that_no_client_speaks_to_it() -> None:
    block = listing().split("\nems: ")[1].split("\n\n")[0]

    assert "unverified" in block
    assert "and no client of this suite speaks it" in block
    assert "native       not here: no [start]" in block
    assert "docker       not here: no [start]" in block


def test_its_contract_cannot_be_checked(tmp_path: pathlib.Path) -> None:
    with (
        Ledger(tmp_path / "l", "l") as ledger,
        pytest.raises(UsageError, match="speaks jms, and no client of this suite does"),
    ):
        contract.check(adapters.find("ems"), tmp_path / "broker", ledger, lambda step: None)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("ems:external=amqp://h", "ems speaks no amqp; its addresses are tcp://HOST:PORT, http://HOST:PORT"),
        ("ems:external=tcp://u:p@h", "has a password in it"),
        ("ems:docker", "ems has no [start]: use it as an external broker"),
        ("ems:external=tcp://h:1,ssl://h:2", "two addresses for jms"),
    ],
)
def test_words_that_do_not_reach_it(spec: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        adapters.find(spec)

    assert says in str(caught.value)


def test_its_queues_need_a_way_to_be_asked_for_their_depth(tmp_path: pathlib.Path) -> None:
    """When a client speaks JMS, a drain cannot be trusted until the file has [depth]."""
    adapter = adapters.find("ems")
    with Ledger(tmp_path / "l", "l") as ledger, pytest.raises(UsageError, match=r"has no \[depth\]"):
        adapter.prepare(tmp_path / "b", adapter.effective(), ["q"], ledger)


def test_a_broker_that_is_spoken_to_needs_its_depth(tmp_path: pathlib.Path) -> None:
    table = {
        "name": "x", "title": "X", "vendor": "X", "default_version": "1", "capabilities": ["queues"],
        "ports": ["p"], "external": {"urls": {}, "creates_queues": True},
    }  # fmt: skip

    assert read_table({**table, "protocols": {"jms": {"port": "p"}}}, tmp_path).depth is None
    with pytest.raises(UsageError, match="depth: required"):
        read_table({**table, "protocols": {"stomp": {"port": "p"}}}, tmp_path)


def test_its_access_is_described(tmp_path: pathlib.Path) -> None:
    table = adapters.find("ems").file.model_dump(exclude_unset=True)
    own = {"user": "bob", "jms": {"user": "carol", "password": {"env": "P"}}}

    assert Access(user="carol", password=Secret(env="P")) == read_table({**table, "access": own}, tmp_path).credentials(
        "jms", tmp_path
    )
    with pytest.raises(UsageError, match="jms has no SASL"):
        read_table({**table, "access": {"jms": {"mechanism": "PLAIN"}}}, tmp_path)
