"""Downloads against a small mirror of our own: whole, cut, resumed, wrong, refused."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import http.server
import io
import multiprocessing
import pathlib
import socket
import tarfile
import threading
from collections.abc import Iterator

import pytest

from conformance import adapters
from conformance.adapters.distribution import download, fetch
from conformance.adapters.file.launch_tables import Artifact
from conformance.errors import FetchError, NotFoundError, UsageError

_PATH = "org/example/broker/1.0/broker-1.0-bin.tar.gz"


def _tarball(member: str = "broker-1.0/bin/run") -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz", compresslevel=0) as archive:
        content = b"#!/bin/sh\n" + bytes(range(256)) * 2000
        entry = tarfile.TarInfo(member)
        entry.size, entry.mode = len(content), 0o755
        archive.addfile(entry, io.BytesIO(content))
    return stream.getvalue()


BODY = _tarball()
SUM = hashlib.sha512(BODY).hexdigest()


@dataclasses.dataclass
class Mirror:
    """A Maven repository with one file, and its bad days."""

    url: str = ""
    cuts: int = 0
    ranges: bool = True
    status: int = 200
    offset: int = 0
    sum: str = SUM
    requests: list[tuple[str, str | None]] = dataclasses.field(default_factory=list)

    def bodies(self) -> list[str | None]:
        """The Range header of each request for the file itself."""
        return [asked for path, asked in self.requests if path.endswith(".gz")]


def _handler(mirror: Mirror) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.headers.get("Range")
            mirror.requests.append((self.path, asked))
            if mirror.status != 200:
                self.send_error(mirror.status)
            elif self.path.endswith(".sha512"):
                self._answer(200, mirror.sum.encode(), len(mirror.sum))
            else:
                self._file(int(asked.removeprefix("bytes=").rstrip("-")) if asked and mirror.ranges else 0)

        def _file(self, start: int) -> None:
            rest = BODY[start:]
            sent = rest
            if mirror.cuts:
                mirror.cuts -= 1
                sent = rest[: len(rest) // 2]
            first = start + mirror.offset
            extra = {"Content-Range": f"bytes {first}-{len(BODY) - 1}/{len(BODY)}"} if start else {}
            self._answer(206 if start else 200, sent, len(rest), extra)

        def _answer(self, status: int, body: bytes, length: int, extra: dict[str, str] | None = None) -> None:
            self.send_response(status)
            for name, value in {**(extra or {}), "Content-Length": str(length)}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    return Handler


@contextlib.contextmanager
def _serving(handler: type[http.server.BaseHTTPRequestHandler]) -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def mirror(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mirror]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("CONFORMANCE_DIST", "CONFORMANCE_CA_BUNDLE", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(download, "_PAUSE_S", 0)
    made = Mirror()
    with _serving(_handler(made)) as url:
        made.url = url
        monkeypatch.setenv("CONFORMANCE_MAVEN_URL", url + "/")
        yield made


def _artifact(pin: str | None = SUM) -> Artifact:
    return Artifact(_PATH, pin, "broker@1.0")


def test_a_download_is_whole_checked_and_reported(mirror: Mirror) -> None:
    seen: list[tuple[int, int | None]] = []

    file = fetch.fetch(_artifact(), lambda done, total: seen.append((done, total)))

    assert file.read_bytes() == BODY
    assert seen[-1] == (len(BODY), len(BODY))
    assert fetch.beside(file).read_text().split() == [SUM, file.name]
    assert mirror.bodies() == [None]


def test_what_is_in_the_cache_is_not_fetched_again(mirror: Mirror) -> None:
    fetch.fetch(_artifact())
    fetch.fetch(_artifact(), offline=True)

    assert len(mirror.bodies()) == 1


def test_a_pinned_sum_needs_no_file_beside_it(mirror: Mirror) -> None:
    mirror.sum = "not even a sum"

    assert fetch.fetch(_artifact()).exists()


def test_without_a_pin_the_sum_beside_the_file_decides(mirror: Mirror) -> None:
    assert fetch.fetch(_artifact(pin=None)).exists()
    assert mirror.requests[0][0].endswith(".sha512")


def test_a_cut_download_is_resumed_where_it_was_cut(mirror: Mirror) -> None:
    mirror.cuts = 2

    assert fetch.fetch(_artifact()).read_bytes() == BODY
    half = len(BODY) // 2
    assert mirror.bodies() == [None, f"bytes={half}-", f"bytes={half + (len(BODY) - half) // 2}-"]


def test_a_later_run_resumes_what_an_earlier_one_left(mirror: Mirror) -> None:
    mirror.cuts = 1 + download.RESUMES
    with pytest.raises(FetchError, match=r"cut 4 times .* bytes are kept, run the command again"):
        fetch.fetch(_artifact())

    assert fetch.fetch(_artifact()).read_bytes() == BODY
    assert mirror.bodies()[-1] is not None
    assert len(mirror.bodies()) == 2 + download.RESUMES


def test_a_server_without_ranges_sends_the_whole_again(mirror: Mirror) -> None:
    mirror.cuts, mirror.ranges = 1, False

    assert fetch.fetch(_artifact()).read_bytes() == BODY
    assert mirror.bodies()[1] is not None


def test_a_range_that_starts_elsewhere_is_not_believed(mirror: Mirror) -> None:
    mirror.cuts, mirror.offset = 1, 7

    assert fetch.fetch(_artifact()).read_bytes() == BODY
    assert mirror.bodies()[-1] is None


def test_a_wrong_sum_deletes_the_file_names_both_and_is_not_retried(mirror: Mirror) -> None:
    wrong = "0" * 128
    with pytest.raises(FetchError, match=f"SHA-512 is {SUM}, expected {wrong}: it was deleted"):
        fetch.fetch(_artifact(pin=wrong))

    assert len(mirror.bodies()) == 1
    assert not [path for path in fetch.dist().iterdir() if path.suffix in (".gz", ".part")]


def test_a_file_that_rotted_in_the_cache_is_not_used(mirror: Mirror) -> None:
    fetch.fetch(_artifact()).write_bytes(b"rotten")

    with pytest.raises(FetchError, match="it was deleted; run the command again"):
        fetch.fetch(_artifact())
    assert fetch.fetch(_artifact()).read_bytes() == BODY


def test_offline_names_the_file_and_the_way_out(mirror: Mirror) -> None:
    with pytest.raises(FetchError, match=r"broker-1.0-bin.tar.gz .* `conformance fetch broker@1.0 --to DIR`"):
        fetch.fetch(_artifact(), offline=True)
    assert mirror.requests == []


def test_a_folder_that_was_carried_over_replaces_the_network(
    mirror: Mirror, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    carried = fetch.fetch_to([_artifact()], tmp_path / "usb")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other machine"))
    monkeypatch.setenv("CONFORMANCE_DIST", str(tmp_path / "usb"))

    assert [path.name for path in carried] == ["broker-1.0-bin.tar.gz", "broker-1.0-bin.tar.gz.sha512"]
    assert fetch.fetch(_artifact(pin=None), offline=True).read_bytes() == BODY
    assert len(mirror.bodies()) == 1


def test_a_carried_file_with_another_sum_is_refused_and_kept(
    mirror: Mirror, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "broker-1.0-bin.tar.gz"
    file.write_bytes(b"other")
    monkeypatch.setenv("CONFORMANCE_DIST", str(tmp_path))

    with pytest.raises(FetchError, match=f"replace {file}"):
        fetch.fetch(_artifact())
    assert file.exists()


@pytest.mark.parametrize(
    ("status", "words"), [(404, r"not found \(404\)"), (503, r"server failed \(503\)"), (403, "403")]
)
def test_a_refusal_is_one_line_and_not_retried(mirror: Mirror, status: int, words: str) -> None:
    mirror.status = status

    with pytest.raises(FetchError, match=words) as caught:
        fetch.fetch(_artifact())
    assert "\n" not in str(caught.value)
    assert len(mirror.requests) == 1


def test_a_version_that_the_repository_lacks_is_a_wrong_word(mirror: Mirror, tmp_path: pathlib.Path) -> None:
    """It was an error of the suite (exit 3); a version that the file names is one, of the mirror."""
    mirror.status = 404
    folder = f"{mirror.url}/org/apache/artemis/apache-artemis/"
    with pytest.raises(UsageError, match=r"unknown version of artemis '2\.99'.* known: .*2\.56\.0") as unknown:
        adapters.find("artemis@2.99").install()
    with pytest.raises(UsageError, match="unknown version"):
        adapters.fetch_to("artemis@2.99", tmp_path / "dist")
    with pytest.raises(NotFoundError, match="does this version exist"):
        adapters.find("artemis@2.44.0").install()

    assert str(unknown.value).endswith(f"; the repository lists all versions: {folder}")


def test_a_name_that_is_not_known_says_so(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*args: object, **kwargs: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setenv("CONFORMANCE_MAVEN_URL", "http://repository.invalid")
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setattr(socket, "getaddrinfo", unknown)

    with pytest.raises(FetchError, match=r"repository\.invalid is unknown"):
        fetch.fetch(_artifact())


def test_a_server_that_speaks_no_tls_says_so(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("CONFORMANCE_MAVEN_URL", mirror.url.replace("http:", "https:"))

    with pytest.raises(FetchError, match="TLS failed"):
        fetch.fetch(_artifact())


def test_a_certificate_file_that_is_not_there_is_named(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONFORMANCE_CA_BUNDLE", "/no/such/bundle.pem")

    with pytest.raises(FetchError, match="CONFORMANCE_CA_BUNDLE"):
        fetch.fetch(_artifact())


def test_a_full_disk_is_one_line(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(download, "_receive", full)

    with pytest.raises(FetchError, match="the disk is full"):
        fetch.fetch(_artifact())


def test_the_proxy_of_the_environment_is_used(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    with _serving(_handler(through := Mirror())) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy)
        monkeypatch.setenv("http_proxy", proxy)
        monkeypatch.setenv("NO_PROXY", "")
        monkeypatch.setenv("no_proxy", "")
        monkeypatch.setenv("CONFORMANCE_MAVEN_URL", "http://repository.invalid/maven2")

        assert fetch.fetch(_artifact()).read_bytes() == BODY

    assert through.requests == [(f"http://repository.invalid/maven2/{_PATH}", None)]
    assert mirror.requests == []


def _fetch_in_a_process() -> None:
    fetch.fetch(_artifact())


def test_two_processes_download_once(mirror: Mirror) -> None:
    context = multiprocessing.get_context("fork")
    both = [context.Process(target=_fetch_in_a_process) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join(30)

    assert [process.exitcode for process in both] == [0, 0]
    assert len(mirror.bodies()) == 1


@pytest.fixture(params=[True, False], ids=["filters", "no filters"])
def _filters(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the filter of Python's own where there is one, and as where there is none (3.11.2)."""
    monkeypatch.setattr(fetch, "_FILTERS", fetch._FILTERS and request.param)


@pytest.mark.usefixtures("_filters")
def test_unpacking_keeps_what_is_executable(mirror: Mirror, tmp_path: pathlib.Path) -> None:
    home = fetch.unpack([fetch.fetch(_artifact())], tmp_path, "broker-1.0")

    assert (home / "bin/run").stat().st_mode & 0o100
    assert fetch.unpack([pathlib.Path("not read")], tmp_path, "broker-1.0") == home


@pytest.mark.usefixtures("_filters")
@pytest.mark.parametrize("member", ["../escape", "/absolute/../../escape"])
def test_an_archive_that_leads_out_is_refused(tmp_path: pathlib.Path, member: str) -> None:
    archive = tmp_path / "evil.tar.gz"
    archive.write_bytes(_tarball(member))

    with pytest.raises(FetchError):
        fetch.unpack([archive], tmp_path / "into", "broker-1.0")
    assert not (tmp_path / "escape").exists()
    assert not (tmp_path / "into" / "broker-1.0").exists()


@pytest.mark.usefixtures("_filters")
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (tarfile.SYMTYPE, "../../escape"),
        (tarfile.SYMTYPE, "/etc"),
        (tarfile.LNKTYPE, "../escape"),
        (tarfile.FIFOTYPE, ""),
    ],
)
def test_what_is_no_file_of_the_archive_is_refused(tmp_path: pathlib.Path, kind: bytes, name: str) -> None:
    archive = tmp_path / "evil.tar.gz"
    with tarfile.open(archive, "w:gz") as stream:
        member = tarfile.TarInfo("broker-1.0/link")
        member.type, member.linkname = kind, name
        stream.addfile(member)

    with pytest.raises(FetchError, match="cannot be unpacked"):
        fetch.unpack([archive], tmp_path / "into", "broker-1.0")
    assert not (tmp_path / "into" / "broker-1.0").exists()


@pytest.mark.usefixtures("_filters")
def test_an_archive_with_another_folder_is_refused(tmp_path: pathlib.Path) -> None:
    archive = tmp_path / "other.tar.gz"
    archive.write_bytes(BODY)

    with pytest.raises(FetchError, match=r"does not unpack to elsewhere-1\.0"):
        fetch.unpack([archive], tmp_path, "elsewhere-1.0")


def test_a_folder_with_the_jars_of_an_older_list_is_made_again(tmp_path: pathlib.Path) -> None:
    """A cache of an earlier version of a broker.toml must not leave out a jar that the file lists by now."""
    jars = [tmp_path / "one.jar", tmp_path / "two.jar"]
    for jar in jars:
        jar.write_bytes(b"jar")
    fetch.assemble(jars[:1], tmp_path, "broker-1.0")

    home = fetch.assemble(jars, tmp_path, "broker-1.0")

    assert {"one.jar", "two.jar"} == {jar.name for jar in (home / "lib").iterdir()}


@contextlib.contextmanager
def _answering(monkeypatch: pytest.MonkeyPatch, status: int, headers: dict[str, str], chunks: int) -> Iterator[None]:
    """A repository that answers every request in this way, with so many chunks of 1,000 bytes."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            with contextlib.suppress(OSError):  # the client hangs up
                for _ in range(chunks):
                    self.wfile.write(bytes(1000))

        def log_message(self, *args: object) -> None:
            pass

    with _serving(Handler) as url:
        monkeypatch.setenv("CONFORMANCE_MAVEN_URL", url)
        yield


@pytest.mark.parametrize("headers", [{"Content-Length": "20000"}, {}], ids=["told", "counted"])
def test_a_file_larger_than_any_distribution(
    mirror: Mirror, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, headers: dict[str, str]
) -> None:
    """Refused by its length, or by what has come; nothing is kept that a later run would resume."""
    monkeypatch.setattr(download, "LARGEST", 10_000)
    with (
        _answering(monkeypatch, 200, headers, 20),
        pytest.raises(FetchError, match=r"sends at least \d+ bytes, and 10000 is the limit for such a file"),
    ):
        fetch.fetch(_artifact())

    assert [] == [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and path.stat().st_size]


def test_a_sum_without_end(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is never read whole."""
    with (
        _answering(monkeypatch, 200, {}, 200_000),
        pytest.raises(FetchError, match="and 65536 is the limit for such a file"),
    ):
        fetch.fetch(_artifact(pin=None))


@pytest.mark.parametrize(
    ("to", "words"),
    [
        ("/again", "redirects in a circle: look at CONFORMANCE_MAVEN_URL"),
        ("ftp://127.0.0.1/x", "ftp"),
        ("http://[x", ""),
    ],
)
def test_a_redirect_that_leads_nowhere_is_one_line(
    mirror: Mirror, monkeypatch: pytest.MonkeyPatch, to: str, words: str
) -> None:
    with _answering(monkeypatch, 302, {"Location": to, "Content-Length": "0"}, 0), pytest.raises(FetchError) as caught:
        fetch.fetch(_artifact())

    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
