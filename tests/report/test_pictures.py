"""The time line of a message as a picture, and the sentence that says how it ended."""

import xml.etree.ElementTree as ET

import msgspec
import pytest
from report_rows import TIMELINE, row

from conformance.judge.rows import Course, Histogram, Verdict, Witness
from conformance.report import pictures

DELIVERED = {"at_ms": 813.0, "process": "consumer-1", "op": "deliver", "phase": "ok", "epoch": 1, "detail": ""}
LOOKED = "2 drains to silence, after 2 restarts of the broker."


def witness(*events):
    return Witness(trial="t0002", queue="orders", message="p1:213", timeline=events)


@pytest.mark.parametrize(
    ("events", "said"),
    [
        (TIMELINE, f"Never delivered: looked for in {LOOKED}"),
        (TIMELINE[:4], "Not delivered, and no drain of this trial looked for it."),
        ((DELIVERED, *TIMELINE), f"Delivered once before the last fault, and never after the last fault; {LOOKED}"),
        (
            (DELIVERED, *TIMELINE, DELIVERED, DELIVERED),
            f"Delivered once before the last fault, and twice after the last fault; {LOOKED}",
        ),
        ((DELIVERED,) * 3, "Delivered 3 times; 0 drains to silence, after 0 restarts of the broker."),
    ],
)
def test_ending(events, said):
    assert said == pictures.ending(witness(*events))


def test_each_process_that_touched_the_message_has_a_lane():
    """In words of people. A fault is a band; a time above a second is said by a dotted line: it is not to scale."""
    tree = ET.fromstring(pictures.lanes(witness(*TIMELINE)))
    texts = [text.text for text in tree.iter("text") if not text.text.endswith(" ms")]

    assert ["publisher-1", "broker", "drains"] == texts[:3]
    assert ["sent", "confirmed", "broker killed", "broker started", "drained", "broker started", "drained"] == texts[3:]
    assert 1 == len(list(tree.iter("rect")))
    assert 2 == sum(line.get("class") == "gap" for line in tree.iter("line"))
    assert "Never delivered" in tree.find("title").text


def test_a_long_time_line_is_folded():
    """Its send, its confirm, the next and the last kill, and the drains stay; a line has the number of the others."""
    kill = {**TIMELINE[2], "at_ms": 900.0}
    tree = ET.fromstring(pictures.lanes(witness(*TIMELINE[:4], *[kill] * 200, *TIMELINE[4:])))

    assert 8 == len(list(tree.iter("circle")))
    assert ["... 199 more"] == [text.text for text in tree.iter("text") if "more" in text.text]


def event(at_ms, op, phase, detail="", process="consumer-1"):
    return {"at_ms": at_ms, "process": process, "op": op, "phase": phase, "epoch": 1, "detail": detail}


SENT = [event(0.0, "send", "invoke", process="publisher-1"), event(9.0, "send", "ok", process="publisher-1")]
KILLED = [event(12.0, "fault", "fired", "kill, at once"), event(30.0, "fault", "effective", "kill")]
STARTED = [event(31.0, "broker", "ok", "kill"), event(500.0, "broker", "ok", "start")]
LATE = [event(600.0, "deliver", "ok"), event(600.01, "ack", "invoke")]


@pytest.mark.parametrize(
    ("events", "lines"),
    [
        (
            [*SENT, *KILLED, *STARTED],
            [
                "publisher-1 sent message p1:213; the broker confirmed it 9.0 ms later.",
                "The broker was killed 3.0 ms later.",
                "The broker was started again 488 ms later.",
            ],
        ),
        # It came before the process was gone: the kill is when it took effect.
        (
            [SENT[0], KILLED[0], {**SENT[1], "at_ms": 20.0}, KILLED[1]],
            [
                "publisher-1 sent message p1:213; the broker confirmed it 20 ms later.",
                "The broker was killed 10 ms later.",
            ],
        ),
        (
            [*SENT, *KILLED, *STARTED, *LATE],
            [
                "publisher-1 sent message p1:213; the broker confirmed it 9.0 ms later.",
                "The broker was killed 3.0 ms later.",
                "The broker was started again 488 ms later.",
                "consumer-1 received it 100 ms later; consumer-1 acknowledged it at once.",
            ],
        ),
        ([event(0.0, "ask", "ok", "{x}")], ["ask ok."]),
    ],
)
def test_a_story(events, lines):
    """At most five lines of words; the last one is how it ended."""
    seen = witness(*events)

    assert [*lines, pictures.ending(seen)] == pictures.story(seen)


def test_a_long_story_has_five_lines():
    """Many deliveries around many faults: the first ones, the last ones, and the fault before them."""
    rounds = [*KILLED, *STARTED, *LATE]

    assert 5 >= len(pictures.story(witness(*SENT, *rounds * 30)))


def test_words_of_others_stay_words():
    evil = "</text><script>alert(1)</script>\x1b"
    event = {"at_ms": 1.0, "process": evil, "op": evil, "phase": evil, "detail": evil}

    assert "<script" not in pictures.lanes(witness(event))
    assert "\x1b" not in pictures.lanes(witness(event))


def course(**fields):
    parts = {"sent": (3, 0, 2), "confirmed": (2, 0, 0), "delivered": (0, 0, 1), "down": (0, 1, 1)}
    times = {"median_ms": (2.0, 0.0, 0.0), "longest_ms": (230.7, 0.0, 0.0), "starts_ms": (1_234.0, 90.0), "faults": 2}
    return Course(**{"trial": "t0002", "seconds": 3.0, **parts, **times, **fields})


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {},
            (
                "5 sent, 2 confirmed, 1 delivered in 3.0 s. 2 faults, the broker started in 1.2 s at most. "
                "Answers took 2.0 ms typically, 231 ms at most."
            ),
        ),
        (
            {"faults": 0, "starts_ms": (), "median_ms": (0.0,) * 3, "longest_ms": (0.0,) * 3},
            "5 sent, 2 confirmed, 1 delivered in 3.0 s.",
        ),
    ],
)
def test_course_in_words(fields, said):
    assert said == pictures.course_words(course(**fields))


CONFIRMED = {"at_ms": 1_500.0, "process": "publisher-1", "op": "send", "phase": "ok"}


@pytest.mark.parametrize(("verdict", "marks"), [(Verdict.VIOLATED, 1), (Verdict.HOLDS, 0)])
def test_a_strip_shows_when_the_broker_was_down_and_when_a_lost_message_was_confirmed(verdict, marks):
    about = row("SOLCD-ACK-01", verdict, witnesses=(witness(CONFIRMED, *TIMELINE),))
    tree = ET.fromstring(pictures.strip(course(), [about]))

    assert [("134", "28")] == [(band.get("x"), band.get("width")) for band in tree.iter("rect")]
    lost = [line for line in tree.iter("line") if line.get("class") == "lost"]
    assert [str(pictures.LEFT + round(1.5 * pictures.PART))] * marks == [line.get("x1") for line in lost]
    assert course().trial == tree.find("title").text


def histogram(of="answer", paced=True, seconds=2.0, longest_ms=0.0009, **counts):
    """Its buckets are those of 16 to 31 ns, one nanosecond wide, and of longer times."""
    by_bucket = {int(name[1:]): n for name, n in counts.items()}
    messages = sum(by_bucket.values())
    return Histogram(of=of, paced=paced, messages=messages, seconds=seconds, longest_ms=longest_ms, counts=by_bucket)


def test_histograms_of_two_trials_add_up():
    """Quantiles of the sum, and not the mean of quantiles: 5 of 1,000 messages of one trial are among the slowest."""
    fast, slow = histogram(b20=990), histogram(b20=5, b100=5, seconds=8.0, longest_ms=0.5)
    (both,) = pictures.merge([course(times=(fast,)), course(times=(slow,))])

    assert (1_000, 10.0, 0.5, {20: 995, 100: 5}) == (both.messages, both.seconds, both.longest_ms, both.counts)
    assert [2e-5, 2e-5, 2e-5, 0.000671] == [both.quantile_ms(share) for share in (0.5, 0.99, 0.995, 0.996)]


def of_messages(courses):
    return [line for line in pictures.times_table(courses) if "takeovers" not in line.what]


def test_times_as_a_table():
    """Paced and other times stay apart, and faults are named; 99 messages say nothing of the slowest hundredth."""
    paced, other = histogram(b352=99, longest_ms=40.0), histogram(paced=False, b352=1_000, longest_ms=40.0)
    lines = of_messages(
        {"kill": [course(times=(paced,)), course(times=(other,), faults=1)], "no fault": [course(faults=0)]}
    )

    assert ["answer, from the send", "answer, from its intended time"] == [line.what for line in lines]
    assert ["1 fault inside, in 1 trial", "2 faults inside, in 1 trial"] == [line.inside for line in lines]
    assert ["1,000 of 5 sent", "99 of 5 sent"] == [line.messages for line in lines]
    assert [("36 ms",) * 4, ("36 ms", "36 ms", "", "")] == [line.quantiles for line in lines]
    assert [("40 ms", "500"), ("40 ms", "50")] == [(line.longest, line.rate) for line in lines]


def test_starts_are_lines_of_the_table():
    """Behind the times of messages; the longest of 20 says nothing of the slowest hundredth."""
    trials = [course(starts_ms=tuple(map(float, range(1, 11))), faults=10), course(starts_ms=(), faults=1)]
    lines = pictures.times_table({"kill_nodes": [*trials, course(starts_ms=tuple(map(float, range(11, 21))))]})

    assert ["20 of them"] == [line.messages for line in lines if "takeovers" in line.what]
    assert [("10 ms", "19 ms", "", "")] == [line.quantiles for line in lines if line.what.startswith("starts")]
    assert [("20 ms", "")] == [(line.longest, line.rate) for line in lines if line.what.startswith("starts")]


def test_deliveries_without_a_time_have_a_rate():
    """A consumer that attached later says how fast it was served; of 19 messages a rate says nothing."""
    late = msgspec.structs.replace(histogram("delivery"), messages=400)
    few = msgspec.structs.replace(histogram("delivery"), messages=19)
    lines = of_messages({"kill": [course(times=(late,))], "cut": [course(times=(few,))]})

    assert [("0 of 5 sent", ("",) * 4, "", "200"), ("0 of 5 sent", ("",) * 4, "", "")] == [
        (line.messages, line.quantiles, line.longest, line.rate) for line in lines
    ]


def test_times_by_fault():
    """Each row says how many messages it counts; a fault without an answer has no row."""
    timed = course(times=(histogram(b352=3), histogram("delivery", b353=1)))
    tree = ET.fromstring(pictures.times({"kill": [timed, timed], "cut": [course()]}))
    texts = [text.text for text in tree.iter("text")]

    assert ["answer: kill (6)", "delivery: kill (2)", "start of broker (6)"] == texts[:3]
    assert ["0.1 ms", "1.0 ms", "10 ms", "100 ms", "1.0 s", "10 s", "100 s"] == texts[3:]
    assert 4 == len(list(tree.iter("path")))
