"""Real certificates, made at test time by openssl: an authority, and what it and a stranger have signed."""

import pathlib
import shutil
import subprocess

import pytest

NAMES = "subjectAltName=IP:127.0.0.1,DNS:broker.example\n"
PASSWORD = "Gr8-s3cret/word"
"""Nothing else in a run looks like it."""


def make(folder: pathlib.Path) -> pathlib.Path:
    """The files `ca`, `broker`, `alice`, `stranger` (an authority of its own), `mallory` (its), `old` (expired)."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the openssl command to make certificates")
    (folder / "names").write_text(NAMES)
    for name, subject in (("ca", "/CN=authority"), ("stranger", "/CN=stranger")):
        _openssl(folder, *_key(name), "-x509", "-days", "2", "-out", f"{name}.pem", "-subj", subject)
    _signed(folder, "broker", "/CN=127.0.0.1", "ca", days=2)
    _signed(folder, "alice", "/O=Acme/CN=alice", "ca", days=2)
    _signed(folder, "mallory", "/CN=mallory", "stranger", days=2)
    _signed(folder, "old", "/CN=127.0.0.1", "ca", days=-1)
    (folder / "password").write_text(f"{PASSWORD}\n")
    (folder / "wrong").write_text("another\n")
    return folder


def _signed(folder: pathlib.Path, name: str, subject: str, authority: str, *, days: int) -> None:
    _openssl(folder, *_key(name), "-out", f"{name}.csr", "-subj", subject)
    signer = ["-CA", f"{authority}.pem", "-CAkey", f"{authority}.key", "-CAcreateserial"]
    words = ["x509", "-req", "-in", f"{name}.csr", *signer, "-days", str(days), "-extfile", "names"]
    _openssl(folder, *words, "-out", f"{name}.pem")


def _key(name: str) -> list[str]:
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    return ["req", *curve, "-keyout", f"{name}.key"]


def _openssl(folder: pathlib.Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)
