"""What the tests of brokers share: a ledger, commands of a few lines as brokers, and this folder on the path."""

from __future__ import annotations

import pathlib
import sys
import types
from collections.abc import Callable, Iterator

import pytest
from starts import starts_process

from conformance import adapters
from conformance.adapters.launch import native
from conformance.ledger import Ledger

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from owned_broker import running, theirs
from pretend_engine import pretend

__all__ = ["pretend", "running", "theirs"]


@pytest.fixture
def ledger(tmp_path: pathlib.Path) -> Iterator[Ledger]:
    """The ledger of a run of its own."""
    with Ledger(tmp_path / "run", f"adapters-{tmp_path.parent.name}-{tmp_path.name}") as book:
        yield book


LISTEN = """
import http.server, json, os, pathlib, signal, socket, subprocess, sys, threading, time
said = dict(word.split("=", 1) for word in sys.argv[1:])

def amqp(port, answer=b"AMQP\\3\\1\\0\\0"):
    listener = socket.create_server(("127.0.0.1", int(port)))
    print("listens", flush=True)
    while True:
        line, _ = listener.accept()
        if line.recv(8)[:4] == b"AMQP":
            line.sendall(answer)
        line.close()

class Web(http.server.BaseHTTPRequestHandler):
    seen = []
    def do_GET(self):
        self.seen.append(self.path)
        self.give(200, {"states": [{"state": "ACTIVE" if len(self.seen) > 3 else "RECOVERING"}]})
    def do_PUT(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        with open(said["puts"], "a") as log:
            log.write(f"{self.path} {body} {self.headers['Authorization']}\\n")
        self.give(int(said.get("status", 201)), {"said": "no such virtual host"})
    def give(self, status, answer):
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *words):
        pass

def web(port):
    threading.Thread(target=http.server.HTTPServer(("127.0.0.1", int(port)), Web).serve_forever, daemon=True).start()
"""
"""What brokers here begin with; their words are `name=value`."""

TOML = """
name = "fake"
title = "Fake"
vendor = "tests"
default_version = "1.0"
capabilities = []
ports = ["amqp", "http"]
[protocols.amqp]
port = "amqp"
[settings.level]
type = "int"
default = 3
stock = 3
scale = 1000
description = "stands for any setting"
[start]
command = ["{python}", "{here}/broker.py", "amqp={amqp_port}", "http={http_port}", "level={setting.level}"]
ready_s = 10
stop_s = 5
[depth]
method = "http"
[data]
path = "{instance}/data"
[journal]
path = "{instance}/data"
"""


Make = Callable[..., native.NativeBroker]


@pytest.fixture
@starts_process
def make(tmp_path: pathlib.Path, ledger: Ledger) -> Iterator[Make]:
    """`make(script, start="keys of [start]", more="other tables")`: a broker, closed at the end."""
    made: list[native.NativeBroker] = []

    def prepared(
        script: str,
        start: str = "",
        more: str = "",
        command: str = "",
        prove: Callable[[native.NativeBroker], None] | None = None,
        **overrides: int | str,
    ) -> native.NativeBroker:
        (tmp_path / "broker.py").write_text(LISTEN + script)
        text = TOML.replace("ready_s = 10\n", f"{start}\n" if "ready_s" in start else f"ready_s = 10\n{start}\n")
        if command:
            text = "\n".join(
                f"command = {command}" if line.startswith("command") else line for line in text.split("\n")
            )
            text = text.replace('description = "stands', 'argument = ["level={value}"]\ndescription = "stands')
        (tmp_path / "fake.toml").write_text(text.replace("[depth]", f"{more}\n[depth]", 1))
        adapter = adapters.find(str(tmp_path / "fake.toml"))
        does = {"exchange": lambda broker, queue: prove(broker), "make": lambda broker, queue: None}
        client = types.SimpleNamespace(**does) if prove else None
        made.append(
            adapter.prepare(tmp_path / "broker", adapter.effective(overrides), ["q1", "q2"], ledger, client=client)
        )
        return made[-1]

    yield prepared
    for broker in made:
        broker.close()
