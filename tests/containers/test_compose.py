"""docker-compose.yml and the Dockerfile of the suite: what a service there must have, and its health check at work."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import socket
import subprocess
import threading

import pytest
import yaml
from starts import starts_process

from conformance import adapters, paths
from conformance.ledger import Ledger

ROOT = paths.root()
FILE = ROOT / "docker-compose.yml"
SERVICES = yaml.safe_load(FILE.read_text())["services"]
SPOKEN = {"artemis": {5672, 61613}, "qpid": {5672}, "rabbitmq": {5672, 61613}, "classic": {5672, 61613}}


def faults(service):
    """What a service lacks: a pinned version, a health check, ports on 127.0.0.1 only."""
    found = []
    if not re.search(r":\d+\.\d+\.\d+$", service.get("image", "")):
        found.append("no pinned version")
    if "/dev/tcp/" not in " ".join(service.get("healthcheck", {}).get("test", [])):
        found.append("no health check")
    if not service.get("ports") or not all(re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port) for port in service["ports"]):
        found.append("not on 127.0.0.1 only")
    return found


@pytest.mark.parametrize("name", SPOKEN)
def test_a_service(name):
    """And its health check asks at every port that clients are told of."""
    service = SERVICES[name]
    asked = set(map(int, re.findall(r"/dev/tcp/127\.0\.0\.1/(\d+)", " ".join(service["healthcheck"]["test"]))))
    published = {int(port.rsplit(":", 1)[1]) for port in service["ports"]}

    assert [] == faults(service)
    assert SPOKEN[name] == asked
    assert asked < published


def test_what_a_service_may_not_be():
    healthy = SERVICES["artemis"]

    assert SPOKEN.keys() == SERVICES.keys()
    assert ["no pinned version"] == faults({**healthy, "image": "apache/artemis:latest"})
    assert ["no health check"] == faults({**healthy, "healthcheck": {"test": ["CMD", "curl", "localhost"]}})
    assert ["not on 127.0.0.1 only"] == faults({**healthy, "ports": ["5672:5672"]})
    assert len({port for one in SERVICES.values() for port in one["ports"]}) == sum(
        len(o["ports"]) for o in SERVICES.values()
    )


def test_versions_are_those_of_the_brokers_here():
    """Of those that have a folder in fixtures/brokers, under the product's name."""
    folders = {"artemis": "artemis", "qpid": "qpid", "classic": "activemq"}
    found = {
        name: (SERVICES[name]["image"].rpartition(":")[2], adapters.find(folder).version)
        for name, folder in folders.items()
        if folder in adapters.names()
    }

    assert found
    assert {name: (one, one) for name, (one, _) in found.items()} == found


def check_of(name, ports):
    """The health check as the engine runs it: `$$` is one `$`, and these ports instead of those in the image."""
    words = [word.replace("$$", "$") for word in SERVICES[name]["healthcheck"]["test"]]
    assert "CMD" == words[0]
    for inside, port in ports.items():
        words = [word.replace(f"/dev/tcp/127.0.0.1/{inside}", f"/dev/tcp/127.0.0.1/{port}") for word in words]
    return words[1:]


def healthy(name, ports):
    return subprocess.run(check_of(name, ports), capture_output=True, timeout=30, check=False).returncode == 0


@pytest.fixture(scope="module")
@starts_process
def broker(tmp_path_factory):
    """The bundled one: it speaks both protocols, and HTTP at a third port."""
    folder = tmp_path_factory.mktemp("compose")
    adapter = adapters.find("reference")
    with (
        Ledger(folder, f"compose-{folder.name}") as ledger,
        adapter.prepare(folder / "broker", adapter.effective(), ["q"], ledger) as made,
    ):
        made.start()
        yield made


def server(answer):
    """Something that takes connections and says this; the port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def loop():
        while True:
            line, _ = listener.accept()
            with contextlib.suppress(OSError):  # who asks may be gone by then
                line.recv(64)
                line.sendall(answer)
                line.shutdown(socket.SHUT_WR)

    threading.Thread(target=loop, daemon=True).start()
    return listener.getsockname()[1]


@pytest.mark.parametrize("name", SPOKEN)
def test_a_health_check_is_an_answer_in_each_protocol(broker, name):
    amqp, stomp = broker.endpoint("amqp")[1], broker.endpoint("stomp")[1]
    both = SPOKEN[name] == {5672, 61613}

    assert healthy(name, {5672: amqp, 61613: stomp})
    assert not healthy(name, {5672: server(b""), 61613: stomp})
    assert not healthy(name, {5672: server(b"AMQP\x00\x00\x09\x01"), 61613: stomp})
    assert not healthy(name, {5672: broker.service.endpoint("http")[1], 61613: stomp})
    assert both != healthy(name, {5672: amqp, 61613: server(b"ERROR\n\n\0")})


def compose():
    """`docker compose`, or the older `docker-compose`; None where neither is."""
    for words in (["docker", "compose"], ["docker-compose"]):
        if (
            shutil.which(words[0])
            and subprocess.run([*words, "version"], capture_output=True, check=False).returncode == 0
        ):
            return words
    return None


@pytest.mark.process
def test_compose_itself_takes_the_file():
    words = compose()
    if words is None:
        pytest.skip("neither `docker compose` nor `docker-compose` is installed")
    done = subprocess.run([*words, "--file", str(FILE), "config"], capture_output=True, text=True, check=True)
    read = yaml.safe_load(done.stdout)["services"]

    assert {name: one["image"] for name, one in SERVICES.items()} == {name: one["image"] for name, one in read.items()}
    assert all(one["healthcheck"]["retries"] == 60 for one in read.values())


def test_the_broker_that_is_built_is_the_one_that_is_pinned():
    """Its sum is that of fixtures/brokers, and its configuration is JSON with the ports that are published."""
    folder = ROOT / SERVICES["qpid"]["build"]["context"]
    text = (folder / "Dockerfile").read_text()
    version = SERVICES["qpid"]["image"].rpartition(":")[2]
    ports = {port["port"] for port in json.loads((folder / "initial.json").read_text())["ports"]}

    assert f"/{version}/apache-qpid-broker-j-{version}-bin.tar.gz" in text
    assert re.search(r"ARG SHA512=(\w{128})\n", text)[1] == adapters.find("qpid").file.fetch.sha512[version]
    assert {port.rsplit(":", 1)[1] for port in SERVICES["qpid"]["ports"]} == ports


def test_the_dockerfile_of_the_suite():
    """It stands on BASE_IMAGE in every stage, runs as a user of its own, and copies what the wheel is made of."""
    text = (ROOT / "Dockerfile").read_text()
    froms = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    kept = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    copied = set(" ".join(re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE)).replace("*", "").split())

    assert ["${BASE_IMAGE}", "${BASE_IMAGE}"] == froms
    assert "conformance" == re.findall(r"^USER (\S+)$", text, re.MULTILINE)[-1]
    assert 'ENTRYPOINT ["conformance"]' in text
    assert set(kept) == copied
