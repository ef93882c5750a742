"""The command line: every unknown word is one line and exit 4, and every example of the help is a command."""

import errno
import json
import os
import re
import shlex
import subprocess
import sys
import types

import pytest
import verdict_rows
from click.testing import CliRunner

from conformance import adapters, claims, paths, scenario
from conformance.errors import ClientError, LaunchError
from conformance.followup import bundle, contract
from conformance.frontend import plugin
from conformance.frontend.cli import adapters as cli_adapters
from conformance.frontend.cli import cli, entry, group
from conformance.frontend.options import (
    CHECK,
    EXPLORE,
    GROUPS,
    JUDGE,
    OPTIONS,
    PYTEST,
    REPLAY,
    RUN,
    UPGRADE,
    options_of,
)
from conformance.frontend.plugin.front import Front
from conformance.report import model


@pytest.mark.process
@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["run", "--adapter", "artmis"], "unknown adapter 'artmis': did you mean 'artemis'?"),
        (["run", "--adapter", "reference", "--protocol", "amqq"], "unknown protocol 'amqq': did you mean 'amqp'?"),
        (["run", "--adapter", "reference", "--claims", "SOLCD-AKC-01"], "did you mean 'SOLCD-ACK-01'?"),
        (["run", "--adapter", "reference", "--claims", "SOLCD-AKC-01", "--claims", "AMQP-*"], "'SOLCD-ACK-01'?"),
        (["run", "--adapter", "reference", "--require", "SOLCD-AKC-01"], "did you mean 'SOLCD-ACK-01'?"),
        (["run", "--adapter", "reference", "--judge-as", "emms"], "unknown vendor 'emms': did you mean 'ems'?"),
        (["run", "--adapter", "reference", "--require-tried", "SOLCD-AKC-01"], "did you mean 'SOLCD-ACK-01'?"),
        (["run", "--adapter", "reference", "--known-failures", "nowhere.toml"], "nowhere.toml: No such file"),
        (["run", "--adapter", "reference", "--baseline", "nowhere.json"], "nowhere.json: No such file"),
        (["judge", "nowhere", "--known-failures", "nowhere.toml"], "nowhere.toml: No such file"),
        (["run", "--adapter", "reference", "--set", "persistance=false"], "did you mean 'persistence'?"),
        (["run", "--adapter", "reference", "--set", "persistence=maybe"], "persistence"),
        (["run", "--adapter", "reference", "--set", "persistence"], "expected NAME=VALUE"),
        (["run", "--adaptr", "reference"], "unknown option '--adaptr': did you mean '--adapter'?"),
        (["run"], "--adapter"),
        (["run", "--adapter", "reference", "--trials", "0"], "at least 1"),
        (["run", "--adapter", "reference", "--trials", "many"], "many"),
        (["run", "--adapter", "reference", "--jobs", "0"], "--jobs 0: at least 1"),
        (["rnu"], "unknown command 'rnu': did you mean 'run'?"),
        (["adapters", "chek"], "unknown command 'chek': did you mean 'check'? known: check, show\n"),
        (["run", "--adapter", "reference", "--claims", "AMPQ-*"], "unknown claims 'AMPQ-*': did you mean 'AMQP-*'?"),
        (
            ["judge", "no-run", "--spark-master", "a", "--spark-remote", "b"],
            "--spark-master and --spark-remote: give one",
        ),
        (["judge", "no-run", "--spark-conf", "spark.x"], "--spark-conf 'spark.x': expected KEY=VALUE"),
        (["judge", "no-run", "--spark-conf", "=4g"], "--spark-conf '=4g': expected KEY=VALUE"),
        (["judge", "no-run"], "no-run"),
        (["claims", "list", "SOLCD-AKC-01"], "did you mean 'SOLCD-ACK-01'?"),
        (["claims", "shwo"], "did you mean 'show'?"),
        (["claims", "ARTEMIS-SND-*"], "did you mean 'ARTEMIS-SEND-*'?"),
        (["claims", "artemis-send-01"], "did you mean 'ARTEMIS-SEND-01'?"),
        (["claims", "show"], "claims show: name a claim or a pattern, such as 'AMQP-*'; `conformance claims` lists"),
        (["claims", "show", "AMQP"], "did you mean 'AMQP-*'?"),
        (["run", "--adapter", "reference", "--require", "AMQP"], "did you mean 'AMQP-*'?"),
        (["judge", "nowhere", "--require-tried", "AMQP"], "did you mean 'AMQP-*'?"),
        (["scenarios", "broker-kill"], "did you mean 'broker-killed-*'?"),
        (["run", "--adapter", "reference", "--scenario", "broker-kill"], "did you mean 'broker-killed-*'?"),
        (["run", "--adapter", "reference", "--scenario", "brokr-killed-*"], "did you mean 'broker-killed-*'?"),
        (
            ["upgrade", "--from", "artemis", "--to", "artemis@2.44.0", "--scenario", "broker-kill"],
            "did you mean 'broker-killed-*'?",
        ),
        (["selftest", "--liar", "loses-teh-*"], "did you mean 'loses-the-*'?"),
        (["adapters", "show", "artmis"], "did you mean 'artemis'?"),
        (["run", "--adapter", "ref"], "did you mean 'reference'?"),
        (["fetch", "reference", "--to", "x"], "nothing to fetch"),
        (["judge", "nowhere"], "no run.json"),
        (["replay", "nowhere", "--scenario", "x", "--trial", "1"], "nowhere is not the folder of a run"),
        (["replay", "nowhere", "--scenario", "x", "--trial", "1", "--times", "0"], "--times 0: at least 1"),
        (["replay", "nowhere", "--scenario", "x"], "--trial"),
        (["replay", "nowhere", "--scenaro", "x"], "did you mean '--scenario'?"),
        (
            ["explore", "--adapter", "reference", "--for", "soon"],
            "--for soon: give a whole number with s, m or h",
        ),
        (["explore", "--adapter", "reference", "--trials", "0"], "--trials 0: at least 1"),
        (["explore", "--adapter", "reference", "--resume", "nowhere"], "it is not the folder of an exploration"),
        (["bundle", "nowhere"], "expected RUN#TRIAL"),
        (["bundle", "nowhere#x"], "nowhere is not the folder of a run"),
        (["bundle", "nowhere#x", "--out", "."], "--out .: name a file"),
        (["run", "--adapter", "ems:docker"], "use it as an external broker"),
        (["run", "--adapter", "reference", "--user", "alice"], "a login is a user and a password: give --password-env"),
        (["run", "--adapter", "reference", "--tls-ca", "none.pem"], "--tls-ca none.pem: there is no such file"),
        (["run", "--adapter", "reference", "--sasl", "plane"], "unknown SASL mechanism 'PLANE': did you mean 'PLAIN'?"),
    ],
)
def test_unknown_words(typed, words, line):
    """One line on standard error that names the closest known word, and nothing started."""
    done = typed(*words)

    assert (4, 1, True) == (done.returncode, done.stderr.count("\n"), line in done.stderr), done.stderr


@pytest.mark.process
@pytest.mark.parametrize(
    ("words", "lists"),
    [
        (["run", "--adapter", "zzzz"], ["adapters"]),
        (["fetch", "zzzz"], ["adapters"]),
        (["claims", "show", "ZZZZ-01"], ["claims"]),
        (["claims", "ZZZZ-*"], ["claims"]),
        (["run", "--adapter", "reference", "--claims", "ZZZZ-01"], ["claims"]),
        (["run", "--adapter", "reference", "--scenario", "zzzz"], ["scenarios"]),
        (["run", "--adapter", "reference", "--scenario", "zzzz-*"], ["scenarios"]),
        (["run", "--adapter", "reference", "--set", "zzzz=1"], ["adapters", "show", "reference"]),
        (["run", "--adapter", "reference", "--set", "liar=zzzz"], ["broker", "--help"]),
        (["run", "--adapter", "reference", "--protocol", "jms", "--client", "zzzz"], ["adapters"]),
        (["selftest", "--liar", "zzzz"], ["broker", "--help"]),
        (["run", "--zzzz"], ["run", "--help"]),
        (["zzzz"], ["--help"]),
    ],
)
def test_what_is_known_is_listed_by_a_command(typed, words, lists):
    """The error names a command, and each known word of the error is in what it prints. No far word is guessed."""
    said = typed(*words).stderr
    known = re.search(r"known: (.*?)(?:, \.\.\.)?;", said)[1].split(", ")
    listed = typed(*lists).stdout

    assert f"`{shlex.join(['conformance', *lists])}` lists them".replace("show reference", "show ADAPTER") in said
    assert [] == [word for word in known if word.rstrip("*") not in listed]
    assert "did you mean" not in said


@pytest.mark.parametrize("words", [[], ["init"]])
def test_a_group_without_a_command_prints_its_help(typed, words):
    """As `--help` prints it. The exit code is 4: 0 would say that nothing was violated."""
    done = typed(*words)

    assert (4, "") == (done.returncode, done.stdout)
    assert typed(*words, "--help").stdout == done.stderr


@pytest.mark.process
def test_out_that_is_not_empty(typed, tmp_path):
    """A run never writes into a folder with other files."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("keep")
    done = typed("run", "--adapter", "reference", "--out", tmp_path / "out")

    assert (4, True) == (done.returncode, "not an empty folder" in done.stderr)


@pytest.mark.process
def test_a_baseline_of_another_broker(typed, tmp_path):
    """Both are named, and nothing has been started."""
    model.write_json(verdict_rows.judgement(), tmp_path / "last.json")
    done = typed("run", "--adapter", "reference", "--baseline", "last.json")

    expected = "conformance: the baseline is about artemis over amqp, this run about reference over amqp\n"
    assert (4, expected) == (done.returncode, done.stderr)


COMMANDS = {
    RUN: cli.commands["run"],
    UPGRADE: cli.commands["upgrade"],
    JUDGE: cli.commands["judge"],
    REPLAY: cli.commands["replay"],
    EXPLORE: cli.commands["explore"],
    CHECK: cli.commands["adapters"].commands["check"],
}


def of_click(front):
    """The options of a command by flag, in the words of the table."""
    for param in COMMANDS[front].params:
        metavar = "" if getattr(param, "is_flag", False) else param.metavar
        yield param.opts[0], (param.name, metavar, getattr(param, "help", None), param.multiple, param.required)


def of_pytest():
    """The options of pytest by flag, in the words of the table; the name in full of each stands before it."""
    found = {}
    group = types.SimpleNamespace(addoption=lambda *flags, **words: found.update({flags: words}))
    parser = types.SimpleNamespace(getgroup=lambda *_: group, parse_known_and_unknown_args=lambda words: ([], words))
    early = types.SimpleNamespace(known_args_namespace=types.SimpleNamespace(conformance_adapter="x"), stash={})
    plugin.pytest_addoption(parser)
    for _ in plugin.pytest_load_initial_conftests(early, parser, []):
        pass
    for (long, *short), words in found.items():
        flag = f"--{long.removeprefix('--conformance-')}"
        assert short == ([] if flag == "--adapter" else [flag])
        name, repeatable = words["dest"].removeprefix("conformance_"), words.get("action") == "append"
        said = words["help"].partition(" --adapter is short")[0]
        yield flag, (name, words.get("metavar", ""), said, repeatable, flag == "--adapter")


@pytest.mark.parametrize("front", [*COMMANDS, PYTEST])
def test_a_front_has_the_options_of_the_table(front):
    """In the same words; a run and pytest have no other."""
    found = dict(of_pytest() if front == PYTEST else of_click(front))
    table = {
        each.flag: (each.name, each.metavar, each.help, each.repeatable, each.required) for each in options_of(front)
    }

    assert table.items() <= found.items()
    assert front not in (RUN, PYTEST) or table.keys() == found.keys()


def test_a_run_and_pytest_take_the_same_options():
    """Pytest has its own `-q`, `-v`, `-k` and `--lf`, and no end to wait for."""
    flags = {front: {each.flag for each in options_of(front)} for front in (RUN, PYTEST)}

    assert flags[RUN] ^ flags[PYTEST] == {
        "--quiet",
        "--verbose",
        "--scenario",
        "--resume",
        "--budget",
        "--plan",
        "--strict-verdicts",
    }


@pytest.mark.parametrize("command", ["run", "explore", "replay", "selftest"])
def test_another_name_of_an_option_is_in_its_line_of_the_help(typed, command):
    """Both names lead to one value, and a file of options may have either."""
    shown = typed(command, "--help").stdout
    takes = [param for param in cli.commands[command].params if "--broker" in param.opts]

    assert [["--adapter", "--broker"]] == [param.opts for param in takes]
    assert 1 == shown.count("--adapter, --broker ")
    assert (1 if command == "run" else 0) == shown.count("--claims, --claim ")


@pytest.mark.process
def test_another_name_of_an_option_is_read(typed, tmp_path):
    same = [
        typed("run", broker, "artmis", claim, "X").stderr
        for broker, claim in (("--broker", "--claim"), ("--adapter", "--claims"))
    ]
    assert same[0] == same[1]
    assert "unknown adapter 'artmis': did you mean 'artemis'?" in same[0]
    assert "did you mean 'SOLCD-ACK-01'?" in typed("run", "--broker", "reference", "--claim", "SOLCD-AKC-01").stderr
    (tmp_path / "conformance.toml").write_text("[run]\nbroker = 'artmis'\n")
    assert "unknown adapter 'artmis'" in typed("run").stderr


@pytest.mark.parametrize(("name", "words"), group.ALIASES.items())
def test_another_name_of_a_command(typed, name, words):
    """It is in the help once, and its own help is that of the command."""
    shown = typed("--help").stdout

    assert 1 == len(re.findall(rf"^  {name} +conformance {' '.join(words)}$", shown, re.MULTILINE))
    assert 0 == typed(name, "--help").returncode
    assert typed(*words, "--help").stdout == typed(name, "--help").stdout
    assert typed(*words).stderr == typed(name).stderr
    assert name not in cli.commands


@pytest.mark.parametrize(
    ("name", "text", "words", "said"),
    [
        ("conformance.toml", "[run]\nadapter = 'reference'\ntrials = 0", [], "--trials 0: at least 1"),
        (
            "conformance.toml",
            "[run]\nadapter = ['reference']\ntrials = 0",
            ["--trials", "1", "--jobs", "0"],
            "--jobs 0",
        ),
        ("pyproject.toml", "[tool.conformance.run]\nadapter = 'artmis'", [], "unknown adapter 'artmis'"),
        ("pyproject.toml", "[project]\nname = 'x'", [], "Missing option '--adapter'"),
        (
            "conformance.toml",
            "[run]\ntrails = 3",
            [],
            "unknown option of [run] in conformance.toml 'trails': did you mean",
        ),
        ("conformance.toml", "[rnu]\ntrials = 3", [], "unknown table of conformance.toml 'rnu': did you mean 'run'?"),
        ("conformance.toml", "trials = 3", [], "unknown table of conformance.toml 'trials'"),
        ("conformance.toml", "[run", [], "conformance.toml: Expected ']'"),
    ],
)
def test_a_file_gives_options(typed, tmp_path, name, text, words, said):
    """What is typed wins; a word that is not known is named before anything starts."""
    (tmp_path / name).write_text(text)
    done = typed("run", *words)

    assert 4 == done.returncode
    assert said in done.stderr


@pytest.mark.process
def test_the_options_of_a_file_are_announced(typed, tmp_path):
    (tmp_path / "conformance.toml").write_text("[run]\nrequire-tried = 'A'\n[doctor]\njson = true")
    done = typed("doctor")

    assert "conformance.toml: json\n" == done.stderr
    assert done.stdout.startswith("{")


def test_options_have_titles():
    """Every option of the table is below one title in the help."""
    titled = [f"--{word}" for words in GROUPS.values() for word in words.split()]
    result = CliRunner().invoke(cli, ["run", "--help"])

    assert sorted(set(titled)) == sorted(titled)
    assert {option.flag for option in OPTIONS} - {"--strict-verdicts"} == set(titled)
    assert [*GROUPS, "Other options"] == re.findall(r"^(\w.*):$", result.output, re.MULTILINE)


def examples(command):
    """The command lines in the help of a command, as words."""
    text = (command.help or "").partition("\b\n")[2].partition("\n\n")[0]
    lines = [line.strip().split("   ")[0] for line in text.splitlines()]
    return [shlex.split(line[line.index("conformance ") :]) for line in lines if line.startswith(("conf", "CONF"))]


@pytest.mark.process
@pytest.mark.parametrize("name", cli.commands)
def test_examples_of_the_help(name):
    """Every command shows at least one command line of its own, of words that are known."""
    found = [words for words in examples(cli.commands[name]) if words[1] == name or name == "fetch"]

    assert found != []
    for words in found:
        known(cli.commands[words[1]].make_context(words[1], words[2:]).params)


def known(params):
    """Adapters, vendors, settings and claims of an example are real; a user's own file is the user's."""
    named = params.get("adapter") or ()
    for name in named if isinstance(named, tuple) else (named,):
        if not name.startswith("./"):
            adapters.parse_assignments(params.get("set", ()), adapters.find(name).file)
    assert set(params.get("judge_as", ())) <= {vendor for c in claims.load().claims.values() for vendor in c.binds}
    for pattern in (*params.get("claims", ()), *params.get("require", ()), *params.get("require_tried", ())):
        claims.select(pattern.split(","), claims.load())


@pytest.mark.parametrize("command", [[], ["run"], ["broker"]])
def test_help(typed, command):
    """That of the bundled broker is its own."""
    done = typed(*command, "--help")

    assert (0, True) == (done.returncode, "usage: " in done.stdout.lower()), done.stderr
    assert "conformance " in done.stdout


def test_suites_are_a_folder_for_pytest(typed):
    """`pytest $(conformance suites)`: the path alone."""
    assert f"{paths.suites()}\n" == typed("suites").stdout


@pytest.mark.process
@pytest.mark.parametrize(("words", "code"), [(["claims"], 141), (["claims", "--help"], 141), (["nothing-like"], 4)])
def test_a_closed_output_is_not_a_violation(words, code):
    """`conformance claims | head -1` ended with 1, which says that a claim was violated; other errors stay."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "conformance.frontend.cli", *words]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)

    assert code == done.returncode, done.stderr
    assert "Traceback" not in done.stderr and "BrokenPipe" not in done.stderr


def test_a_socket_of_ours_that_is_closed_is_no_violation(monkeypatch, capfd):
    """click ends every command that raises such an error with exit 1."""

    def broken():
        raise BrokenPipeError(errno.EPIPE, "of a socket")

    monkeypatch.setattr(cli.commands["suites"], "callback", broken)
    monkeypatch.setattr(sys, "argv", ["conformance", "suites"])
    with pytest.raises(SystemExit) as ended:
        entry.main()

    assert (3, True) == (ended.value.code, "an error of the suite" in capfd.readouterr().err)


def test_claims_are_listed_by_patterns(typed):
    """Only those that match, with or without `list`, and with commas as `--claims` takes them."""
    for words in (["list", "AMQP-DUR-*", "SOLCD-ACK-01"], ["AMQP-DUR-*", "SOLCD-ACK-01"], ["AMQP-DUR-*,SOLCD-ACK-01"]):
        lines = typed("claims", *words).stdout.splitlines()

        assert ["AMQP-DUR-01", "SOLCD-ACK-01"] == [line.split()[0] for line in lines]


def test_claims_as_json(typed):
    """Each has its sentence's address and the scenarios that decide it."""
    found = {
        one["id"]: one for one in json.loads(typed("claims", "list", "AMQP-DUR-*", "EXPECT-KEPT-01", "--json").stdout)
    }

    assert found["AMQP-DUR-01"]["url"].startswith("https://docs.oasis-open.org/")
    assert "broker-killed-while-publishing" in found["AMQP-DUR-01"]["scenarios"]
    assert ("", "safety") == (found["EXPECT-KEPT-01"]["url"], found["EXPECT-KEPT-01"]["kind"])
    assert len(claims.load().claims) == len(json.loads(typed("claims", "--json").stdout))


def test_scenarios_are_listed_by_patterns(typed):
    """All of them, or those that match, each with the claims that it decides."""
    said = typed("scenarios", "broker-killed-after-c*").stdout

    assert scenario.load(claims.load()).keys() == set(re.findall(r"^\S+", typed("scenarios").stdout, re.MULTILINE))
    assert "broker-killed-after-commit" in said and "broker-killed-while-publishing" not in said
    assert "    decides: " in said


@pytest.mark.process
def test_one_broker_is_shown(typed):
    """By the name or file that `--adapter` takes."""
    brokers = typed("adapters", "show", "reference", str(paths.fixtures() / "brokers" / "artemis" / "broker.toml"))

    assert ["Reference broker", "Apache ActiveMQ Artemis"] == re.findall(r"^\S+: (.+)", brokers.stdout, re.MULTILINE)


def test_claims_are_listed_and_shown(typed):
    """All of them a line each, one of them whole."""
    assert len(claims.load().claims) == typed("claims").stdout.count("\n")
    assert "falsified by" in typed("claims", "show", "SOLCD-ACK-01").stdout


def test_an_unexpected_error_is_not_a_violation(monkeypatch, capsys):
    """Python would exit with 1, which is what a violated claim is."""

    def broken(**_):
        raise ZeroDivisionError("of the suite")

    monkeypatch.setattr(entry.cli, "main", broken)
    with pytest.raises(SystemExit) as ended:
        entry.main()

    assert (3, True) == (
        ended.value.code,
        "nothing is concluded: ZeroDivisionError('of the suite')" in capsys.readouterr().err,
    )


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS])
def test_a_folder_that_takes_no_more_is_one_line(monkeypatch, capsys, number):
    """It names the file and what to do; a traceback would look like an error of the suite."""

    def full(**_):
        raise OSError(number, os.strerror(number), "out/run.json")

    monkeypatch.setattr(entry.cli, "main", full)
    with pytest.raises(SystemExit) as ended:
        entry.main()
    said = capsys.readouterr().err

    assert (3, 1) == (ended.value.code, said.count("\n")), said
    assert f"conformance: out/run.json: {os.strerror(number)}: nothing more can be written" in said
    assert "name a folder on another disk with --out" in said


ESCAPES = "\x1b[2J\x1b]0;owned\x07\u202egood"


@pytest.mark.parametrize(
    "error",
    [
        LaunchError(ESCAPES, log_tail=[ESCAPES], log="b.log"),
        LaunchError("x", log_tail=["end"], log_reasons=[ESCAPES], log="b.log"),
        ClientError(ESCAPES),
        ValueError(ESCAPES),
    ],
)
def test_what_a_broker_says_cannot_repaint_the_terminal(error, monkeypatch, capsys):
    """Of an error, of the end of its log and of a traceback every control character is spelled out."""

    def fails(**_):
        raise error

    monkeypatch.setattr(entry.cli, "main", fails)
    with pytest.raises(SystemExit):
        entry.main()
    shown = capsys.readouterr().err

    assert set() == {char for char in shown if not (char.isprintable() or char in "\n\t")}
    assert r"\x1b[2J\x1b]0;owned\x07\u202egood" in shown or r"\\x1b[2J" in shown


def test_what_a_command_says_cannot_repaint_the_terminal(monkeypatch, capsys):
    """`adapters check`, `bundle` and `replay` tell of folders and brokers of others; all of them print by one function."""
    step = contract.Step("start", 1.0, ESCAPES)
    cli_adapters._tell(step)
    monkeypatch.setattr(bundle, "make", lambda *_, **__: types.SimpleNamespace(lines=[ESCAPES], path=ESCAPES))
    entry.cli.main(["bundle", "x#y"], standalone_mode=False)
    shown = capsys.readouterr().out

    assert 3 == shown.count(r"\x1b[2J\x1b]0;owned\x07\u202egood")
    assert "\x1b" not in shown


def test_a_verbose_session_of_pytest_cannot_repaint_the_terminal():
    """Why a trial is void may quote the broker."""
    lines = []
    front = object.__new__(Front)
    terminal = types.SimpleNamespace(write_line=lines.append)
    plugins = types.SimpleNamespace(get_plugin=lambda _: terminal)
    front.config = types.SimpleNamespace(pluginmanager=plugins, get_verbosity=lambda: 1)

    front._watcher().note(ESCAPES)

    assert [r"\x1b[2J\x1b]0;owned\x07\u202egood"] == lines


@pytest.mark.process
def test_several_brokers_are_checked_before_the_first_one_starts(typed, tmp_path):
    """A wrong word for one of them leaves no folder."""
    words = ("--adapter", "reference", "--adapter", "qpid", "--protocol", "amqp,stomp", "--out", str(tmp_path / "out"))
    done = typed("run", *words)

    assert (4, True, False) == (
        done.returncode,
        "unknown protocol of qpid 'stomp'" in done.stderr,
        (tmp_path / "out").exists(),
    )
