"""Distributions: found, checked against their sum, unpacked, kept in the cache.

Looked for in this order: unpacked in the cache, downloaded in the cache, the folder named by `CONFORMANCE_DIST` (for
machines without network), the Maven repository. Whatever is used has the SHA-512 that `broker.toml` pins, or, for a
version that it does not pin, the one that stands beside the file.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import hashlib
import os
import pathlib
import re
import shutil
import tarfile
from collections.abc import Callable, Iterator

from conformance import paths
from conformance.errors import FetchError

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


def fetch_to(artifact: Artifact, folder: pathlib.Path, progress: Progress | None = None) -> list[pathlib.Path]:
    """Put the file and its `.sha512` into `folder`, to be carried to a machine without network; returns both."""
    source = fetch(artifact, progress)
    target = folder / source.name
    with reported(f"write to {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        _copy(source, target)
        _copy(beside(source), beside(target))
    return [target, beside(target)]


def unpack(archive: pathlib.Path, into: pathlib.Path, folder: str) -> pathlib.Path:
    """Unpack a tar archive whose one folder is `folder`; returns `into/folder`, which appears whole or not at all.

    The `data` filter refuses absolute paths, links that lead out and special files.
    """
    home = into / folder
    with reported(f"unpack {archive.name} in {into}"), locked(home):
        if home.is_dir():
            return home
        draft = into / f".{folder}.draft"  # the lock is ours: what lies there was left by a killed process
        shutil.rmtree(draft, ignore_errors=True)
        try:
            with tarfile.open(archive) as stream:
                stream.extractall(draft, filter="data")
            (draft / folder).rename(home)
        except FileNotFoundError as error:
            raise FetchError(f"{archive.name} does not unpack to {folder}") from error
        except tarfile.TarError as error:
            raise FetchError(f"{archive.name} cannot be unpacked: {error}") from error
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
    from conformance.adapters import download

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
