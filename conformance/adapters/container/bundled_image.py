"""The bundled broker's distribution for a container: the very code that runs here, and the AMQP engine beneath it.

It is copied from where this process has it, so that it is the same in a checkout and in an installed wheel, and needs
no index of packages. The compiled part of python-qpid-proton is made for the stable ABI (PEP 384): any later Python
loads it. The loader of cffi, which is not, comes from the image.
"""

from __future__ import annotations

import hashlib
import importlib.util
import pathlib
import shutil
import tempfile
from collections.abc import Iterator

from conformance import paths
from conformance.adapters.distribution.fetch import locked
from conformance.errors import LaunchError

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

    Raises `LaunchError` where the AMQP engine is not installed here.
    """
    target = paths.cache() / "images" / f"reference-{content()}"
    with locked(target):
        if not target.exists():
            draft = pathlib.Path(tempfile.mkdtemp(dir=target.parent, prefix=".draft-"))
            try:
                for name, path in _files():
                    (draft / "lib" / name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(path, draft / "lib" / name)
                draft.chmod(0o755)
                draft.replace(target)
            finally:
                shutil.rmtree(draft, ignore_errors=True)
    return target


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
