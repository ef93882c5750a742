"""The broker is halted, and a vendor's client is asked to do something: does its call return?

Halted means that every thread of it has stopped, so nothing that is asked for after that can be answered.
"""

from conformance.scenario import OF_CLIENT, Check, SessionLiar, scenario, weakened
from conformance.scenario.script import Between, Consume, Drain, Nth, Pause, Publish

LONG_S = 33.0
"""Longer than a call may take that is said not to wait. A call that does not wait ends the pause at once."""

SENT = Nth("returned", Between(10, 25))
TAKEN = Nth("ack", Between(15, 35))
RETURNS = Check("send_returned", exposure="sends_halted", control=weakened(block_on_durable_send=False))


NON_PERSISTENT_WAITS = Check(
    "send_waited",
    exposure="sends_halted",
    control=weakened(trials=2, waits_for_liveness=True, block_on_non_durable_send=True),
)


@scenario
class SendsWhileBrokerHalted:
    """A client sends one persistent message after the other; the broker is halted when a send() has returned.

    The next send() must not return before the broker goes on.
    """

    mode = "blocking"
    subjects = OF_CLIENT
    steps = (Publish(60, window=1, until=Pause(SENT)), Drain())
    checks = (RETURNS,)


@scenario
class NonPersistentSendsWhileBrokerHalted:
    """As with persistent messages, by a client that was told to wait for the answers to non-persistent ones as well."""

    mode = "blocking"
    subjects = OF_CLIENT
    settings = {"block_on_non_durable_send": True}
    steps = (Publish(60, window=1, durable=False, until=Pause(SENT)), Drain())
    checks = (Check("send_returned", exposure="sends_halted", control=weakened(block_on_non_durable_send=False)),)


@scenario
class NonPersistentSendsAreNotHeldUp:
    """A client sends non-persistent messages as it does by default; the broker is halted, and the sends must return.

    Forty of them fit into what a broker lets a producer send ahead (Artemis 2.56.0: 55 of this size, measured).
    """

    mode = "fire_and_forget"
    subjects = OF_CLIENT
    steps = (Publish(40, window=1, durable=False, until=Pause(SENT, hold_s=LONG_S)), Drain())
    checks = (NON_PERSISTENT_WAITS,)


@scenario
class PersistentSendsAreNotHeldUp:
    """A client that waits for the answers to non-persistent sends alone sends persistent messages.

    The broker is halted, and the sends must return: what was asked for the others says nothing of these.
    """

    mode = "blocking"
    subjects = OF_CLIENT
    settings = {"block_on_durable_send": False, "block_on_non_durable_send": True}
    steps = (Publish(40, window=1, until=Pause(SENT, hold_s=LONG_S)), Drain())
    checks = (
        Check(
            "send_waited",
            exposure="sends_halted",
            control=weakened(trials=2, waits_for_liveness=True, block_on_durable_send=True),
        ),
    )


@scenario
class TransactedSendsAreNotHeldUp:
    """A client sends in transactions of twenty; the broker is halted when a send() in one has returned.

    The sends that are left of the transaction must return, and its commit() waits for the broker to go on.
    """

    mode = "transacted"
    subjects = OF_CLIENT
    steps = (Publish(60, window=1, batch=20, until=Pause(Nth("returned", Between(23, 30)), hold_s=LONG_S)), Drain())
    checks = (
        Check(
            "transacted_send_waited",
            exposure="transacted_sends_halted",
            control=SessionLiar("waits-for-each-send", trials=2, waits_for_liveness=True),
        ),
        Check("sent_ahead", exposure="transacted_sends_halted"),
    )


@scenario
class AcknowledgedWhileBrokerHalted:
    """A client that was told to wait for answers takes fifty messages, then acknowledges each of them.

    The broker is halted when a call has returned. The next acknowledge() must not return before the broker goes on.
    """

    mode = "individual"
    subjects = OF_CLIENT
    settings = {"block_on_acknowledge": True}
    steps = (
        Publish(80, window=20),
        Consume("individual", prefetch=100, backwards=50, stop=60, until=Pause(TAKEN)),
        Drain(),
    )
    checks = (
        Check("acknowledge_returned", exposure="acknowledges_halted", control=weakened(block_on_acknowledge=False)),
    )


@scenario
class AcknowledgesAreNotHeldUp:
    """A client takes fifty messages, and acknowledges each as it does by default; then the broker is halted.

    The calls must return.
    """

    mode = "individual"
    subjects = OF_CLIENT
    steps = (
        Publish(80, window=20),
        Consume("individual", prefetch=100, backwards=50, stop=60, until=Pause(TAKEN, hold_s=LONG_S)),
        Drain(),
    )
    checks = (
        Check(
            "acknowledge_waited",
            exposure="acknowledges_halted",
            control=weakened(trials=2, waits_for_liveness=True, block_on_acknowledge=True),
        ),
    )


@scenario
class CommitsWhileBrokerHalted:
    """A client sends in transactions of five; the broker is halted when one is complete but for its commit().

    That commit() must not return before the broker goes on.
    """

    mode = "transacted"
    subjects = OF_CLIENT
    steps = (Publish(100, window=50, batch=5, until=Pause(Nth("before_commit", Between(4, 8)))), Drain())
    checks = (Check("commit_returned", exposure="commits_halted", control=SessionLiar("returns-before-commit")),)


@scenario
class RollbacksWhileBrokerHalted:
    """A client sends in transactions of five and rolls each of them back; the broker is halted before a rollback().

    That rollback() must not return before the broker goes on.
    """

    mode = "transacted"
    subjects = OF_CLIENT
    steps = (
        Publish(100, window=50, batch=5, rollback_every=1, until=Pause(Nth("before_commit", Between(4, 8)))),
        Drain(),
    )
    checks = (Check("rollback_returned", exposure="rollbacks_halted", control=SessionLiar("returns-before-commit")),)
