"""Qpid JMS against the bundled broker: one Java program, a line for each thing that an application does.

Java and the jars are needed; the jars are fetched from the Maven repository and checked, as brokers are.
"""

from __future__ import annotations

import pathlib
import subprocess

import pytest
from blackbox.server import PATIENCE, Server
from starts import starts_process

from conformance.adapters.distribution import fetch
from conformance.adapters.launch.java import find_java
from conformance.errors import FetchError, LaunchError

JARS = {
    "jakarta/jms/jakarta.jms-api/3.1.0/jakarta.jms-api-3.1.0.jar": "78ba421dc5f80fdea795ad2b384148e54073d633a16c7f37e8b81edfe4c4727f01549a763f1641ecc928c44c4db6730d9a9a51b7ef54e1ad70d995be87affb95",
    "org/apache/qpid/qpid-jms-client/2.10.0/qpid-jms-client-2.10.0.jar": "a3a196b8956d6516f61666a1c19d90f81e759e1f16f67259609d6d5e83f56b9c9e82a1956c9a9da613aea1478cbcd8379ace8f76ae99a4c135d214a1afbf3218",
    "org/apache/qpid/proton-j/0.34.1/proton-j-0.34.1.jar": "063543108abb45f5fddb640a69c1610a936b4dd6c9489528c8f78b8ffc256b716b71c76b97237d880383ae3d37a35e6305148dc2eb063d836f8ffa0838fa40b0",
    "org/slf4j/slf4j-api/2.0.17/slf4j-api-2.0.17.jar": "9a3e79db6666a6096a3021bb2e1d918f30f589d8de51d6b600f8ebd92515a510ae2d8f87919cc2dfa8365d64f10194cac8dfa0fb950160eef0e9da06f6caaeb9",
    "io/netty/netty-buffer/4.1.130.Final/netty-buffer-4.1.130.Final.jar": "69b5761088c65cb491601dd08e983d23bd4af01b2f003a374420a342ac8936dfdd813d55911d4d3a6d1d5c19d885cee7a635239a39f7a1ab00032489227a36a4",
    "io/netty/netty-codec/4.1.130.Final/netty-codec-4.1.130.Final.jar": "1e46e7733e79581c8a4b3b5544adea6a18a8203bd558bc9ddd7e036329dd4681b822833d7edb324882c9053982fedafb26dedbffd1b7b79ff93dff5498e7a878",
    "io/netty/netty-codec-http/4.1.130.Final/netty-codec-http-4.1.130.Final.jar": "9c0a3ca3c7050b21463d2aaf2238555d4d52fac8f02a04d31e292133bae857bc9f4aee7672aecb0a03c97b34089536c554b6d5d4f42c911344e490650100092c",
    "io/netty/netty-common/4.1.130.Final/netty-common-4.1.130.Final.jar": "3a956340a42492f17ea2c59b32bef8f1024efc7db6e5eb0c1aae9db919dc2349ebf078f9fbea27d186ce5290060d6e07a01f39196e999b83b63f5d27a11df091",
    "io/netty/netty-handler/4.1.130.Final/netty-handler-4.1.130.Final.jar": "767200e7b863d95673e32f8e86affd41e838c7670fae33721c98f324734bb19644ee4fd3056de2a0e18daaf22f69e2b3124965ce9c1cdb8f38dfdbcf10bc510c",
    "io/netty/netty-resolver/4.1.130.Final/netty-resolver-4.1.130.Final.jar": "5b301c76850fe39b7e84d715d598dc011cad6254f330009ccd005f9a2aea4deb3e3b8c60a047e05b831d21acc97f9352ff88c826e819ae6f0b18eefe4c327174",
    "io/netty/netty-transport/4.1.130.Final/netty-transport-4.1.130.Final.jar": "b0fd06a27d874dcc04f78c8f4fc79dfad2788e7e97c5a823898fe80ba2537b6bc02fecd1c24175ab637e73635856535ac4755d1af3a70ac527f8495288dd5299",
    "io/netty/netty-transport-classes-epoll/4.1.130.Final/netty-transport-classes-epoll-4.1.130.Final.jar": "b169186441991e715ac96a6ca1ca3983df6023e601059b6243c0bb3174f68041b67427286646f9059075b26b51b6c07a30ce0aa4aa816adad93d8a931dd73fe3",
    "io/netty/netty-transport-classes-kqueue/4.1.130.Final/netty-transport-classes-kqueue-4.1.130.Final.jar": "284e6f9883fe387457525267e5a17f65fe7d568106826e8e5f6744d16f8a334ebd5a94a7afaca2fd127cca73d17f1bae9bee4ee6e3c2da62be0fe9abf2d1a915",
    "io/netty/netty-transport-native-unix-common/4.1.130.Final/netty-transport-native-unix-common-4.1.130.Final.jar": "9cb0b7e06a6e16549c8700c2bdfc7722faf55de9ece89284cdcb3791caf0e7a30ea6a74ad45ffc0139b7a5bae8e893f585d8d64c5b50033dba6ce8dcb2c0fa79",
}
"""What the client needs on every system: path in a Maven repository, and SHA-512."""

SOURCE = pathlib.Path(__file__).parent / "interop" / "QpidJms.java"

SAID = {
    "client": "[4f1, 5f1, 6f1] [4r2, 5r2, 6r2]",
    "auto": "[1f1, 2f1, 3f1] []",
    "rollback": "[1f1] [1r2] []",
    "commit": "[] [1f1, 2f1, 3f1]",
    "anonymous": "[1f1, 2f1]",
    "temporary": "ping pong request-1",
    "browser": "[1f1, 2f1, 3f1] [1f1, 2f1, 3f1]",
    "ttl": "[2f1, 3f1]",
    "bytes": "true",
    "async": "50 1f1 50f1",
}
"""Number, f(irst) or r(edelivered), and JMSXDeliveryCount, which counts from 1 (Jakarta Messaging 3.1, section 3.5.11)."""


@pytest.fixture(scope="module")
def command():
    """`java -cp JARS QpidJms.java`."""
    try:
        java = find_java(17)
        jars = [fetch.fetch(fetch.Artifact(path, sha512, "qpid-jms")) for path, sha512 in JARS.items()]
    except (LaunchError, FetchError) as error:
        pytest.skip(f"Qpid JMS cannot be had here: {error}")
    if not (java.home / "bin" / "javac").exists():
        pytest.skip(f"a Java that runs a source file is needed: {java.home} has no compiler")
    return [str(java.path), "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", ":".join(map(str, jars)), str(SOURCE)]


@pytest.fixture(scope="module")
@starts_process
def said(command, tmp_path_factory):
    """What the program says, by step."""
    with Server(tmp_path_factory.mktemp("jms") / "data") as server:
        done = subprocess.run([*command, server.url], capture_output=True, text=True, timeout=3 * PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


@pytest.mark.parametrize("step", SAID)
def test_a_jms_application(said, step):
    """Each step by its line."""
    assert said[step] == SAID[step]


def test_every_step_is_expected(said):
    """None is left out on either side."""
    assert list(said) == list(SAID)
