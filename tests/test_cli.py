"""The command line: every unknown word is one line and exit 4, and every example of the help is a command."""

import re

import pytest

from conformance import adapters, claims


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["run", "--adapter", "artmis"], "unknown adapter 'artmis': did you mean 'artemis'?"),
        (["run", "--adapter", "reference", "--protocol", "amqq"], "unknown protocol 'amqq': did you mean 'amqp'?"),
        (["run", "--adapter", "reference", "--claims", "SOLCD-AKC-01"], "did you mean 'SOLCD-ACK-01'?"),
        (["run", "--adapter", "reference", "--require", "SOLCD-AKC-01"], "did you mean 'SOLCD-ACK-01'?"),
        (["run", "--adapter", "reference", "--set", "persistance=false"], "did you mean 'persistence'?"),
        (["run", "--adapter", "reference", "--set", "persistence=maybe"], "persistence"),
        (["run", "--adapter", "reference", "--set", "persistence"], "expected NAME=VALUE"),
        (["run", "--adaptr", "reference"], "unknown option '--adaptr': did you mean '--adapter'?"),
        (["run"], "--adapter"),
        (["run", "--adapter", "reference", "--trials", "0"], "at least 1"),
        (["run", "--adapter", "reference", "--trials", "many"], "many"),
        (["rnu"], "unknown command 'rnu': did you mean 'run'?"),
        (["claims", "shwo"], "did you mean 'show'?"),
        (["fetch", "reference", "--to", "x"], "nothing to fetch"),
        (["judge", "nowhere"], "no run.json"),
        (["run", "--adapter", "artemis:docker"], "native"),
    ],
)
def test_unknown_words(conformance, words, line):
    """One line on standard error that names the closest known word, and nothing started."""
    done = conformance(*words)

    assert (4, 1, True) == (done.returncode, done.stderr.count("\n"), line in done.stderr), done.stderr


def test_out_that_is_not_empty(conformance, tmp_path):
    """A run never writes into what somebody else wrote."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("keep")
    done = conformance("run", "--adapter", "reference", "--out", tmp_path / "out")

    assert (4, True) == (done.returncode, "not an empty folder" in done.stderr)


def test_help_names_only_what_exists(conformance):
    """Each example of `run --help` has words that are known."""
    text = conformance("run", "--help").stdout
    found = re.findall(r"conformance run (.*)", text)

    assert len(found) >= 4
    for example in found:
        adapters.find(re.search(r"--adapter (\S+)", example)[1])
        for pattern in re.findall(r"--(?:claims|require) '?([A-Z0-9*-]+)", example):
            claims.select([pattern], claims.load())


@pytest.mark.parametrize("command", [[], ["run"], ["judge"], ["fetch"], ["claims"], ["adapters"], ["bench"]])
def test_help(conformance, command):
    """Every command has one."""
    done = conformance(*command, "--help")

    assert (0, True) == (done.returncode, "Usage: " in done.stdout)


def test_claims_are_listed_and_shown(conformance):
    """All of them a line each, one of them whole."""
    assert 154 == conformance("claims").stdout.count("\n")
    assert "falsified by" in conformance("claims", "show", "SOLCD-ACK-01").stdout


def test_adapters_are_listed(conformance):
    """With versions and settings."""
    text = conformance("adapters").stdout

    assert ["2.56.0" in text, "sync_non_transactional" in text, "reference" in text] == [True] * 3
