"""A distribution of jars against a small mirror of our own: put together, altered, missing, cut, carried over."""

from __future__ import annotations

import hashlib
import http.server
import pathlib
import threading
from collections.abc import Callable, Iterator

import pytest

from conformance import adapters, paths
from conformance.adapters import FileAdapter
from conformance.adapters.distribution import download, fetch
from conformance.errors import FetchError, UsageError

_JARS = {
    "org.example:core:1.0": b"core" * 50_000,
    "org.example.store:store:7": b"store" * 10,
    "jakarta.jms:api:3.1": b"api",
}


def _path(coordinates: str) -> str:
    group, artifact, version = coordinates.split(":")
    return f"{group.replace('.', '/')}/{artifact}/{version}/{artifact}-{version}.jar"


class Mirror:
    """What it has by path, and the requests that it got; of a path in `cut` it sends half, once."""

    def __init__(self) -> None:
        self.files = {_path(name): body for name, body in _JARS.items()}
        self.asked: list[str] = []
        self.cut: set[str] = set()

    def handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        mirror = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = self.path.removeprefix("/")
                mirror.asked.append(path)
                if path not in mirror.files:
                    self.send_error(404)
                    return
                whole, asked = mirror.files[path], self.headers.get("Range")
                start = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
                rest = whole[start:]
                self.send_response(206 if asked else 200)
                if asked:
                    self.send_header("Content-Range", f"bytes {start}-{len(whole) - 1}/{len(whole)}")
                self.send_header("Content-Length", str(len(rest)))
                self.end_headers()
                self.wfile.write(rest[: len(rest) // 2] if path in mirror.cut else rest)

            def log_message(self, *args: object) -> None:
                pass

        return Handler


@pytest.fixture
def mirror(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mirror]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("CONFORMANCE_DIST", "CONFORMANCE_CA_BUNDLE", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(download, "_PAUSE_S", 0)
    made = Mirror()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), made.handler()) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setenv("CONFORMANCE_MAVEN_URL", f"http://127.0.0.1:{server.server_port}")
        yield made
        server.shutdown()
        thread.join()


@pytest.fixture
def adapter(tmp_path: pathlib.Path) -> FileAdapter:
    return _adapter(tmp_path)


def _adapter(tmp_path: pathlib.Path, change: Callable[[str], str] = str) -> FileAdapter:
    """The bundled broker, as if it were these jars."""
    text = (paths.fixtures() / "brokers/reference/broker.toml").read_text()
    text = text.replace('name = "reference"', 'name = "jarred"')
    text = text.replace('default_version = "bundled"', 'default_version = "1.0"')
    jars = ", ".join(
        f'{{ maven = "{name}", sha512 = "{hashlib.sha512(body).hexdigest()}" }}' for name, body in _JARS.items()
    )
    table = f'\n[fetch]\nfolder = "jarred-{{version}}"\n[fetch.jars]\n"1.0" = [{jars}]\n'
    (tmp_path / "jarred.toml").write_text(change(text + table))
    made = adapters.find(str(tmp_path / "jarred.toml"))
    assert isinstance(made, FileAdapter)
    return made


def test_jars_are_put_together_and_had_once(mirror: Mirror, adapter: FileAdapter) -> None:
    told: list[tuple[int, int | None]] = []
    home = adapter.install(lambda done, total: told.append((done, total)))

    assert {jar.name: jar.read_bytes() for jar in (home / "lib").iterdir()} == {
        path.rsplit("/", 1)[1]: body for path, body in mirror.files.items()
    }
    assert home == fetch.dist() / "jarred-1.0"
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[-1] == (sum(map(len, _JARS.values())), None)
    assert adapter.install(offline=True) == home
    assert mirror.asked == [_path(name) for name in _JARS]


def test_an_altered_jar_is_refused_by_its_coordinates(mirror: Mirror, adapter: FileAdapter) -> None:
    mirror.files[_path("org.example.store:store:7")] = b"altered"

    with pytest.raises(FetchError, match=r"org\.example\.store:store:7: store-7\.jar: SHA-512 is .*, expected"):
        adapter.install()
    assert not (fetch.dist() / "jarred-1.0").exists()
    assert not (fetch.dist() / "store-7.jar").exists()


def test_a_missing_jar_is_named_by_its_coordinates(mirror: Mirror, adapter: FileAdapter) -> None:
    del mirror.files[_path("jakarta.jms:api:3.1")]

    with pytest.raises(FetchError, match=r"^jakarta\.jms:api:3\.1: http://.* not found \(404\)"):
        adapter.install()


def test_a_jar_that_rotted_in_the_cache_is_not_put_in(mirror: Mirror, adapter: FileAdapter) -> None:
    fetch.fetch_all(adapter.artifacts)[0].write_bytes(b"rotten")

    with pytest.raises(FetchError, match=r"core-1\.0\.jar: SHA-512 is .* it was deleted"):
        adapter.install()
    assert (adapter.install() / "lib/core-1.0.jar").read_bytes() == _JARS["org.example:core:1.0"]


def test_what_was_cut_is_resumed_and_what_is_whole_is_kept(mirror: Mirror, adapter: FileAdapter) -> None:
    second = _path("org.example.store:store:7")
    mirror.cut = {second}
    with pytest.raises(FetchError, match=r"org\.example\.store:store:7: .* bytes are kept"):
        adapter.install()
    mirror.cut = set()
    mirror.asked.clear()

    assert (adapter.install() / "lib/store-7.jar").read_bytes() == _JARS["org.example.store:store:7"]
    assert mirror.asked == [second, _path("jakarta.jms:api:3.1")]


def test_a_folder_that_was_carried_over_replaces_the_network(
    mirror: Mirror, adapter: FileAdapter, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    carried = adapters.fetch_to(str(adapter.path), tmp_path / "usb")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other machine"))
    with pytest.raises(FetchError, match=r"core-1\.0\.jar is not in the cache .* `conformance fetch jarred@1\.0 --to"):
        adapter.install(offline=True)
    monkeypatch.setenv("CONFORMANCE_DIST", str(tmp_path / "usb"))
    mirror.asked.clear()

    home = adapter.install(offline=True)

    assert len(carried) == 2 * len(_JARS)
    assert len(list((home / "lib").iterdir())) == len(_JARS)
    assert mirror.asked == []


def test_what_a_killed_process_left_is_not_part_of_the_folder(mirror: Mirror, adapter: FileAdapter) -> None:
    draft = fetch.dist() / ".jarred-1.0.draft" / "lib"
    draft.mkdir(parents=True)
    (draft / "stale.jar").write_bytes(b"half")

    assert len(list((adapter.install() / "lib").iterdir())) == len(_JARS)
    assert not draft.exists()


def test_a_version_without_jars_is_not_to_be_had(adapter: FileAdapter) -> None:
    with pytest.raises(UsageError, match=r"unknown version of jarred '1\.1': did you mean '1\.0'"):
        adapters.find(f"{adapter.path}@1.1")
