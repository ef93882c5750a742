"""What a client needs to come in, as data: URLs, the table of a file, what goes together, and no secret anywhere."""

import base64
import json
import pathlib

import msgspec
import pytest

from conformance import adapters
from conformance.adapters.credentials import (
    OPEN,
    REDACTED,
    Access,
    ClientTls,
    Secret,
    check,
    mechanism_of,
    parse_url,
    redact_passwords,
)
from conformance.adapters.file.model import BrokerFile
from conformance.adapters.file.reading import read_table
from conformance.errors import UsageError

HERE = pathlib.Path("/somewhere")
LOGIN = Access(user="alice", password=Secret(env="SECRET"))


@pytest.fixture
def table():
    """A broker's file with this `[access]`."""
    reference = adapters.find("reference").file.model_dump()

    def of(access) -> BrokerFile:
        return read_table({**reference, "access": access}, HERE)

    return of


@pytest.mark.parametrize(
    ("text", "shown", "access"),
    [
        ("amqp://broker.example", "amqp://broker.example:5672", OPEN),
        ("amqps://alice@broker.example", "amqps://alice@broker.example:5671", Access(user="alice", tls=ClientTls())),
        ("stomp://127.0.0.1:1/", "stomp://127.0.0.1:1", OPEN),
        ("STOMP+SSL://[::1]", "stomp+ssl://[::1]:61614", Access(tls=ClientTls())),
        ("amqp://a%40b@h:7", "amqp://a%40b@h:7", Access(user="a@b")),
        ("tcp://ems.example", "tcp://ems.example:7222", OPEN),
        ("ssl://ems.example", "ssl://ems.example:7243", Access(tls=ClientTls())),
    ],
)
def test_a_url_is_protocol_place_and_access(text, shown, access):
    url = parse_url(text)

    assert (str(url), url.access) == (shown, access)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("broker.example:5672", "no scheme"),
        ("stmp://h", "did you mean 'stomp'"),
        ("amqp://", "no host"),
        ("amqp://h:99999", "malformed host or port"),
        ("amqp://h:0", "port 0"),
        ("amqp://h/vhost", "nothing after it"),
        ("amqps://alice:hunter2@h", "--password-env or --password-file"),
        ("amqps://alice:hunter2@", "password in it"),
    ],
)
def test_a_wrong_url_says_what_is_wrong_and_repeats_no_password(text, said):
    with pytest.raises(UsageError, match=said) as caught:
        parse_url(text)

    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("access", "mechanism"),
    [
        (OPEN, "ANONYMOUS"),
        (Access(tls=ClientTls(ca="ca.pem")), "ANONYMOUS"),
        (LOGIN, "PLAIN"),
        (Access(tls=ClientTls(certificate="c", key="k")), "EXTERNAL"),
        (LOGIN.merged(Access(tls=ClientTls(certificate="c", key="k"))), "PLAIN"),
        (LOGIN.merged(Access(mechanism="SCRAM-SHA-256")), "SCRAM-SHA-256"),
    ],
)
def test_what_is_given_decides_the_mechanism(access, mechanism):
    assert mechanism_of(access) == mechanism
    check(access, "amqp")


@pytest.mark.parametrize(
    ("access", "protocol", "said"),
    [
        (Access(user="alice"), "amqp", "give --password-env or --password-file too"),
        (Access(password=Secret(env="SECRET")), "stomp", "give --user too"),
        (Access(tls=ClientTls(certificate="c")), "amqp", "--tls-cert and --tls-key"),
        (Access(mechanism="EXTERNAL"), "amqp", "EXTERNAL is the client's certificate"),
        (Access(mechanism="SCRAM-SHA-256"), "amqp", "SCRAM-SHA-256 is a login"),
        (Access(mechanism="PLAN"), "amqp", "did you mean 'PLAIN'"),
        (LOGIN.merged(Access(mechanism="PLAIN")), "stomp", "stomp has none"),
    ],
)
def test_words_that_do_not_go_together(access, protocol, said):
    with pytest.raises(UsageError, match=said):
        check(access, protocol)


@pytest.mark.parametrize(
    ("secret", "content", "said"),
    [
        (Secret(env="NOT_SET"), None, "the environment variable NOT_SET is not set"),
        (Secret(file="none"), None, "the file none cannot be read: No such file"),
        (Secret(file="empty"), b"\n", "the file empty is empty"),
        (Secret(file="binary"), b"\xff\xfe", "is not UTF-8"),
    ],
)
def test_a_secret_that_is_not_there(secret, content, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if content is not None:
        (tmp_path / secret.file).write_bytes(content)

    with pytest.raises(UsageError, match=said):
        secret.read()


def test_a_secret_is_the_one_line_of_its_file(tmp_path):
    """Spaces are part of it, the end of the line is not."""
    (tmp_path / "password").write_bytes(b" sec ret \r\n")

    assert Secret(file=str(tmp_path / "password")).read() == " sec ret "


def test_a_secret_is_taken_out_in_every_form(monkeypatch):
    monkeypatch.setenv("SECRET", 'p"w/ö')
    sasl = base64.b64encode('\0alice\0p"w/ö'.encode()).decode()
    basic = base64.b64encode('alice:p"w/ö'.encode()).decode()
    said = f'{json.dumps("p" + chr(34) + "w/ö")} p"w/ö {sasl} {basic} p%22w%2F%C3%B6 alice'

    assert redact_passwords(said, LOGIN) == f'"{REDACTED}" {REDACTED} {REDACTED} {REDACTED} {REDACTED} alice'
    assert redact_passwords(said, OPEN) == said


def test_an_access_that_travels_holds_no_secret(monkeypatch):
    monkeypatch.setenv("SECRET", "hunter2")

    assert b"hunter2" not in msgspec.json.encode(LOGIN)
    assert "hunter2" not in repr(LOGIN)


def test_the_table_of_a_file_and_of_one_protocol(table):
    """What a protocol does not say is what the whole table says; a mechanism is AMQP's."""
    file = table(
        {
            "user": "alice",
            "password": {"file": "{here}/password"},
            "mechanism": "PLAIN",
            "tls": {"ca": "{here}/ca.pem", "server_name": "broker.example"},
            "stomp": {"user": "bob", "tls": {}},
        }
    )
    secret, tls = Secret(file="/somewhere/password"), ClientTls(ca="/somewhere/ca.pem", server_name="broker.example")

    assert file.credentials("amqp", HERE) == Access(user="alice", password=secret, mechanism="PLAIN", tls=tls)
    assert file.credentials("stomp", HERE) == Access(user="bob", password=secret, tls=ClientTls())


def test_an_address_wins_over_the_file_and_what_is_typed_over_both(table):
    file, at = table({"user": "file", "password": {"env": "A"}}), Access(user="address", tls=ClientTls())
    typed = file.with_credentials(Access(user="typed", tls=ClientTls(ca="x")))

    assert file.credentials("amqp", HERE, at) == Access(user="address", password=Secret(env="A"), tls=ClientTls())
    assert typed.credentials("amqp", HERE, at) == Access(user="typed", password=Secret(env="A"), tls=ClientTls(ca="x"))


def test_what_does_not_go_together_names_broker_and_protocol(table):
    with pytest.raises(UsageError, match="access of reference over stomp: a login is a user and a password"):
        table({"user": "alice"}).credentials("stomp", HERE)
