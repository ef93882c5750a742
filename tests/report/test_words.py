"""Steps and numbers as sentences."""

from __future__ import annotations

import doctest

import pytest

from conformance.report import html, phrases
from conformance.report.phrases import ordinal
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

UP_TO = "Publish up to 9 persistent messages of 256 bytes, one at a time, waiting for each answer. "
STEPS = [
    (
        Publish(9, window=1, until=Pause(Nth("sent", 3), hold_s=0.5, then_kill=True)),
        UP_TO + "SIGSTOP to every process of the broker at the 3rd send that was written, and SIGKILL 0.5 s later.",
    ),
    (
        Publish(9, window=1, until=Kill(All((Nth("confirm", 3), After(Between(5, 11)))))),
        UP_TO + "SIGKILL to every process of the broker at the 3rd confirm and a time between 5 and 11 ms, drawn from "
        "the trial's seed, after the client began.",
    ),
    (
        Publish(9, window=1, until=Kill(Nth("confirm", 3), delay_us=1_500)),
        UP_TO + "SIGKILL to every process of the broker at the 3rd confirm, 1,500 us after it.",
    ),
    (
        Publish(9, window=1, until=Kill(Nth("confirm", 3), delay_us=Between(0, 4_000))),
        UP_TO
        + "SIGKILL to every process of the broker at the 3rd confirm, 0 to 4,000 us after it, drawn from the trial's seed.",
    ),
    (
        Publish(9, window=1, until=PowerLoss(Nth("confirm", 3), torn=True)),
        UP_TO + "Power loss at the 3rd confirm: data that was not synced is lost; some pages that were not synced are "
        "written, and others are lost.",
    ),
    (
        Publish(9, window=1, until=Cut(Frame("send", Between(2, 4), at="middle"))),
        UP_TO
        + "Reset the connection in the middle of a send between the 2nd and the 4th, drawn from the trial's seed.",
    ),
    (
        Publish(9, window=1, until=HoldLink(Frame("answer", 3, at="before"))),
        UP_TO + "Before the 3rd answer of the broker, nothing passes from the broker to the client for 1 s.",
    ),
    (Publish(9, window=1, until=Delay(20)), UP_TO + "A round trip to the broker takes 20 ms more."),
    (Publish(9, window=1, until=Throttle(9_000)), UP_TO + "The link carries at most 9,000 bytes a second each way."),
    (
        Restart(until=Kill(Recovery(3))),
        (
            "Start the broker again on the same data; at the 3rd access to its journal every process of it is killed, and it "
            "is started once more."
        ),
    ),
    (
        Restart(clean=True, under=Watched()),
        (
            "Stop the broker cleanly and start it again on the same data; its writes and syncs of "
            "the journal are traced."
        ),
    ),
    (
        Restart(clean=True, under=HeldSync(0.4)),
        (
            "Stop the broker cleanly and start it again on the same data; every sync of its journal begins 0.4 s late "
            "until it ends."
        ),
    ),
    (
        Restart(under=FailedSync(7)),
        (
            "Start the broker again on the same data; from the 7th on, each sync of its journal by one thread fails with "
            "EIO."
        ),
    ),
    (
        Restart(under=DiskFull(Between(7, 9))),
        (
            "Start the broker again on the same data; from one between the 7th and the 9th, drawn from the trial's seed on, "
            "each write to its journal by one thread fails with ENOSPC."
        ),
    ),
    (Publish(300, window=100), "Publish 300 persistent messages of 256 bytes, at most 100 unanswered."),
    (
        Publish(1, window=1, size=1024, durable=False),
        "Publish 1 non-persistent message of 1,024 bytes, one at a time, waiting for each answer.",
    ),
    (
        Publish(50_000, window=100, until=Kill(Nth("confirm", Between(150, 601)))),
        (
            "Publish up to 50,000 persistent messages of 256 bytes, at most 100 unanswered. SIGKILL to every process of "
            "the broker at a confirm between the 150th and the 601st, drawn from the trial's seed."
        ),
    ),
    (
        Consume("auto", prefetch=50, until=ConsumerCrash(Nth("process", 122))),
        (
            "Consume in AUTO mode with a prefetch of 50, acknowledging each message after its processing. SIGKILL to the "
            "client process itself at the 122nd processing."
        ),
    ),
    (
        Consume("client", prefetch=2_000, acknowledge=400, stop=1_000),
        (
            "Consume in CLIENT mode with a prefetch of 2,000, acknowledging everything so far at every 400th message; "
            "stop after the 1,000th delivery."
        ),
    ),
    (
        Consume("individual", acknowledge=2),
        "Consume in INDIVIDUAL mode with a prefetch of 100, acknowledging every 2nd message.",
    ),
    (Consume("individual"), "Consume in INDIVIDUAL mode with a prefetch of 100, acknowledging each message."),
    (
        Publish(60, window=50, batch=10, rollback_every=3, peek=True),
        (
            "Publish 60 persistent messages of 256 bytes, at most 50 unanswered; in transactions of 10; commit each and "
            "roll back every 3rd; a receiver waits on the queue and takes what becomes available."
        ),
    ),
    (
        Publish(20, window=5, unasked_every=2),
        ("Publish 20 persistent messages of 256 bytes, at most 5 unanswered; every 2nd asks for no answer."),
    ),
    (
        Publish(50_000, window=100, until=Stop(Nth("confirm", 200))),
        (
            "Publish up to 50,000 persistent messages of 256 bytes, at most 100 unanswered. SIGTERM to the broker at the "
            "200th confirm."
        ),
    ),
    (
        Publish(400, window=20, until=Pause(Nth("confirm", 61), hold_s=1.5)),
        (
            "Publish up to 400 persistent messages of 256 bytes, at most 20 unanswered. SIGSTOP to every process of the "
            "broker at the 61st confirm, and SIGCONT 1.5 s later."
        ),
    ),
    (
        Publish(200, window=50, batch=10, until=ConsumerCrash(Nth("before_commit", 4))),
        (
            "Publish up to 200 persistent messages of 256 bytes, at most 50 unanswered; in transactions of 10; commit "
            "each. SIGKILL to the client process itself at the 4th transaction that lacks only its commit."
        ),
    ),
    (
        Consume("transacted", prefetch=120, acknowledge=10, rollback_every=4, until=Pause(Nth("commit_written", 5))),
        (
            "Consume in TRANSACTED mode with a prefetch of 120, acknowledging in transactions of 10; roll back every "
            "4th. SIGSTOP to every process of the broker at the 5th request to commit, and SIGCONT 1 s later."
        ),
    ),
    (
        Consume("individual", prefetch=50, refuse=("released", "failed"), refuse_every=3, until_silent=True),
        (
            "Consume in INDIVIDUAL mode with a prefetch of 50, acknowledging each message; give every 3rd new message "
            "back, in turn as released, failed; stop when no more messages come."
        ),
    ),
    (
        Consume("client", prefetch=20, acknowledge=20, hold=True, confirm=True, stop=80),
        (
            "Consume in CLIENT mode with a prefetch of 20, acknowledging everything so far at every 20th message, and "
            "reading the answer; when the prefetch is used up, wait for more before acknowledging; stop after "
            "the 80th delivery."
        ),
    ),
    (Consume("pre"), "Consume in PRE mode with a prefetch of 100, acknowledging each message before its processing."),
    (
        Consume("no_ack", until=Kill(Nth("ack", 3))),
        (
            "Consume in NO_ACK mode with a prefetch of 100, acknowledging nothing. SIGKILL to every process of the broker "
            "at the 3rd confirmed acknowledgement."
        ),
    ),
    (
        Together((Consume("auto", stop=5), Publish(9, window=3))),
        (
            "2 clients at once, the publishers when every consumer is attached: Consume in AUTO mode with a prefetch of "
            "100, acknowledging each message after its processing; stop after the 5th delivery. Publish 9 persistent "
            "messages of 256 bytes, at most 3 unanswered."
        ),
    ),
    (Restart(), "Start the broker again on the same data."),
    (Restart(clean=True), "Stop the broker cleanly and start it again on the same data."),
    (Drain(), "Receive and acknowledge everything until silence, then ask the broker for its own depth."),
]


@pytest.mark.parametrize(("step", "sentence"), STEPS)
def test_a_step_is_a_sentence(step, sentence):
    assert [sentence] == phrases.steps_in_words([step])


def test_a_drawn_script_names_the_number_of_its_trial(scenarios):
    script = scenarios["broker-killed-while-publishing"].drawn(7)

    assert f"at the {ordinal(script.fault.at.k)} confirm." in phrases.steps_in_words(script.steps)[0]


def test_every_script_has_its_words(scenarios):
    """One sentence or two for each step of the suite, and no event or fault without a word."""
    told = [phrases.steps_in_words(script.steps) for script in scenarios.values()]

    assert [len(script.steps) for script in scenarios.values()] == [len(sentences) for sentences in told]
    assert all(sentence.endswith((".", "?")) for sentences in told for sentence in sentences)


@pytest.mark.parametrize(("number", "text"), [(1, "1st"), (11, "11th"), (112, "112th"), (1003, "1,003rd")])
def test_ordinals(number, text):
    assert text == ordinal(number)


@pytest.mark.parametrize("module", [phrases, html])
def test_the_examples_of_the_docstrings(module):
    assert 0 == doctest.testmod(module).failed
