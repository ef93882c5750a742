"""Get a distribution: find it, compare its checksum, unpack it, and keep it in the cache.

It is looked for in this order: unpacked in the cache, downloaded in the cache, in the folder that `CONFORMANCE_DIST`
names (for machines without network), in the Maven repository. A file is used only if it has the SHA-512 that
`broker.toml` pins, or, for a version without a pin, the SHA-512 in the file beside it. If there is only a SHA-1, the
user must accept it (`CONFORMANCE_ACCEPT_SHA1=1`).

A distribution that a package manager installed (`[installed]`) is only asked for its version.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence

from conformance import paths
from conformance.adapters.file.launch_tables import Artifact, Installed, Progress
from conformance.adapters.file.model import BrokerFile
from conformance.errors import FetchError, NotFoundError, UsageError
from conformance.locks import lock

_TITLES = {"sha512": "SHA-512", "sha1": "SHA-1"}
"""The sums that a repository has beside a file, by the suffix of their files."""


def dist() -> pathlib.Path:
    return paths.cache() / "dist"


def fetch(artifact: Artifact, progress: Progress | None = None, *, offline: bool = False) -> pathlib.Path:
    """Return the checked file in the cache, with its `.sha512` beside it.

    Raises `FetchError` if it cannot be fetched, has another sum, or finds no room.
    """
    target = dist() / artifact.file
    with report_os_errors(f"keep {artifact.file} in {dist()}"), lock(target):
        if target.is_file():
            _check(target, _expected(artifact, target), artifact)
            return target
        given = pathlib.Path(os.environ.get("CONFORMANCE_DIST") or dist()) / artifact.file
        if given.is_file():
            _check(given, _expected(artifact, given), artifact, keep=True)
            _copy(given, target)
        elif offline:
            raise FetchError(
                f"{artifact.file} is not in the cache ({dist()}) and the run is offline: on a machine with network "
                f"`conformance fetch {artifact.adapter} --to DIR`, then set CONFORMANCE_DIST=DIR here"
            )
        else:
            _download(artifact, target, progress)
        beside(target).write_text(f"{_sum(target)}  {target.name}\n")
    return target


def fetch_all(
    artifacts: Sequence[Artifact], progress: Progress | None = None, *, offline: bool = False
) -> list[pathlib.Path]:
    """Return the checked files of a distribution in the cache.

    The bytes that `progress` gets add up; the size of several files is unknown. Raises `FetchError`, which names the
    coordinates of the file if there are several.
    """
    if len(artifacts) == 1:
        return [fetch(artifacts[0], progress, offline=offline)]
    files: list[pathlib.Path] = []
    before = 0

    def of_all(done: int, _: int | None) -> None:
        if progress:
            progress(before + done, None)

    for artifact in artifacts:
        try:
            files.append(fetch(artifact, of_all, offline=offline))
        except FetchError as error:
            raise FetchError(f"{artifact.coordinates}: {error}") from error
        before += files[-1].stat().st_size
    return files


@contextlib.contextmanager
def known_version(file: BrokerFile, version: str) -> Iterator[None]:
    """Raise `UsageError` if the repository lacks a version that the file does not name.

    If the repository lacks a version that the file names, the mirror is at fault: the `FetchError` stays.
    """
    try:
        yield
    except NotFoundError as error:
        if version in file.versions or file.fetch is None:
            raise
        from conformance.adapters.distribution import download

        unknown = UsageError.unknown("version", version, file.versions, of=file.name)
        folder = pathlib.PurePosixPath(file.fetch.artifacts(version, file.name)[0].path).parents[1]
        raise UsageError(f"{unknown}; the repository lists all versions: {download.base()}/{folder}/") from error


def fetch_to(
    artifacts: Sequence[Artifact], folder: pathlib.Path, progress: Progress | None = None
) -> list[pathlib.Path]:
    """Put each file and its `.sha512` into `folder`, for a machine without network; returns all of them."""
    put: list[pathlib.Path] = []
    for fetched in fetch_all(artifacts, progress):
        with report_os_errors(f"write to {folder}"):
            folder.mkdir(parents=True, exist_ok=True)
            for source in (fetched, beside(fetched)):
                put.append(folder / source.name)
                _copy(source, put[-1])
    return put


def unpack(files: Sequence[pathlib.Path], into: pathlib.Path, folder: str, inside: str = "") -> pathlib.Path:
    """Unpack an archive, whose only folder is `inside`; returns `into/folder`, which appears whole or not at all.

    By default `inside` is `folder`. The files after the archive are jars, which go into its `lib`.

    The `data` filter of tar refuses absolute paths, links that lead out and special files.
    """
    archive, *jars = files

    def extract(draft: pathlib.Path) -> pathlib.Path:
        try:
            if archive.suffix == ".zip":
                _extract_zip(archive, draft)
            else:
                with tarfile.open(archive) as stream:
                    _extract(stream, draft)
        except (tarfile.TarError, zipfile.BadZipFile) as error:
            raise FetchError(f"{archive.name} cannot be unpacked: {error}") from error
        found = draft / (inside or folder)
        if not found.is_dir():
            raise FetchError(f"{archive.name} does not unpack to {inside or folder}")
        for jar in jars:
            shutil.copyfile(jar, found / "lib" / jar.name)
        return found

    return appear(into, folder, f"unpack {archive.name} in {into}", extract)


_FILTERS = hasattr(tarfile, "data_filter")


def _extract(stream: tarfile.TarFile, into: pathlib.Path) -> None:
    """Use the `data` filter of Python 3.11.4. Without it (Debian 12) every link is refused: distributions have none."""
    if _FILTERS:
        stream.extractall(into, filter="data")
        return
    for member in stream:
        path = pathlib.PurePosixPath(member.name)
        if path.is_absolute() or ".." in path.parts or not (member.isfile() or member.isdir()):
            raise tarfile.ExtractError(f"{member.name} leads out, or is not a file")
        member.uid, member.gid, member.uname, member.gname = os.getuid(), os.getgid(), "", ""
        member.mode = 0o755 if member.isdir() else member.mode & 0o755 | 0o600
        stream.extract(member, into)


def _extract_zip(archive: pathlib.Path, into: pathlib.Path) -> None:
    """Unpack with the executable bits, which `extract` drops. It makes a link a file, and keeps every path inside."""
    with zipfile.ZipFile(archive) as stream:
        for member in stream.infolist():
            path = pathlib.Path(stream.extract(member, into))
            if path.is_file() and member.external_attr >> 16 & 0o100:
                path.chmod(0o755)


def is_assembled(home: pathlib.Path, jars: Iterable[str]) -> bool:
    """Whether `assemble` made this folder of the jars with these names; an older list may name others."""
    library = home / "lib"
    return library.is_dir() and {*jars} == {jar.name for jar in library.iterdir()}


def assemble(jars: Sequence[pathlib.Path], into: pathlib.Path, folder: str) -> pathlib.Path:
    """Put jars into `into/folder/lib`; returns `into/folder`, which appears whole or not at all."""
    home = into / folder
    if home.is_dir() and not is_assembled(home, (jar.name for jar in jars)):
        with report_os_errors(f"remove {home}"), lock(home):
            shutil.rmtree(home)

    def copied(draft: pathlib.Path) -> pathlib.Path:
        (draft / "lib").mkdir(parents=True)
        for jar in jars:
            shutil.copyfile(jar, draft / "lib" / jar.name)
        return draft

    return appear(into, folder, f"put {folder} together in {into}", copied)


def appear(into: pathlib.Path, folder: str, what: str, make: Callable[[pathlib.Path], pathlib.Path]) -> pathlib.Path:
    """Return `into/folder`: the folder that `make` made in a draft, renamed into place."""
    home = into / folder
    with report_os_errors(what), lock(home):
        if home.is_dir():
            return home
        draft = home.with_name(f".{home.name}.draft")  # the lock is ours: a killed process left what is there
        shutil.rmtree(draft, ignore_errors=True)
        try:
            make(draft).rename(home)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return home


def beside(file: pathlib.Path) -> pathlib.Path:
    return file.with_name(file.name + ".sha512")


def _expected(artifact: Artifact, file: pathlib.Path) -> str:
    if artifact.sha512:
        return artifact.sha512
    with contextlib.suppress(OSError):
        return _parse_sum(beside(file), "sha512")
    raise FetchError(f"{file} has no {beside(file).name} beside it, and broker.toml pins no sum for it")


def _parse_sum(file: pathlib.Path, kind: str) -> str:
    """The sum in a file such as `.sha512`, which may have a file name after it."""
    match = re.search(rf"\b[0-9a-fA-F]{{{2 * hashlib.new(kind).digest_size}}}\b", file.read_text(errors="replace"))
    if match is None:
        raise FetchError(f"{file.name} holds no {_TITLES[kind]}")
    return match[0].lower()


def _download(artifact: Artifact, target: pathlib.Path, progress: Progress | None) -> None:
    from conformance.adapters.distribution import download  # httpx takes 0.2 s to import

    expected, kind = artifact.sha512, "sha512"
    if not expected:
        try:
            expected = _download_sum(artifact, target, kind)
        except NotFoundError as missing:
            try:
                expected = _download_sum(artifact, target, kind := "sha1")
            except NotFoundError:
                raise missing from None  # the repository lacks the file as well
            if os.environ.get("CONFORMANCE_ACCEPT_SHA1") != "1":
                raise _only_sha1(artifact, f"{download.base()}/{artifact.path}") from missing
    part = target.with_name(target.name + ".part")
    download.file(artifact.path, part, progress)
    _check(part, expected, artifact, kind=kind)
    part.rename(target)


def _download_sum(artifact: Artifact, target: pathlib.Path, kind: str) -> str:
    from conformance.adapters.distribution import download

    file = target.with_name(f"{target.name}.{kind}")
    file.unlink(missing_ok=True)  # of a file that is gone: it would be resumed
    download.file(f"{artifact.path}.{kind}", file, largest=download.LARGEST_SUM)
    return _parse_sum(file, kind)


def _only_sha1(artifact: Artifact, url: str) -> FetchError:
    return FetchError(
        f"{artifact.adapter}: the repository has {url}, but beside it no SHA-512, and broker.toml pins none: its SHA-1 "
        "shows that the download is whole, not that the file was not replaced. To accept that: "
        f"CONFORMANCE_ACCEPT_SHA1=1 conformance fetch {artifact.adapter}. Or unpack a file that you trust, and name "
        f"its folder: --adapter {artifact.adapter}:native=FOLDER"
    )


def _check(file: pathlib.Path, expected: str, artifact: Artifact, *, keep: bool = False, kind: str = "sha512") -> None:
    """Compare the sums. A file of the cache that differs is deleted, a file of the user is kept."""
    found = _sum(file, kind)
    if found == expected.lower():
        return
    if keep:
        step = f"replace {file}"
    else:
        file.unlink()
        step = "it was deleted; run the command again, and if it differs again do not trust the mirror"
    raise FetchError(f"{artifact.file}: {_TITLES[kind]} is {found}, expected {expected.lower()}: {step}")


def _sum(file: pathlib.Path, kind: str = "sha512") -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, kind).hexdigest()


def _copy(source: pathlib.Path, target: pathlib.Path) -> None:
    if target.exists() and source.samefile(target):
        return
    draft = target.with_name(target.name + ".draft")
    shutil.copyfile(source, draft)
    draft.rename(target)


@contextlib.contextmanager
def report_os_errors(what: str) -> Iterator[None]:
    """Turn an OSError into one line that a user can act on."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise FetchError(f"cannot {what}: the disk is full") from error
        raise FetchError(f"cannot {what}: {error.strerror or error}") from error


_ASKED_S = 20.0


def installed_version(file: BrokerFile, asked: str | None, *, native: bool) -> str:
    """The version for a user who asked for this one; None asks for the installed one.

    A container can have any version, and so has a suite of Debian. If nothing is installed it is the version asked for,
    or the default: the start reports what is missing. Raises `UsageError` if another version is installed.
    """
    assert file.installed is not None  # the caller has looked
    found = _installed(file.installed) if native else ""
    if not found or asked in file.installed.suites:
        return asked or file.default_version
    if asked not in (None, found):
        known = " or ".join([found, *file.installed.suites])
        other = f", or take {file.name}@{asked}:docker" if file.container else ""
        raise UsageError(
            f"{file.name}@{asked}: version {found} is installed here; take {known}, install {asked}{other}"
        )
    return found


def suite_of(file: BrokerFile, version: str) -> str:
    """The suite of Debian that has this version, if this machine has another; empty if none is needed."""
    if file.installed is None or version not in file.installed.suites or version == _installed(file.installed):
        return ""
    return file.installed.suites[version]


def not_installed(file: BrokerFile) -> str:
    """How to install the distribution; empty if it is installed, or need not be."""
    if file.installed is None or _installed(file.installed):
        return ""
    return f"{file.title} is not installed here: {file.installed.needs}"


def _installed(table: Installed) -> str:
    return _asked(table.command, table.pattern)


@functools.cache
def _asked(command: tuple[str, ...], pattern: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_ASKED_S, check=False, errors="replace")
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(pattern, done.stdout) if done.returncode == 0 else None
    return found[1] if found else ""
