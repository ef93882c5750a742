"""Steps and numbers as sentences."""

from __future__ import annotations

import pytest
from report_rows import row

from conformance.counting import ordinal
from conformance.judge.rows import Verdict
from conformance.report import phrases
from conformance.scenario.script import (
    After,
    All,
    Between,
    Consume,
    ConsumerCrash,
    Cut,
    Delay,
    DiskFull,
    Drain,
    FailedSync,
    Frame,
    HeldSync,
    HoldLink,
    Kill,
    Nth,
    Pause,
    PowerLoss,
    Publish,
    Recovery,
    Restart,
    Stop,
    Throttle,
    Together,
    Watched,
)

AT = Nth("confirm", 3)
FAULTS = [
    (Kill(Nth("confirm", Between(3, 9))), "at a confirm between the 3rd and the 9th, drawn from the trial's seed."),
    (
        Kill(All((AT, After(Between(5, 11))))),
        "the 3rd confirm and a time between 5 and 11 ms, drawn from the trial's seed, after the client began.",
    ),
    (Kill(After(5)), "at 5 ms after the client began."),
    (Kill(AT, delay_us=1_500), "at the 3rd confirm, 1,500 us after it."),
    (Kill(AT, delay_us=Between(0, 4_000)), "confirm, 0 to 4,000 us after it, drawn from the trial's seed."),
    (Stop(AT), "SIGTERM to the broker at the 3rd confirm."),
    (Pause(Nth("sent", 3), hold_s=0.5, then_kill=True), "the 3rd send that was written, and SIGKILL 0.5 s later."),
    (Pause(AT, hold_s=1.5), "SIGSTOP to every process of the broker at the 3rd confirm, and SIGCONT 1.5 s later."),
    (ConsumerCrash(Nth("process", 122)), "SIGKILL to the client process itself at the 122nd processing."),
    (PowerLoss(AT), "Power loss at the 3rd confirm: data that was not synced is lost."),
    (PowerLoss(AT, torn=True), "is lost; some pages that were not synced are written, and others are lost."),
    (Cut(Frame("send", Between(2, 4), at="middle")), "Reset the connection in the middle of a send between the 2nd"),
    (HoldLink(Frame("answer", 3, at="before")), "Before the 3rd answer of the broker, nothing passes from the broker"),
    (Delay(20), "A round trip to the broker takes 20 ms more."),
    (Throttle(9_000), "The link carries at most 9,000 bytes a second each way."),
]
STEPS = [
    *((Publish(9, window=1, until=fault), text) for fault, text in FAULTS),
    (
        Publish(1, window=100, size=1024, durable=False),
        "Publish 1 non-persistent message of 1,024 bytes, at most 100 unanswered.",
    ),
    (Publish(60, window=50, batch=10, every_ms=5), "; in transactions of 10; commit each; a transaction is due every"),
    (Publish(60, window=50, batch=10, rollback_every=3), "commit each and roll back every 3rd."),
    (Publish(60, window=50, every_ms=5, peek=True), "; a send is due every 5 ms; a receiver waits on the queue and"),
    (Publish(20, window=5, lives_ms=1_000), "; each lives for 1,000 ms."),
    (Publish(20, window=5, unasked_every=2), "; every 2nd asks for no answer."),
    (Publish(20, window=5, immediate_every=2), "; every 2nd asks for Ack Immediately."),
    (
        Consume("client", prefetch=2_000, acknowledge=400, stop=1_000),
        (
            "Consume in CLIENT mode with a prefetch of 2,000, acknowledging everything so far at every 400th message; stop "
            "after the 1,000th delivery."
        ),
    ),
    (Consume("client", acknowledge=1), "acknowledging everything so far at each message."),
    (Consume("individual", acknowledge=2), "a prefetch of 100, acknowledging every 2nd message."),
    (Consume("auto"), ", acknowledging each message after its processing."),
    (Consume("pre"), ", acknowledging each message before its processing."),
    (Consume("no_ack"), ", acknowledging nothing."),
    (Consume("transacted", acknowledge=10, rollback_every=4), "in transactions of 10; roll back every 4th."),
    (
        Consume("individual", refuse=("released", "failed"), refuse_every=3, until_silent=True),
        "; give every 3rd new message back, in turn as released, failed; stop when no more messages come.",
    ),
    (
        Consume("client", acknowledge=20, hold=True, confirm=True),
        "message, and reading the answer; when the prefetch is used up, wait for more before acknowledging.",
    ),
    (
        Consume("individual", work_ms=5, backwards=3),
        "wait until 3 are processed, and acknowledge the last one first; e",
    ),
    (
        Consume("client", receives=True, on_session=True),
        "; call receive() for each; call acknowledge() on the session.",
    ),
    (
        Together((Consume("auto", stop=5), Publish(9, window=3))),
        "2 clients at once, the publishers when every consumer is attached: Consume in AUTO mode with a prefetch of",
    ),
    (
        Restart(clean=True, flushed=True),
        "and start it again on the same data, all of which has reached the disk by then.",
    ),
    (
        Restart(clean=True, under=Watched()),
        "Stop the broker cleanly and start it again on the same data; its writes and",
    ),
    (
        Restart(until=Kill(After(200))),
        "; 200 ms after it is ready, without use, every process of it is killed, and it is started",
    ),
    (Restart(until=Kill(Recovery(3))), "; at the 3rd access to its journal every process of it is killed, and it is"),
    (
        Restart(beside=(Publish(9, window=3), Publish(5, window=1))),
        "on the same data; 2 clients may connect as soon as it answers: Publish 9 persistent messages of 256 bytes, at",
    ),
    (Restart(under=HeldSync(0.4)), "; every sync of its journal begins 0.4 s late until it ends."),
    (Restart(under=FailedSync(7)), "; from the 7th on, each sync of its journal by one thread fails with EIO."),
    (
        Restart(under=DiskFull(Between(7, 9))),
        "; from one between the 7th and the 9th, drawn from the trial's seed on, e",
    ),
    (Drain(), "Receive and acknowledge everything until silence, then ask the broker for its own depth."),
]


@pytest.mark.parametrize(("step", "part"), STEPS)
def test_a_step_is_a_sentence(step, part):
    (sentence,) = phrases.steps_in_words([step])

    assert part in sentence
    assert sentence.endswith(".")


def test_a_plain_step_has_no_other_words():
    steps = Publish(300, window=100), Publish(9, window=1, until=Kill(AT)), Consume("individual"), Restart()

    assert [
        "Publish 300 persistent messages of 256 bytes, at most 100 unanswered.",
        (
            "Publish up to 9 persistent messages of 256 bytes, one at a time, waiting for each answer. SIGKILL to every "
            "process of the broker at the 3rd confirm."
        ),
        "Consume in INDIVIDUAL mode with a prefetch of 100, acknowledging each message.",
        "Start the broker again on the same data.",
    ] == phrases.steps_in_words(steps)


def test_every_script_has_a_sentence_for_each_step(scenarios):
    """No event or fault of the suite is without a word; a drawn script has the number of its trial."""
    found = {name: phrases.steps_in_words(script.steps) for name, script in scenarios.items()}
    drawn = scenarios["broker-killed-after-acknowledgements"].drawn(7)

    assert {name: len(script.steps) for name, script in scenarios.items()} == {k: len(v) for k, v in found.items()}
    assert f"at the {ordinal(drawn.fault.at.k)} confirmed acknowledgement." in " ".join(
        phrases.steps_in_words(drawn.steps)
    )


@pytest.mark.parametrize(("number", "text"), [(11, "11th"), (112, "112th"), (23, "23rd")])
def test_ordinals(number, text):
    assert text == ordinal(number)


@pytest.mark.parametrize(
    ("command", "again"),
    [
        (
            "conformance run --adapter artemis@2.56.0:native --protocol amqp --set a=1 --claims 'EMS-*' --quick --trials 3 --seed 7",
            "conformance run --adapter artemis@2.56.0:native --protocol amqp --set a=1 --claims SOLCD-ACK-01 --trials 12",
        ),
        ("pytest suites --adapter=artemis", ""),
        ("", ""),
    ],
)
def test_a_command_that_decides_more(command, again):
    """Broker, protocol and settings stay; claims, trials and seed are its own."""
    assert again == phrases.command_to_decide(row(verdict=Verdict.INCONCLUSIVE), command)
