"""ActiveMQ Classic with its owner's activemq.xml: what a copy changes, which policies are read, what is refused."""

import re

import pytest

from conformance import adapters, history
from conformance.adapters import opening
from conformance.errors import UsageError
from conformance.history import Op, Phase
from conformance.scenario.script import SETTLE, Consume, Drain, Publish, Restart, Together

CLASSIC = adapters.find("activemq")
ACTIVEMQ_XML = """<beans xmlns="http://www.springframework.org/schema/beans"
       xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
       xsi:schemaLocation="http://www.springframework.org/schema/beans http://www.springframework.org/schema/beans/spring-beans.xsd
                           http://activemq.apache.org/schema/core http://activemq.apache.org/schema/core/activemq-core.xsd">
  <bean class="org.springframework.beans.factory.config.PropertyPlaceholderConfigurer">
    <property name="locations"><value>file:${activemq.conf}/credentials.properties</value></property>
  </bean>
  <broker xmlns="http://activemq.apache.org/schema/core" brokerName="mine" useJmx="false" dataDirectory="${activemq.data}">
    <destinationPolicy>
      <policyMap>
        <policyEntries>
          <policyEntry queue="&gt;" ATTRIBUTES>STRATEGY</policyEntry>
          <policyEntry topic="&gt;">
            <pendingMessageLimitStrategy><constantPendingMessageLimitStrategy limit="1000"/></pendingMessageLimitStrategy>
          </policyEntry>
        </policyEntries>
      </policyMap>
    </destinationPolicy>
    <managementContext><managementContext createConnector="false"/></managementContext>
    <persistenceAdapter><kahaDB directory="${activemq.data}/kahadb"/></persistenceAdapter>
    <plugins>PLUGINS</plugins>
    <systemUsage>
      <systemUsage USAGE><memoryUsage><memoryUsage percentOfJvmHeap="70"/></memoryUsage></systemUsage>
    </systemUsage>
    <transportConnectors>
      <transportConnector name="openwire" uri="tcp://0.0.0.0:61616?maximumConnections=1000"/>
      <transportConnector name="amqp" uri="amqp://0.0.0.0:5672?maximumConnections=1000"/>
    </transportConnectors>
    MORE
  </broker>
  <import resource="jetty.xml"/>
</beans>
"""


def own_of(tmp_path, **parts):
    text = ACTIVEMQ_XML
    for name in ("attributes", "strategy", "plugins", "usage", "more"):
        text = text.replace(name.upper(), parts.get(name, ""))
    file = tmp_path / "activemq.xml"
    file.write_text(text)
    return opening.with_configuration(CLASSIC, file)


def strategy(inside):
    return {"strategy": f"<deadLetterStrategy>{inside}</deadLetterStrategy>"}


DELAYS = """<redeliveryPlugin><redeliveryPolicyMap><redeliveryPolicyMap><defaultEntry>
  <redeliveryPolicy maximumRedeliveries="2" redeliveryDelay="700"/>
</defaultEntry></redeliveryPolicyMap></redeliveryPolicyMap></redeliveryPlugin>"""


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({}, {"expiry_destination": "ActiveMQ.DLQ", "full_queue_policy": "page", "redelivery_delay_ms": 0}),
        ({"plugins": '<timeStampingBrokerPlugin zeroExpirationOverride="500"/>'}, {"message_ttl_ms": 500}),
        ({"plugins": '<timeStampingBrokerPlugin ttlCeiling="500"/>'}, {"message_ttl_ms": 0}),  # ours have none to cut
        ({"plugins": "<discardingDLQBrokerPlugin/>"}, {"expiry_destination": ""}),
        (strategy("<discarding/>"), {"expiry_destination": ""}),
        (strategy('<individualDeadLetterStrategy queuePrefix="DLQ."/>'), {"expiry_destination": ""}),
        (
            strategy(
                '<sharedDeadLetterStrategy><deadLetterQueue><queue physicalName="DEAD"/></deadLetterQueue>'
                "</sharedDeadLetterStrategy>"
            ),
            {"expiry_destination": "DEAD"},
        ),
        (strategy('<sharedDeadLetterStrategy deadLetterQueue="queue://DEAD"/>'), {"expiry_destination": ""}),
        ({"attributes": 'memoryLimit="1 mb"'}, {"full_queue_policy": "block"}),
        ({"usage": 'sendFailIfNoSpace="true"'}, {"full_queue_policy": "refuse"}),
        ({"usage": 'sendFailIfNoSpaceAfterTimeout="3000"'}, {"full_queue_policy": "block"}),
        ({"plugins": "<redeliveryPlugin/>"}, {"redelivery_delay_ms": 1000}),
        ({"plugins": DELAYS}, {"redelivery_delay_ms": 700}),
        ({"attributes": 'consumersBeforeDispatchStarts="2"'}, {"consumers_before_dispatch": 2}),
        ({"attributes": 'timeBeforeDispatchStarts="90"'}, {"dispatch_delay_ms": 90}),
        ({"plugins": '<forcePersistencyModeBrokerPlugin persistenceFlag="false"/>'}, {"persistence": False}),
    ],
)
def test_policies_are_read(tmp_path, parts, expected):
    """Those of `>`, which apply to the queues of a run; the limit of pending messages is about topics."""
    values = own_of(tmp_path, **parts).effective().values

    assert expected == {name: values[name] for name in expected}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (
            '<networkConnectors><networkConnector uri="static:(tcp://other:61616)"/></networkConnectors>',
            "networkConnectors: a copy would connect to other brokers",
        ),
        ('<bean class="com.example.Plugin"/>', "bean/@class (com.example.Plugin): a class of your own"),
    ],
)
def test_what_would_reach_others_is_refused(tmp_path, more, words):
    with pytest.raises(UsageError, match=re.escape(words)):
        own_of(tmp_path, more=more)


@pytest.mark.activemq
def test_a_copy_runs_and_expired_messages_are_found(play, tmp_path):
    """All expire while the broker starts again: its dead-letter queue has them, and none is lost."""
    mine = own_of(tmp_path, plugins='<timeStampingBrokerPlugin zeroExpirationOverride="1000"/>')
    steps = (Publish(30, window=5), Restart(clean=True), Drain(), Drain())
    record, folder = play(*steps, adapter=mine, settings=mine.effective())
    events = [event for path in folder.glob("*.jsonl") for event in history.read(path).events]
    aside = {e.message for e in events if (e.op, e.phase) == (Op.DRAIN, Phase.INFO) and e.message}

    assert "" == record.void
    assert {f"p1:{n}" for n in range(1, 31)} == aside


@pytest.mark.activemq
@pytest.mark.parametrize("protocol", ["amqp", "stomp"])
def test_a_copy_answers_how_much_a_subscription_holds(play, tmp_path, protocol):
    """By its JMX, which its owner has switched off, and under another name than that of its owner."""
    mine = own_of(tmp_path)
    first = Together((Consume("individual", 50, receivers=2, queues=2, stop=20), Publish(20, window=10, queues=2)))
    steps = (first, Publish(30, window=10, queues=2), *SETTLE)
    queue = (("subscribed", True),)
    record, folder = play(*steps, adapter=mine, settings=mine.effective(), protocol=protocol, queue=queue)
    drained = [
        event for event in history.read(folder / "drain-1.jsonl").events if event.op is Op.DRAIN and event.message
    ]

    assert ("", 80) == (record.void, len(drained))
