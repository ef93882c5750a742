"""`reproduce.py` connects as the clients of the trial did: TLS, login, address; it contains no secret."""

import pathlib
import shlex
import subprocess
import sys

import pytest
import reproductions
from broker_ports import broker_port
from reproductions import NAME, SCENARIOS
from starts import starts_process

from conformance import adapters
from conformance.adapters import BrokerRequest, open_broker
from conformance.adapters.credentials import OPEN, Access, ClientTls, Secret
from conformance.adapters.distribution import fetch
from conformance.followup.bundle import archive, script
from conformance.ledger import Ledger

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "clients"))
import certificates

LACKS = fetch.not_installed(adapters.find("rabbitmq").file)


@pytest.fixture(scope="module")
@starts_process
def folder(tmp_path_factory):
    return certificates.make(tmp_path_factory.mktemp("certificates"))


def written(protocol, typed=OPEN, adapter="reference", name=NAME, anomaly="lost"):
    found = open_broker(BrokerRequest(adapter, access=typed)).adapter
    return reproductions.written(SCENARIOS[name], protocol, found, [anomaly])


@pytest.fixture
def tried(folder, tmp_path_factory, python_path, started):
    """Run a script as a maintainer would, against a bundled broker behind TLS and a login."""

    def run(text, protocol, *more, words=(), environment=None):
        place = tmp_path_factory.mktemp("maintainer")
        (place / "reproduce.py").write_text(text)
        plain, start = started(place, [str(word) for word in words])
        port = broker_port()
        secured = {"amqp": "amqps", "amqp091": "amqps091", "stomp": "stomps", "mqtt": "mqtts"}[protocol]
        broker = [f"--{secured}-port", port, "--tls-cert", folder / "broker.pem", "--tls-key", folder / "broker.key"]
        broker += ["--tls-ca", folder / "ca.pem", "--user", "alice", "--password-file", folder / "password"]
        start = f"{start} {shlex.join(map(str, broker))}"
        at = plain[protocol] if "plainly" in more else port
        options = [word for word in map(str, more) if word != "plainly"]
        command = [sys.executable, "-I", "reproduce.py", "--address", f"127.0.0.1:{at}", "--silence", "1", *options]
        return subprocess.run(
            [*command, "--start", start], cwd=place, env={**python_path, **(environment or {})},
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip

    return run


@pytest.mark.full
@pytest.mark.parametrize("protocol", ["amqp", "amqp091", "stomp", "mqtt"])
def test_behind_tls_and_a_login(folder, tried, protocol):
    """The honest broker keeps everything, one that stores nothing loses it; the password is in the environment only."""
    typed = Access(user="alice", password=Secret(env="ALICE"), tls=ClientTls(ca=str(folder / "ca.pem")))
    text = written(protocol, typed).text
    known, more = {"ALICE": certificates.PASSWORD}, ["--tls-ca", folder / "ca.pem"]
    honest = tried(text, protocol, *more, environment=known)
    lying = tried(text, protocol, *more, words=["--set", "persistence=false"], environment=known)
    unset = tried(text, protocol, *more)
    stranger = tried(text, protocol, "--tls-ca", folder / "stranger.pem", "--ready", 2, environment=known)
    wrong = tried(text, protocol, *more, "--ready", 2, environment={"ALICE": "another"})

    assert 0 == honest.returncode, honest.stdout + honest.stderr
    assert (1, True) == (lying.returncode, "LOST" in lying.stdout), lying.stdout + lying.stderr
    assert (2, True) == (unset.returncode, "is read from ALICE (--password-env), which is not set" in unset.stderr)
    assert (2, True) == (stranger.returncode, "could not be tried: the broker does not answer" in stranger.stdout)
    assert (2, True) == (wrong.returncode, "could not be tried: the broker does not answer" in wrong.stdout)
    assert certificates.PASSWORD not in text + honest.stdout + wrong.stdout
    assert text.encode() == archive.clean(text.encode(), [])  # a line that looks like a secret would be cut out
    assert str(folder) not in text


def test_a_login_without_tls(folder, tried):
    """Over the plain port, with a password that the trial had from a file."""
    typed = Access(user="alice", password=Secret(file=str(folder / "password")))
    text = written("amqp", typed).text
    done = tried(text, "amqp", "plainly", environment={script.VARIABLE: certificates.PASSWORD})

    assert 0 == done.returncode, done.stdout + done.stderr
    assert "--tls" not in text
    assert str(folder) not in text


def test_a_certificate_instead_of_a_password(folder, tried):
    """SASL EXTERNAL; without the certificate it says what is missing, and tries nothing."""
    own = {"certificate": str(folder / "alice.pem"), "key": str(folder / "alice.key")}
    text = written("amqp", Access(tls=ClientTls(ca=str(folder / "ca.pem"), **own))).text
    mine = ["--tls-cert", folder / "alice.pem", "--tls-key", folder / "alice.key"]
    done = tried(text, "amqp", "--tls-ca", folder / "ca.pem", *mine)
    bare = tried(text, "amqp", "--tls-ca", folder / "ca.pem")

    assert 0 == done.returncode, done.stdout + done.stderr
    assert (2, True) == (bare.returncode, "required: --tls-cert, --tls-key" in bare.stderr), bare.stderr


@pytest.mark.full
def test_the_address_of_a_queue(reproduce, tmp_path):
    """The prefix of the broker's file: the queue of that whole name is the one that keeps nothing."""
    text = (pathlib.Path(adapters.find("reference").path)).read_text()
    assert text.count("[protocols.amqp]\n") == 1
    file = tmp_path / "broker.toml"
    file.write_text(text.replace("[protocols.amqp]\n", '[protocols.amqp]\ndestination = "some/{queue}"\n'))
    fleeting = ["--queue", "some/orders:durable=false"]
    prefixed, bare = (
        reproduce(written("amqp", adapter=str(where)).text, "amqp", fleeting)[0] for where in (file, "reference")
    )

    assert (1, True) == (prefixed.returncode, "LOST" in prefixed.stdout), prefixed.stdout + prefixed.stderr
    assert 0 == bare.returncode, bare.stdout + bare.stderr


def test_the_virtual_host_of_a_broker():
    """In the header `host` of CONNECT; where there is none, the name of the machine."""
    assert "\"host\": '/', " in written("stomp", adapter="rabbitmq").text
    assert '"host": host, ' in written("stomp").text
    assert "DESTINATION = '/amq/queue/{queue}'" in written("amqp", adapter="rabbitmq").text


@pytest.mark.skipif(bool(LACKS), reason=LACKS)
@pytest.mark.parametrize(
    ("protocol", "wrong"),
    [
        pytest.param("amqp", ("'/amq/queue/{queue}'", "'{queue}'"), marks=pytest.mark.full),
        pytest.param("stomp", ("\"host\": '/'", '"host": host'), marks=pytest.mark.full),
    ],
)
def test_the_words_of_rabbitmq(tmp_path, protocol, wrong):
    """It sends, consumes and acknowledges up to the restart, for which no command is given here; with other words not."""
    adapter = adapters.find("rabbitmq")
    text = written(protocol, adapter="rabbitmq", name="consumer-killed-under-individual", anomaly="gone").text
    assert text.count(wrong[0]) == 1

    def reproduce(name, script_):
        (tmp_path / name).write_text(script_)
        address = "{}:{}".format(*broker.endpoint(protocol))
        command = [sys.executable, "-I", name, "--address", address, *f"--pid {2**22} --silence 1 --ready 3".split()]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)

    with (
        Ledger(tmp_path / "run", f"words-of-{protocol}") as ledger,
        adapter.prepare(tmp_path / "broker", adapter.effective(), ["orders"], ledger) as broker,
    ):
        broker.start()
        right, other = reproduce("right.py", text), reproduce("wrong.py", text.replace(*wrong))

    assert "could not be tried: [Errno 3] No such process" in right.stdout, right.stdout + right.stderr
    assert "could not be tried" in other.stdout
    assert "No such process" not in other.stdout


@pytest.mark.parametrize("protocol", ["amqp", "stomp"])
def test_a_relay_reads_no_tls(protocol):
    """No script is written for a cut there, and the bundle says why."""
    cut = next(name for name, item in SCENARIOS.items() if any(fault.name == "cut" for fault in item.faults))
    made = [written(protocol, typed, name=cut) for typed in (OPEN, Access(tls=ClientTls()))]

    assert made[0].text, made[0].missing
    assert ("", True) == (made[1].text, any("TLS is not in it" in each for each in made[1].missing)), made[1].missing


def test_scram_needs_more_of_the_library():
    """Proton of itself has PLAIN and EXTERNAL only: what the maintainer needs is said in the first lines."""
    typed = Access(user="alice", password=Secret(env="ALICE"), mechanism="SCRAM-SHA-256")

    assert "python-qpid-proton with Cyrus SASL." in written("amqp", typed).text
    assert "'SCRAM-SHA-256'" in written("amqp", typed).text
