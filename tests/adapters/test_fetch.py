"""Distributions from a small mirror of the test: whole, cut, resumed, altered, refused; an archive, and a set of jars."""

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
import zipfile
from collections.abc import Callable, Iterator

import pytest

from conformance import adapters, paths
from conformance.adapters import FileAdapter
from conformance.adapters.distribution import download, fetch
from conformance.adapters.file.launch_tables import Artifact
from conformance.errors import FetchError, NotFoundError, UsageError
from tools import bugs

PATH = "org/example/broker/1.0/broker-1.0-bin.tar.gz"
JARS = {
    "org/example/core/1.0/core-1.0.jar": b"core" * 50_000,
    "org/example/store/store/7/store-7.jar": b"store" * 10,
    "jakarta/jms/api/3.1/api-3.1.jar": b"api",
}
CORE, STORE, API = JARS


def _tarball(member: str = "broker-1.0/bin/run") -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz", compresslevel=0) as archive:
        content = b"#!/bin/sh\n" + bytes(range(256)) * 2000
        entry = tarfile.TarInfo(member)
        entry.size, entry.mode = len(content), 0o755
        archive.addfile(entry, io.BytesIO(content))
    return stream.getvalue()


BODY = _tarball()
HALF = len(BODY) // 2
SUM = hashlib.sha512(BODY).hexdigest()


@dataclasses.dataclass
class Mirror:
    """A Maven repository: its files by path, its faults, and the requests that it got, each with its Range.

    It cuts the next `cuts` answers in half. `always` is a status, headers and thousands of bytes for every request.
    """

    url: str = ""
    files: dict[str, bytes] = dataclasses.field(default_factory=lambda: {PATH: BODY, **JARS})
    cuts: int = 0
    ranges: bool = True
    offset: int = 0
    sum: str = SUM
    lacks_sums: bool = False
    always: tuple[int, dict[str, str], int] | None = None
    requests: list[tuple[str, str | None]] = dataclasses.field(default_factory=list)

    def ranges_asked(self) -> list[str | None]:
        return [asked for path, asked in self.requests if not path.endswith(".sha512")]

    def paths_asked(self) -> list[str]:
        return [path.removeprefix("/") for path, _ in self.requests]

    @contextlib.contextmanager
    def serving(self) -> Iterator[str]:
        mirror = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                mirror.answer(self)

            def log_message(self, *args: object) -> None:
                pass

        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()
            yield f"http://127.0.0.1:{server.server_port}"
            server.shutdown()
            thread.join()

    def answer(self, request: http.server.BaseHTTPRequestHandler) -> None:
        asked = request.headers.get("Range")
        self.requests.append((request.path, asked))
        status, headers, chunks = self.always or (200, {}, 0)
        body = bytes(1000) * chunks
        if not self.always:
            given = request.path.endswith(".sha512") and not self.lacks_sums
            whole = self.sum.encode() if given else self.files.get(self._path(request))
            if whole is None:
                return request.send_error(404)
            start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and self.ranges else 0
            body = whole[start:]
            headers = {"Content-Length": str(len(body))}
            if start:
                status = 206
                headers["Content-Range"] = f"bytes {start + self.offset}-{len(whole) - 1}/{len(whole)}"
            if self.cuts:
                self.cuts -= 1
                body = body[: len(body) // 2]
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name, value)
        request.end_headers()
        with contextlib.suppress(OSError):  # the client hangs up
            request.wfile.write(body)
        return None

    @staticmethod
    def _path(request: http.server.BaseHTTPRequestHandler) -> str:
        return request.path.removeprefix("http://repository.invalid/maven2").removeprefix("/")


@pytest.fixture
def mirror(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mirror]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("CONFORMANCE_DIST", "CONFORMANCE_CA_BUNDLE", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(download, "_PAUSE_S", 0)
    made = Mirror()
    with made.serving() as made.url:
        monkeypatch.setenv("CONFORMANCE_MAVEN_URL", made.url + "/")
        yield made


def _artifact(pin: str | None = SUM) -> Artifact:
    return Artifact(PATH, pin, "broker@1.0")


def _refused(pin: str | None = SUM, *, offline: bool = False) -> str:
    """The error of a fetch, which is one line."""
    with pytest.raises(FetchError) as caught:
        fetch.fetch(_artifact(pin), offline=offline)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# one file


def test_a_download_is_whole_checked_reported_and_done_once(mirror: Mirror) -> None:
    mirror.sum = "not even a sum"  # a pinned sum needs no file beside the archive
    seen: list[tuple[int, int | None]] = []
    file = fetch.fetch(_artifact(), lambda done, total: seen.append((done, total)))

    assert file.read_bytes() == BODY
    assert seen[-1] == (len(BODY), len(BODY))
    assert fetch.beside(file).read_text().split() == [SUM, file.name]
    assert fetch.fetch(_artifact(), offline=True) == file
    assert mirror.ranges_asked() == [None]


def test_without_a_pin_the_sum_beside_the_file_decides(mirror: Mirror) -> None:
    assert fetch.fetch(_artifact(pin=None)).exists()
    assert mirror.requests[0][0].endswith(".sha512")


@pytest.mark.parametrize(
    ("cuts", "ranges", "offset", "asked"),
    [
        (2, True, 0, [None, f"bytes={HALF}-", f"bytes={HALF + (len(BODY) - HALF) // 2}-"]),
        (1, False, 0, [None, f"bytes={HALF}-"]),
        (1, True, 7, [None, f"bytes={HALF}-", None]),
    ],
    ids=["resumed where it was cut", "a server without ranges sends all", "another range is not believed"],
)
def test_a_cut_download(mirror: Mirror, cuts: int, ranges: bool, offset: int, asked: list[str | None]) -> None:
    mirror.cuts, mirror.ranges, mirror.offset = cuts, ranges, offset

    assert fetch.fetch(_artifact()).read_bytes() == BODY
    assert mirror.ranges_asked() == asked


def test_a_later_run_resumes_what_an_earlier_one_left(mirror: Mirror) -> None:
    mirror.cuts = 1 + download.RESUMES

    assert "cut 4 times" in (said := _refused())
    assert "bytes are kept, run the command again" in said
    assert fetch.fetch(_artifact()).read_bytes() == BODY
    assert mirror.ranges_asked()[-1] is not None
    assert len(mirror.ranges_asked()) == 2 + download.RESUMES


def test_a_wrong_sum_deletes_the_file_names_both_and_is_not_retried(mirror: Mirror) -> None:
    wrong = "0" * 128

    assert f"SHA-512 is {SUM}, expected {wrong}: it was deleted" in _refused(pin=wrong)
    assert len(mirror.requests) == 1
    assert not [path for path in fetch.dist().iterdir() if path.suffix in (".gz", ".part")]


def test_a_file_that_rotted_in_the_cache_is_not_used(mirror: Mirror) -> None:
    fetch.fetch(_artifact()).write_bytes(b"rotten")

    assert "it was deleted; run the command again" in _refused()
    assert fetch.fetch(_artifact()).read_bytes() == BODY


def test_offline_a_carried_folder_replaces_the_network(
    mirror: Mirror, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = _refused(offline=True)
    carried = fetch.fetch_to([_artifact()], tmp_path / "usb")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other machine"))
    monkeypatch.setenv("CONFORMANCE_DIST", str(tmp_path / "usb"))

    assert "broker-1.0-bin.tar.gz is not in the cache" in said
    assert "`conformance fetch broker@1.0 --to DIR`" in said
    assert [path.name for path in carried] == ["broker-1.0-bin.tar.gz", "broker-1.0-bin.tar.gz.sha512"]
    assert fetch.fetch(_artifact(pin=None), offline=True).read_bytes() == BODY
    assert len(mirror.ranges_asked()) == 1


def test_a_carried_file_with_another_sum_is_refused_and_kept(
    mirror: Mirror, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "broker-1.0-bin.tar.gz"
    file.write_bytes(b"other")
    monkeypatch.setenv("CONFORMANCE_DIST", str(tmp_path))

    assert f"replace {file}" in _refused()
    assert file.exists()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((404, {}, 0), "not found (404)"),
        ((503, {}, 0), "server failed (503)"),
        ((403, {}, 0), "403"),
        ((302, {"Location": "ftp://127.0.0.1/x", "Content-Length": "0"}, 0), "ftp"),
        ((302, {"Location": "http://[x", "Content-Length": "0"}, 0), ""),
    ],
)
def test_a_refusal_is_not_retried(mirror: Mirror, answer: tuple[int, dict[str, str], int], words: str) -> None:
    mirror.always = answer

    assert words in _refused()
    assert len(mirror.requests) == 1


def test_a_circle_of_redirects_is_named(mirror: Mirror) -> None:
    mirror.always = (302, {"Location": "/again", "Content-Length": "0"}, 0)

    assert "redirects in a circle: look at CONFORMANCE_MAVEN_URL" in _refused()


@pytest.mark.parametrize("headers", [{"Content-Length": "20000"}, {}], ids=["by its length", "by its bytes"])
def test_a_file_larger_than_any_distribution_is_refused_and_not_kept(
    mirror: Mirror, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, headers: dict[str, str]
) -> None:
    monkeypatch.setattr(download, "LARGEST", 10_000)
    mirror.always = (200, headers, 20)

    assert " bytes, and 10000 is the limit for such a file" in _refused()
    assert [] == [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and path.stat().st_size]


def test_a_sum_without_end_is_never_read_whole(mirror: Mirror) -> None:
    mirror.always = (200, {}, 200_000)

    assert "and 65536 is the limit for such a file" in _refused(pin=None)


def test_a_version_that_the_repository_lacks_is_an_error_of_the_user(mirror: Mirror, tmp_path: pathlib.Path) -> None:
    """A version that the broker's file names and the repository lacks is an error of the mirror."""
    mirror.always = (404, {}, 0)
    folder = f"{mirror.url}/org/apache/artemis/apache-artemis/"
    with pytest.raises(UsageError, match=r"unknown version of artemis '2\.99'.* known: .*2\.56\.0") as unknown:
        adapters.find("artemis@2.99").install()
    with pytest.raises(UsageError, match="unknown version"):
        adapters.fetch_to("artemis@2.99", tmp_path / "dist")
    with pytest.raises(NotFoundError, match="does this version exist"):
        adapters.find("artemis@2.44.0").install()

    assert str(unknown.value).endswith(f"; the repository lists all versions: {folder}")


def test_a_version_with_only_a_sha1_is_fetched_if_the_user_accepts_it(
    mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The refusal names the file that is there, and both ways out. Later the file is compared with its SHA-512."""
    path = "org/apache/activemq/apache-artemis/2.13.0/apache-artemis-2.13.0-bin.tar.gz"
    mirror.lacks_sums = True
    mirror.files = {path: BODY, f"{path}.sha1": hashlib.sha1(BODY).hexdigest().encode()}
    artemis = adapters.find("artemis@2.13.0")
    with pytest.raises(FetchError) as refused:
        artemis.install()
    monkeypatch.setenv("CONFORMANCE_ACCEPT_SHA1", "1")
    fetched = fetch.fetch(artemis.artifacts[0])
    monkeypatch.delenv("CONFORMANCE_ACCEPT_SHA1")

    assert str(refused.value).startswith(
        f"artemis@2.13.0: the repository has {mirror.url}/{path}, but beside it no SHA"
    )
    assert "CONFORMANCE_ACCEPT_SHA1=1 conformance fetch artemis@2.13.0. Or unpack" in str(refused.value)
    assert str(refused.value).endswith("--adapter artemis@2.13.0:native=FOLDER")
    assert fetched.read_bytes() == BODY
    assert fetched == fetch.fetch(artemis.artifacts[0])
    assert fetch.beside(fetched).read_text().startswith(SUM)


def test_a_file_with_another_sha1_is_deleted(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONFORMANCE_ACCEPT_SHA1", "1")
    mirror.lacks_sums = True
    mirror.files = {PATH: BODY, f"{PATH}.sha1": b"0" * 40}

    assert "SHA-1 is" in _refused(pin=None)
    assert [path.name for path in fetch.dist().iterdir() if path.suffix in (".gz", ".part")] == []


def _unknown_host(monkeypatch: pytest.MonkeyPatch, mirror: Mirror) -> None:
    def unknown(*args: object, **kwargs: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setenv("CONFORMANCE_MAVEN_URL", "http://repository.invalid")
    monkeypatch.setattr(socket, "getaddrinfo", unknown)


def _no_tls(monkeypatch: pytest.MonkeyPatch, mirror: Mirror) -> None:
    monkeypatch.setenv("CONFORMANCE_MAVEN_URL", mirror.url.replace("http:", "https:"))


def _no_bundle(monkeypatch: pytest.MonkeyPatch, mirror: Mirror) -> None:
    monkeypatch.setenv("CONFORMANCE_CA_BUNDLE", "/no/such/bundle.pem")


def _full_disk(monkeypatch: pytest.MonkeyPatch, mirror: Mirror) -> None:
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(download, "_receive", full)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (_unknown_host, "repository.invalid is unknown"),
        (_no_tls, "TLS failed"),
        (_no_bundle, "CONFORMANCE_CA_BUNDLE"),
        (_full_disk, "the disk is full"),
    ],
)
def test_a_fault_of_this_machine_is_one_line(
    mirror: Mirror, monkeypatch: pytest.MonkeyPatch, fault: Callable[..., None], words: str
) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    fault(monkeypatch, mirror)

    assert words in _refused()


def test_the_proxy_of_the_environment_is_used(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    through = Mirror()
    with through.serving() as proxy:
        for name, value in (("HTTP_PROXY", proxy), ("http_proxy", proxy), ("NO_PROXY", ""), ("no_proxy", "")):
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("CONFORMANCE_MAVEN_URL", "http://repository.invalid/maven2")

        assert fetch.fetch(_artifact()).read_bytes() == BODY

    assert through.requests == [(f"http://repository.invalid/maven2/{PATH}", None)]
    assert mirror.requests == []


def _fetch_in_a_process() -> None:
    fetch.fetch(_artifact())


@pytest.mark.process
def test_two_processes_download_once(mirror: Mirror) -> None:
    context = multiprocessing.get_context("fork")
    both = [context.Process(target=_fetch_in_a_process) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join(60)

    assert [process.exitcode for process in both] == [0, 0]
    assert len(mirror.requests) == 1


# unpacking


@pytest.fixture(params=[True, False], ids=["filters", "no filters"])
def _filters(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the filter of Python's own, and without it, as in Python 3.11.2."""
    monkeypatch.setattr(fetch, "_FILTERS", fetch._FILTERS and request.param)


@pytest.mark.usefixtures("_filters")
def test_unpacking_keeps_what_is_executable(mirror: Mirror, tmp_path: pathlib.Path) -> None:
    home = fetch.unpack([fetch.fetch(_artifact())], tmp_path, "broker-1.0")

    assert (home / "bin/run").stat().st_mode & 0o100
    assert fetch.unpack([pathlib.Path("not read")], tmp_path, "broker-1.0") == home


@pytest.mark.usefixtures("_filters")
@pytest.mark.parametrize(
    ("kind", "member", "link"),
    [
        (tarfile.REGTYPE, "../escape", ""),
        (tarfile.REGTYPE, "/absolute/../../escape", ""),
        (tarfile.SYMTYPE, "broker-1.0/link", "../../escape"),
        (tarfile.SYMTYPE, "broker-1.0/link", "/etc"),
        (tarfile.LNKTYPE, "broker-1.0/link", "../escape"),
        (tarfile.FIFOTYPE, "broker-1.0/link", ""),
    ],
)
def test_an_archive_that_leads_out_or_holds_no_file_is_refused(
    tmp_path: pathlib.Path, kind: bytes, member: str, link: str
) -> None:
    archive = tmp_path / "evil.tar.gz"
    archive.write_bytes(_tarball(member))
    if kind != tarfile.REGTYPE:
        with tarfile.open(archive, "w:gz") as stream:
            entry = tarfile.TarInfo(member)
            entry.type, entry.linkname = kind, link
            stream.addfile(entry)

    with pytest.raises(FetchError):
        fetch.unpack([archive], tmp_path / "into", "broker-1.0")
    assert not (tmp_path / "escape").exists()
    assert not (tmp_path / "into" / "broker-1.0").exists()


def test_every_version_that_was_tried_is_pinned() -> None:
    """By its file or by a bug: the sum beside a download is that of the same server, which proves nothing against it."""
    files = {name: adapters.find(name).file for name in adapters.names()}
    tried = {(name, version) for name, file in files.items() if file.fetch for version in file.versions}
    played = [bug for bug in map(bugs.read, bugs.FOLDER.glob("*.toml")) if bug.claims and files[bug.adapter].fetch]
    tried |= {(bug.adapter, version) for bug in played for version in (bug.bad, bug.good) if version}

    assert {("artemis", "2.56.0"), ("qpid", "7.1.4"), ("activemq", "6.1.7")} <= tried
    assert [] == [
        artifact.file
        for name, version in sorted(tried)
        for artifact in adapters.find(f"{name}@{version}").artifacts
        if not artifact.sha512
    ]


def _zip(path: pathlib.Path, *members: str) -> pathlib.Path:
    with zipfile.ZipFile(path, "w") as archive:
        for member in members:
            entry = zipfile.ZipInfo(member)
            entry.external_attr = (0o755 if "bin/" in member else 0o644) << 16
            archive.writestr(entry, "#!/bin/sh\n")
    return path


def test_a_zip_keeps_what_is_executable_and_gets_the_name_of_its_version(tmp_path: pathlib.Path) -> None:
    archive = _zip(tmp_path / "broker.zip", "mq/bin/run", "mq/lib/a.jar")
    home = fetch.unpack([archive], tmp_path, "broker-1.0", "mq")

    assert home == tmp_path / "broker-1.0"
    assert [home.joinpath(name).stat().st_mode & 0o111 for name in ("bin/run", "lib/a.jar")] == [0o111, 0]


def test_a_zip_that_leads_out_stays_inside(tmp_path: pathlib.Path) -> None:
    archive = _zip(tmp_path / "evil.zip", "broker-1.0/a.jar", "../escape", "/absolute/../../escape")
    fetch.unpack([archive], tmp_path / "into", "broker-1.0")

    assert not (tmp_path / "escape").exists()
    assert [path.name for path in (tmp_path / "into" / "broker-1.0").iterdir()] == ["a.jar"]


def test_a_zip_that_is_none_is_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "broken.zip").write_bytes(BODY)

    with pytest.raises(FetchError, match=r"broken\.zip cannot be unpacked"):
        fetch.unpack([tmp_path / "broken.zip"], tmp_path, "broker-1.0")


def test_an_archive_with_another_folder_is_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "other.tar.gz").write_bytes(BODY)

    with pytest.raises(FetchError, match=r"does not unpack to elsewhere-1\.0"):
        fetch.unpack([tmp_path / "other.tar.gz"], tmp_path, "elsewhere-1.0")


# a set of jars


@pytest.fixture
def jarred(mirror: Mirror, tmp_path: pathlib.Path) -> FileAdapter:
    """The bundled broker, as if it were these jars."""
    text = (paths.fixtures() / "brokers/reference/broker.toml").read_text()
    text = text.replace('name = "reference"', 'name = "jarred"').replace('"bundled"', '"1.0"')
    jars = ", ".join(
        f'{{ maven = "{_coordinates(path)}", sha512 = "{hashlib.sha512(body).hexdigest()}" }}'
        for path, body in JARS.items()
    )
    (tmp_path / "jarred.toml").write_text(
        f'{text}\n[fetch]\nfolder = "jarred-{{version}}"\n[fetch.jars]\n"1.0" = [{jars}]\n'
    )
    made = adapters.find(str(tmp_path / "jarred.toml"))
    assert isinstance(made, FileAdapter)
    return made


def _coordinates(path: str) -> str:
    *group, artifact, version, _ = path.split("/")
    return f"{'.'.join(group)}:{artifact}:{version}"


def test_jars_are_put_together_and_fetched_once(mirror: Mirror, jarred: FileAdapter) -> None:
    draft = fetch.dist() / ".jarred-1.0.draft" / "lib"  # a killed process left it
    draft.mkdir(parents=True)
    (draft / "stale.jar").write_bytes(b"half")
    seen: list[tuple[int, int | None]] = []
    home = jarred.install(lambda done, total: seen.append((done, total)))

    assert {jar.name: jar.read_bytes() for jar in (home / "lib").iterdir()} == {
        path.rsplit("/", 1)[1]: body for path, body in JARS.items()
    }
    assert (home, draft.exists()) == (fetch.dist() / "jarred-1.0", False)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1] == (sum(map(len, JARS.values())), None)
    assert jarred.install(offline=True) == home
    assert mirror.paths_asked() == list(JARS)


def test_a_jar_that_is_altered_or_missing_is_named_by_its_coordinates(mirror: Mirror, jarred: FileAdapter) -> None:
    mirror.files[STORE] = b"altered"
    with pytest.raises(FetchError, match=r"^org\.example\.store:store:7: store-7\.jar: SHA-512 is .*, expected"):
        jarred.install()
    del mirror.files[STORE]
    with pytest.raises(FetchError, match=r"^org\.example\.store:store:7: http://.* not found \(404\)"):
        jarred.install()

    assert not (fetch.dist() / "jarred-1.0").exists()
    assert not (fetch.dist() / "store-7.jar").exists()


def test_a_jar_that_was_cut_is_resumed_and_a_whole_one_is_kept(mirror: Mirror, jarred: FileAdapter) -> None:
    mirror.files = {path: body for path, body in mirror.files.items() if path == CORE}
    with pytest.raises(FetchError, match="404"):
        jarred.install()
    mirror.files, mirror.cuts = {**JARS}, 1 + download.RESUMES
    with pytest.raises(FetchError, match=r"org\.example\.store:store:7: .* bytes are kept"):
        jarred.install()
    mirror.requests.clear()

    assert (jarred.install() / "lib/store-7.jar").read_bytes() == JARS[STORE]
    assert mirror.paths_asked() == [STORE, API]


def test_a_carried_folder_of_jars_replaces_the_network(
    mirror: Mirror, jarred: FileAdapter, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    carried = adapters.fetch_to(str(jarred.path), tmp_path / "usb")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other machine"))
    with pytest.raises(FetchError, match=r"core-1\.0\.jar is not in the cache .* `conformance fetch jarred@1\.0 --to"):
        jarred.install(offline=True)
    monkeypatch.setenv("CONFORMANCE_DIST", str(tmp_path / "usb"))
    mirror.requests.clear()

    assert len(carried) == 2 * len(JARS)
    assert len(list((jarred.install(offline=True) / "lib").iterdir())) == len(JARS)
    assert mirror.requests == []


def test_a_version_without_jars_is_unknown(jarred: FileAdapter) -> None:
    with pytest.raises(UsageError, match=r"unknown version of jarred '1\.1': did you mean '1\.0'"):
        adapters.find(f"{jarred.path}@1.1")


def test_a_folder_with_the_jars_of_an_older_list_is_made_again(tmp_path: pathlib.Path) -> None:
    jars = [tmp_path / "one.jar", tmp_path / "two.jar"]
    for jar in jars:
        jar.write_bytes(b"jar")
    fetch.assemble(jars[:1], tmp_path, "broker-1.0")
    home = fetch.assemble(jars, tmp_path, "broker-1.0")

    assert {"one.jar", "two.jar"} == {jar.name for jar in (home / "lib").iterdir()}


def test_jars_are_added_to_the_folder_of_an_archive(tmp_path: pathlib.Path) -> None:
    """An old version may need what Java had in its time: 2.5.0 of Artemis JAXB, and 2.11.0 not."""
    old, newer = (adapters.find(f"artemis@{version}") for version in ("2.5.0", "2.11.0"))
    archive, jar = tmp_path / "broker.tar.gz", tmp_path / "added-1.jar"
    jar.write_bytes(b"added")
    with tarfile.open(archive, "w:gz") as stream:
        stream.addfile(tarfile.TarInfo("broker-1.0/lib/own.jar"))
    home = fetch.unpack([archive, jar], tmp_path / "into", "broker-1.0")

    assert {"own.jar": b"", "added-1.jar": b"added"} == {
        path.name: path.read_bytes() for path in (home / "lib").iterdir()
    }
    assert [4, 0] == [sum(one.file.endswith(".jar") for one in found.artifacts) for found in (old, newer)]
