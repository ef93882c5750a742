"""Build the image of a broker from the Dockerfile beside its `broker.toml`.

The base is the vendor's own image if the engine has it or a registry gives it. A machine without a registry makes
one of its own, once: a small Debian by debootstrap with what the broker needs. The distribution then comes from where
the native launcher gets it, and is put into the context of the build. The report names the base.

The bundled broker's image gets the code that runs here, and the AMQP engine beneath it, copied from where this process
has them. So it is the same in a checkout and in an installed wheel, and needs no package index. The compiled part of
python-qpid-proton is made for the stable ABI (PEP 384): any later Python loads it. The loader of cffi, which is not,
comes from the image.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import os
import pathlib
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from typing import IO

from conformance import paths
from conformance.adapters.container.engine import Engine
from conformance.adapters.distribution import debian, fetch
from conformance.adapters.file.model import ContainerTable
from conformance.adapters.launch.plan import BrokerSource
from conformance.errors import LaunchError
from conformance.locks import lock

_PACKAGE = pathlib.Path(__file__).resolve().parents[2]
_OWN = ("__init__.py", "errors.py", "reference")
_FOREIGN = ("proton", "cproton", "cproton_ffi")


def content() -> str:
    """A digest of the code of the broker: twelve digits, others after each edit."""
    digest = hashlib.sha256()
    for name, path in _files():
        if name.startswith(_PACKAGE.name):
            digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def distribution() -> pathlib.Path:
    """A folder with `lib`, where Python finds the broker; made once for each content, in the cache.

    Raises `LaunchError` if the AMQP engine is not installed here, `FetchError` if there is no room.
    """

    def copied(draft: pathlib.Path) -> pathlib.Path:
        for name, path in _files():
            (draft / "lib" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, draft / "lib" / name)
        return draft

    return fetch.appear(_folder(), f"reference-{content()}", f"copy the bundled broker into {_folder()}", copied)


def _files() -> Iterator[tuple[str, pathlib.Path]]:
    """Every file by its name below `lib`, in order."""
    for part in _OWN:
        yield from _below(_PACKAGE / part, _PACKAGE.parent)
    for module in _FOREIGN:
        found = importlib.util.find_spec(module)
        if found is None or found.origin is None:
            raise LaunchError(f"the bundled broker needs {module}: `pip install python-qpid-proton`")
        origin = pathlib.Path(found.origin)
        whole = origin.parent if found.submodule_search_locations else origin
        yield from _below(whole, whole.parent)


def _below(path: pathlib.Path, root: pathlib.Path) -> Iterator[tuple[str, pathlib.Path]]:
    every = sorted(path.rglob("*")) if path.is_dir() else [path]
    for file in every:
        if file.is_file() and "__pycache__" not in file.parts:
            yield str(file.relative_to(root)), file


BASE_VARIABLE = "CONFORMANCE_BASE_IMAGE"
"""In the environment: the base to build on, instead of all that would be tried."""

HOME = pathlib.Path("/opt/broker")
"""Where every Dockerfile of ours puts the distribution, or a link to it."""

_LEFT_OUT = ("examples", "web")


@dataclasses.dataclass(frozen=True)
class Recipe:
    """What an image is made from: the broker (its home is inside), and its distribution on demand.

    `content` tells one distribution from another of the same version: the bundled broker's changes with each edit.
    """

    source: BrokerSource
    distribution: Callable[[], pathlib.Path]
    offline: bool = False
    content: str = ""

    @property
    def table(self) -> ContainerTable:
        """The `[container]` of the broker's file; the recipe is made only if there is one."""
        assert self.source.file.container is not None
        return self.source.file.container

    @property
    def official(self) -> str:
        return self.table.official(self.source.version).name

    @property
    def suite(self) -> str:
        """The Debian whose package is this version, if the file names one."""
        installed = self.source.file.installed
        return installed.suites.get(self.source.version, debian.SUITE) if installed else debian.SUITE

    def lacks(self, base: str) -> bool:
        """Whether a base has no distribution, so that it is put in: all but a vendor's image that has the product."""
        vendor = self.table.official(self.source.version)
        return base != vendor.name or vendor.bare

    @property
    def dockerfile(self) -> pathlib.Path:
        return self.source.here / self.table.dockerfile


@dataclasses.dataclass(frozen=True)
class Image:
    """A built image, and the base that it stands on."""

    name: str
    base: str
    official: bool


def broker_image(engine: Engine, recipe: Recipe) -> Image:
    """The image of a broker, built if the engine lacks it; `LaunchError`, `FetchError` if that is impossible.

    Its tag names what it was made from, so a new Dockerfile, base or version makes a new one.
    """
    base = _base(engine, recipe)
    own = base.startswith("conformance/base:")
    key = "\0".join([recipe.dockerfile.read_text(), str(engine.image(base)), recipe.source.version, recipe.content])
    name = f"conformance/{recipe.source.file.name}:{recipe.source.version}-{_digest(key)}"
    with lock(_folder() / name.replace("/", "-").replace(":", "-")):
        if engine.image(name) is None:
            with tempfile.TemporaryFile() as context:
                _pack(context, recipe.dockerfile, recipe.distribution() if recipe.lacks(base) else None)
                engine.build(context, name, {"BASE_IMAGE": base})
    return Image(name, base, not own)


def _base(engine: Engine, recipe: Recipe) -> str:
    """Prefer what the engine has, so that not every run waits for a registry that does not answer."""
    packages, official = recipe.table.packages, recipe.official
    own = f"conformance/base:{debian.name_of(packages, recipe.suite)}"
    chosen = os.environ.get(BASE_VARIABLE)
    if chosen:
        if engine.image(chosen) is None:
            engine.pull(chosen)
        return chosen
    for name in (official, own):
        if engine.image(name) is not None:
            return name
    refused = "the run is offline"
    if not recipe.offline:
        try:
            engine.pull(official)
        except LaunchError as error:
            refused = str(error)
        else:
            return official
    if reason := debian.cannot_make():
        raise LaunchError(
            f"there is no image to build on: {refused}; and {reason}. Name an image with {', '.join(packages)} "
            f"in {BASE_VARIABLE}"
        )
    engine.import_image(debian.archive(packages, recipe.suite), own)
    return own


def _pack(context: IO[bytes], dockerfile: pathlib.Path, home: pathlib.Path | None) -> None:
    """The Dockerfile, and the distribution in `distribution/`; that folder is empty if the base has it."""
    with tarfile.open(fileobj=context, mode="w") as archive:
        archive.add(dockerfile, "Dockerfile")
        empty = tarfile.TarInfo("distribution")
        empty.type, empty.mode = tarfile.DIRTYPE, 0o755
        archive.addfile(empty)
        for path in sorted(home.iterdir()) if home else ():
            if path.name not in _LEFT_OUT:
                archive.add(path, f"distribution/{path.name}", filter=_owned_by_root)
    context.seek(0)


def _owned_by_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    return member


def _folder() -> pathlib.Path:
    return paths.cache() / "images"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
