"""The brokers of docker-compose.yml as native ones: the same configuration and users, other ports, no container.

Where no image can be pulled, this is what is left to show that the documented lines work with these settings.
"""

from __future__ import annotations

import json
import pathlib
import re
import shutil
from collections.abc import Mapping

import yaml

from conformance import paths
from conformance.adapters import FileAdapter, find

SERVICES = yaml.safe_load((paths.root() / "docker-compose.yml").read_text())["services"]
PRODUCTS = {"artemis": "artemis", "qpid": "qpid", "rabbitmq": "rabbitmq", "activemq": "classic"}
"""The product's name here, and that of its service."""

_FOLDER = paths.root() / "fixtures/brokers"
_COMPOSE = paths.root() / "examples/compose"


def adapter_of(name: str, folder: pathlib.Path) -> FileAdapter:
    """A native broker of that product with the configuration of its service; its file is made in `folder`."""
    here = folder / name
    shutil.copytree(_FOLDER / name, here)
    file = here / "broker.toml"
    file.write_text(_EDITS[name](file.read_text(), here))
    adapter = find(str(file))
    assert isinstance(adapter, FileAdapter)
    return adapter


def _artemis(text: str, _: pathlib.Path) -> str:
    assert '"--user", "conformance", "--password", "conformance",' in text
    assert {"conformance"} == {*SERVICES["artemis"]["environment"].values()}
    return text.replace('"--allow-anonymous"', '"--require-login"')


def _rabbitmq(text: str, _: pathlib.Path) -> str:
    said = SERVICES["rabbitmq"]["environment"]
    login = f"{said['RABBITMQ_DEFAULT_USER']}:{said['RABBITMQ_DEFAULT_PASS']}@127.0.0.1:{{http_port}}"
    start, end = text.split("[start]")
    return f"{start}[start]{end.replace('guest:guest@127.0.0.1:{http_port}', login)}".replace(
        "[start.environment]\n", f"[start.environment]\n{_toml(said)}"
    )


def _qpid(text: str, here: pathlib.Path) -> str:
    config = json.loads((_COMPOSE / "qpid/initial.json").read_text())
    for port, name in zip(config["ports"], ("amqp", "http"), strict=True):
        port |= {"port": f"{{{name}_port}}", "bindingAddress": "127.0.0.1"}
    stock = json.loads((here / "initial.json").read_text())
    (here / "initial.json").write_text(json.dumps({**config, "brokerloggers": stock["brokerloggers"]}))
    ((user,),) = (provider["users"] for provider in config["authenticationproviders"])
    login = f"{user['name']}:{user['password']}@127.0.0.1:{{http_port}}"
    return text.replace("127.0.0.1:{http_port}", login)


def _classic(text: str, here: pathlib.Path) -> str:
    mounted, inside, _ = SERVICES["classic"]["volumes"][0].split(":")
    assert inside.endswith("/conf/activemq.xml")
    config = (paths.root() / mounted).read_text()
    config = config.replace('<import resource="jetty.xml"/>', "")  # the web console, whose jars are not here
    config = config.replace("0.0.0.0:5672", "127.0.0.1:{amqp_port}").replace("0.0.0.0:61613", "127.0.0.1:{stomp_port}")
    (here / "activemq.xml").write_text(config.replace("${activemq.data}", "instance/data"))
    return text


_EDITS = {"artemis": _artemis, "rabbitmq": _rabbitmq, "qpid": _qpid, "activemq": _classic}


def _toml(table: Mapping[str, str]) -> str:
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())


def line_of(name: str, text: str) -> str:
    """The words after `conformance` of the documented line for that product."""
    (found_line,) = re.findall(rf"conformance (run --adapter {name}:external=.*)", text)
    return str(found_line)
