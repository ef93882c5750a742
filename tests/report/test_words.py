"""Steps and numbers as sentences."""

from __future__ import annotations

import doctest

import pytest

from conformance.report import html, words
from conformance.scenario import Between, Consume, ConsumerCrash, Drain, Kill, Nth, Publish, Restart, Scenario

STEPS = [
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
        Publish(50_000, window=100, until=Kill(Nth("confirm", 212))),
        (
            "Publish up to 50,000 persistent messages of 256 bytes, at most 100 unanswered. SIGKILL to every process of "
            "the broker at the 212th confirm."
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
    (Restart(), "Start the broker again on the same data."),
    (Restart(clean=True), "Stop the broker in order and start it again on the same data."),
    (Drain(), "Receive and acknowledge everything until silence, then ask the broker for its own depth."),
]


@pytest.mark.parametrize(("step", "sentence"), STEPS)
def test_a_step_is_a_sentence(step, sentence):
    """Each kind of step, with drawn numbers and with ranges."""

    assert [sentence] == words.steps_in_words(Scenario("s", "", "auto", (step,), {}))


def test_a_drawn_script_names_the_number_of_its_trial(scenarios):
    """The report of one trial needs no seed arithmetic from its reader."""
    script = scenarios["broker-killed-while-publishing"].drawn(7)

    assert f"at the {words._ordinal(script.fault.at.k)} confirm." in words.steps_in_words(script)[0]


@pytest.mark.parametrize(("number", "text"), [(1, "1st"), (11, "11th"), (112, "112th"), (1003, "1,003rd")])
def test_ordinals(number, text):
    """English has its own mind about eleven."""

    assert text == words._ordinal(number)


@pytest.mark.parametrize("module", [words, html])
def test_the_examples_of_the_docstrings(module):
    """Examples that nobody runs are wrong after a while."""

    assert 0 == doctest.testmod(module).failed
