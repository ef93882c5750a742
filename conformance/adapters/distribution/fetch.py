"""Get a distribution: find it, compare its checksum, unpack it, and keep it in the cache.

Looked for in this order: unpacked in the cache, downloaded in the cache, the folder named by `CONFORMANCE_DIST` (for
machines without network), the Maven repository. Whatever is used has the SHA-512 that `broker.toml` pins, or, for a
version that it does not pin, the one that stands beside the file.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import functools
import hashlib
import os
import pathlib
import re
import shutil
import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from conformance import paths
from conformance.errors import FetchError, NotFoundError, UsageError

if TYPE_CHECKING:
    from conformance.adapters.file.model import BrokerFile

Progress = Callable[[int, int | None], None]
"""Called with the bytes that are here and the bytes of the whole (None where the server does not say)."""

_SUM = re.compile(r"\b[0-9a-fA-F]{128}\b")


@dataclasses.dataclass(frozen=True)
class Artifact:
    """One file of a Maven repository: its path there, its pinned SHA-512 (hex) and the adapter it belongs to."""

    path: str
    sha512: str | None
    adapter: str

    @property
    def file(self) -> str:
        """The name of the file."""
        return self.path.rsplit("/", 1)[-1]

    @property
    def coordinates(self) -> str:
        """`group:artifact:version`, by which people look it up."""
        *group, artifact, version, _ = self.path.split("/")
        return ":".join([".".join(group), artifact, version])


def dist() -> pathlib.Path:
    """Where the cache keeps distributions."""
    return paths.cache() / "dist"


@contextlib.contextmanager
def locked(target: pathlib.Path) -> Iterator[None]:
    """Only one process at a time makes `target`; the others wait, and find it made."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / f".{target.name}.lock").open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def fetch(artifact: Artifact, progress: Progress | None = None, *, offline: bool = False) -> pathlib.Path:
    """The checked file in the cache.

    Raises `FetchError`: not to be had, another sum, no room. An `.sha512` is left beside the file.
    """
    target = dist() / artifact.file
    with reported(f"keep {artifact.file} in {dist()}"), locked(target):
        if target.is_file():
            _check(target, _expected(artifact, target), artifact)
            return target
        brought = _brought(artifact)
        if brought is not None:
            _check(brought, _expected(artifact, brought), artifact, keep=True)
            _copy(brought, target)
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
    """The checked files of a distribution in the cache, one after another; what is there already is not had again.

    The bytes that `progress` is told add up; of several files nobody knows the sum beforehand. Raises `FetchError`, of
    several files with the coordinates of the one that is not to be had.
    """
    if len(artifacts) == 1:
        return [fetch(artifacts[0], progress, offline=offline)]
    files: list[pathlib.Path] = []
    for artifact in artifacts:
        before = sum(file.stat().st_size for file in files)
        told = functools.partial(_told, progress, before) if progress else None
        try:
            files.append(fetch(artifact, told, offline=offline))
        except FetchError as error:
            raise FetchError(f"{artifact.coordinates}: {error}") from error
    return files


def _told(progress: Progress, before: int, done: int, _: int | None) -> None:
    progress(before + done, None)


@contextlib.contextmanager
def known_version(file: BrokerFile, version: str) -> Iterator[None]:
    """Raise `UsageError` where the repository has no such version; one that the file names is a fault of the mirror."""
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
    """Put each file and its `.sha512` into `folder`, to be carried to a machine without network; returns them all."""
    put: list[pathlib.Path] = []
    for source in fetch_all(artifacts, progress):
        target = folder / source.name
        with reported(f"write to {folder}"):
            folder.mkdir(parents=True, exist_ok=True)
            _copy(source, target)
            _copy(beside(source), beside(target))
        put += [target, beside(target)]
    return put


def unpack(archives: Sequence[pathlib.Path], into: pathlib.Path, folder: str) -> pathlib.Path:
    """Unpack one tar archive whose one folder is `folder`; returns `into/folder`, which appears whole or not at all.

    The `data` filter refuses absolute paths, links that lead out and special files.
    """
    (archive,) = archives

    def extract(draft: pathlib.Path) -> pathlib.Path:
        try:
            with tarfile.open(archive) as stream:
                _extract(stream, draft)
        except tarfile.TarError as error:
            raise FetchError(f"{archive.name} cannot be unpacked: {error}") from error
        if not (draft / folder).is_dir():
            raise FetchError(f"{archive.name} does not unpack to {folder}")
        return draft / folder

    return _appears(into, folder, f"unpack {archive.name} in {into}", extract)


_FILTERS = hasattr(tarfile, "data_filter")


def _extract(stream: tarfile.TarFile, into: pathlib.Path) -> None:
    """By the `data` filter of Python 3.11.4. Before it (Debian 12) no link is taken, and no distribution has one."""
    if _FILTERS:
        stream.extractall(into, filter="data")
        return
    for member in stream:
        path = pathlib.PurePosixPath(member.name)
        if path.is_absolute() or ".." in path.parts or not (member.isfile() or member.isdir()):
            raise tarfile.ExtractError(f"{member.name} leads out, or is no file")
        member.uid, member.gid, member.uname, member.gname = os.getuid(), os.getgid(), "", ""
        member.mode = 0o755 if member.isdir() else member.mode & 0o755 | 0o600
        stream.extract(member, into)


def assembled(home: pathlib.Path, jars: Iterable[str]) -> bool:
    """Whether `assemble` made this folder of the jars with these names; an older list may have had others."""
    library = home / "lib"
    return library.is_dir() and {*jars} == {jar.name for jar in library.iterdir()}


def assemble(jars: Sequence[pathlib.Path], into: pathlib.Path, folder: str) -> pathlib.Path:
    """Put jars into `into/folder/lib`; returns `into/folder`, which appears whole or not at all."""
    home = into / folder
    if home.is_dir() and not assembled(home, (jar.name for jar in jars)):
        with reported(f"remove {home}"), locked(home):
            shutil.rmtree(home)

    def copied(draft: pathlib.Path) -> pathlib.Path:
        (draft / "lib").mkdir(parents=True)
        for jar in jars:
            shutil.copyfile(jar, draft / "lib" / jar.name)
        return draft

    return _appears(into, folder, f"put {folder} together in {into}", copied)


def _appears(into: pathlib.Path, folder: str, what: str, make: Callable[[pathlib.Path], pathlib.Path]) -> pathlib.Path:
    """`into/folder`: what `make` says that it made in the draft it was given, renamed into place."""
    home = into / folder
    with reported(what), locked(home):
        if home.is_dir():
            return home
        draft = home.with_name(f".{home.name}.draft")  # the lock is ours: what lies there was left by a killed process
        shutil.rmtree(draft, ignore_errors=True)
        try:
            make(draft).rename(home)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return home


def beside(file: pathlib.Path) -> pathlib.Path:
    """The `.sha512` of a file."""
    return file.with_name(file.name + ".sha512")


def _brought(artifact: Artifact) -> pathlib.Path | None:
    folder = os.environ.get("CONFORMANCE_DIST")
    if not folder:
        return None
    file = pathlib.Path(folder) / artifact.file
    return file if file.is_file() else None


def _expected(artifact: Artifact, file: pathlib.Path) -> str:
    if artifact.sha512:
        return artifact.sha512
    with contextlib.suppress(OSError):
        return parse_sum(beside(file).read_text(), beside(file).name)
    raise FetchError(f"{file} has no {beside(file).name} beside it, and broker.toml pins no sum for it")


def parse_sum(text: str, source: str) -> str:
    """The SHA-512 in the text of an `.sha512` file, with or without a file name."""
    match = _SUM.search(text)
    if match is None:
        raise FetchError(f"{source} holds no SHA-512")
    return match[0].lower()


def _download(artifact: Artifact, target: pathlib.Path, progress: Progress | None) -> None:
    from conformance.adapters.distribution import download

    expected = artifact.sha512 or parse_sum(download.text(artifact.path + ".sha512"), artifact.file + ".sha512")
    part = target.with_name(target.name + ".part")
    download.file(artifact.path, part, progress)
    _check(part, expected, artifact)
    part.rename(target)


def _check(file: pathlib.Path, expected: str, artifact: Artifact, *, keep: bool = False) -> None:
    """Compare the sums; a file of our own cache that differs is deleted, one that the user brought is kept."""
    found = _sum(file)
    if found == expected.lower():
        return
    if keep:
        step = f"replace {file}"
    else:
        file.unlink()
        step = "it was deleted; run the command again, and if it differs again do not trust the mirror"
    raise FetchError(f"{artifact.file}: SHA-512 is {found}, expected {expected.lower()}: {step}")


def _sum(file: pathlib.Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha512").hexdigest()


def _copy(source: pathlib.Path, target: pathlib.Path) -> None:
    if target.exists() and source.samefile(target):
        return
    draft = target.with_name(target.name + ".draft")
    shutil.copyfile(source, draft)
    draft.rename(target)


@contextlib.contextmanager
def reported(what: str) -> Iterator[None]:
    """Turn an OSError into the one line that a user can act on."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise FetchError(f"cannot {what}: the disk is full") from error
        raise FetchError(f"cannot {what}: {error.strerror or error}") from error
