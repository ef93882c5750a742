"""The Dockerfile of the suite, built upon a Debian that is made here, and run. No registry and no package index is asked."""

import io
import pathlib
import subprocess
import sys
import tarfile

import pytest

from conformance.adapters.distribution import debian

ROOT = pathlib.Path(__file__).parents[2]
PACKAGES = "ca-certificates gcc libc6-dev libssl-dev pkg-config python3-dev python3-venv strace".split()
"""What the Dockerfile would install."""


@pytest.fixture(scope="module")
def base(real):
    if reason := debian.cannot_make():
        pytest.skip(reason)
    name = "conformance/base:suite"
    real.import_image(debian.archive(PACKAGES), name)
    return name


@pytest.fixture(scope="module")
def image(real, base, tmp_path_factory):
    """Built from the files that .dockerignore lets in, and the locked files of all that they need."""
    wheels = tmp_path_factory.mktemp("context") / "wheels"
    get = [sys.executable, "-m", "pip", "download", "--quiet", "--require-hashes", "--no-build-isolation"]
    locks = [f"--requirement={ROOT}/requirements/{name}.txt" for name in ("build", "image")]
    subprocess.run([*get, *locks, "--dest", wheels], check=True)
    kept = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as archive:
        for name in [name for name in kept if (ROOT / name).exists()] + ["Dockerfile"]:
            archive.add(ROOT / name, name)
        archive.add(wheels, "wheels")
    context.seek(0)
    real.build(context, "conformance/suite:test", {"BASE_IMAGE": base, "PIP_NO_INDEX": "1"})
    yield "conformance/suite:test"
    real._client.client.images.remove("conformance/suite:test", force=True)


def test_the_suite_tries_a_broker_in_its_own_container(real, image, tmp_path):
    """As the user of the image, who has no root, with the entry point of the image."""
    runs = tmp_path / "runs"
    runs.mkdir(mode=0o777)
    runs.chmod(0o777)
    words = (
        "run --adapter reference --scenario broker-killed-after-commit --claims SOLCD-TX-02 --out /runs/first".split()
    )
    said = real._client.client.containers.run(
        image, words, remove=True, volumes={str(runs): {"bind": "/runs", "mode": "rw"}}, stderr=True
    ).decode()

    assert "0 violated, 0 undecided, 1 claim holds" in said, said
    assert "<!doctype html>" in (runs / "first" / "report.html").read_text()[:100].lower()
