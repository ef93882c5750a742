"""A user's own configuration in a real container. Skipped, with the reason, without an engine."""

import pathlib
import re
import subprocess

import pytest

from conformance import adapters
from conformance.adapters import opening
from conformance.adapters.container.docker import DockerLauncher
from conformance.adapters.container.images import broker_image
from conformance.adapters.credentials import Access, ClientTls
from conformance.adapters.launch.java import find_java
from conformance.errors import LaunchError
from conformance.run import readiness_probe

pytestmark = pytest.mark.artemis
ARTEMIS = adapters.find("artemis@2.56.0:docker")

XML = """<configuration xmlns="urn:activemq">
   <core xmlns="urn:activemq:core">
      <journal-type>NIO</journal-type>
      <journal-directory>/srv/production/journal</journal-directory>
      <max-disk-usage>100</max-disk-usage>
      <journal-sync-non-transactional>false</journal-sync-non-transactional>
      <acceptors>
         <acceptor name="amqp">tcp://0.0.0.0:5672?protocols=AMQP;amqpCredits=7</acceptor>
         <acceptor name="stomp">tcp://10.1.2.3:61613?protocols=STOMP</acceptor>
      </acceptors>
      <security-enabled>false</security-enabled>
   </core>
</configuration>
"""


@pytest.fixture
def image(real, ledger, monkeypatch):
    """That of Artemis; the tests are skipped where nothing can be had to build it on."""
    try:
        return broker_image(real, DockerLauncher().recipe(ARTEMIS.source)).name
    except LaunchError as error:
        if "no image to build on" not in str(error):
            raise
        pytest.skip(str(error))


def mine(folder, text=XML):
    """The adapter with that configuration."""
    folder.mkdir()
    (folder / "broker.xml").write_text(text)
    return opening.with_configuration(ARTEMIS, folder / "broker.xml")


def test_a_copy_runs_in_a_container(image, ledger, tmp_path):
    """At the ports that are published, over each of its acceptors; what it says is what is in force."""
    adapter = mine(tmp_path / "etc")
    with adapter.prepare(tmp_path / "run" / "b", adapter.effective(), ["orders"], ledger) as broker:
        broker.start()
        for protocol in ("amqp", "stomp"):
            readiness_probe.ProbeClient(adapter, protocol).exchange(broker, "orders")
        readiness_probe.depth_of(broker, "orders", wanted=0)
        ran = (broker.folder / "instance/etc/broker.xml").read_text()
        changed = broker.deviations
        broker.stop()
        broker.start()
        readiness_probe.ProbeClient(adapter, "amqp").exchange(broker, "orders")

    assert re.search(r">tcp://0\.0\.0\.0:61616\?protocols=AMQP;amqpCredits=7<", ran)
    assert "/srv/production" not in ran
    assert {"acceptor", "journal-directory", "container image"} <= changed.keys()
    assert adapter.effective().values["sync_non_transactional"] is False
    assert not pathlib.Path("/srv/production").exists()


def test_a_key_store_that_it_names_is_there_to_be_read(image, ledger, tmp_path):
    """Bound at the same place: without it the broker would listen nowhere. The container cannot change it."""
    store, pem = tmp_path / "keys" / "broker.p12", tmp_path / "keys" / "broker.pem"
    store.parent.mkdir()
    keytool = [find_java(17).home / "bin" / "keytool", "-keystore", store, "-storepass", "secret", "-alias", "b"]
    about = ["-storetype", "PKCS12", "-dname", "CN=b", "-keyalg", "RSA", "-ext", "san=ip:127.0.0.1"]
    subprocess.run([*keytool, "-genkeypair", *about], check=True, capture_output=True)
    subprocess.run([*keytool, "-exportcert", "-rfc", "-file", pem], check=True, capture_output=True)
    secured = f"protocols=AMQP,STOMP;sslEnabled=true;keyStorePath={store};keyStorePassword=secret"
    text = re.sub(
        r"(?s)<acceptor name.*</acceptor>", f'<acceptor name="s">tcp://0.0.0.0:5671?{secured}</acceptor>', XML
    )
    adapter = mine(tmp_path / "etc", text)
    adapter = opening.with_credentials(adapter, Access(tls=ClientTls(ca=str(pem))))
    with adapter.prepare(tmp_path / "run" / "b", adapter.effective(), ["orders"], ledger) as broker:
        broker.start()
        for protocol in ("amqp", "stomp"):
            readiness_probe.ProbeClient(adapter, protocol).exchange(broker, "orders")
        status, said = broker._beside(["touch", str(store)], 10)

    assert [store] == adapter.own.outside
    assert (True, True) == (bool(status), "ead-only" in said)
