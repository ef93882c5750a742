"""The time line of a message as a picture, and the sentence that says how it ended."""

import xml.etree.ElementTree as ET

import pytest
from report_rows import TIMELINE, row

from conformance.judge.rows import Course, Verdict, Witness
from conformance.report import pictures

DELIVERED = {"at_ms": 813.0, "process": "consumer-1", "op": "deliver", "phase": "ok", "epoch": 1, "detail": ""}
LOOKED = "2 drains to silence, after 2 restarts of the broker."


def witness(*events):
    return Witness(trial="t0002", queue="orders", message="p1:213", timeline=events)


@pytest.mark.parametrize(
    ("events", "said"),
    [
        (TIMELINE, f"Never delivered: looked for in {LOOKED}"),
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


def test_each_process_has_a_lane_and_each_event_a_mark():
    """A fault is a band; a time above a second is said by a dotted line, since the picture is not to scale."""
    tree = ET.fromstring(pictures.lanes(witness(*TIMELINE)))
    texts = [text.text for text in tree.iter("text")]

    assert ["publisher-1", "orchestrator", "drainer-1", "drainer-2"] == texts[:4]
    assert [len(TIMELINE), 2] == [len(list(tree.iter("circle"))), len(list(tree.iter("rect")))]
    assert 2 == sum(line.get("class") == "gap" for line in tree.iter("line"))
    assert "Never delivered" in tree.find("title").text


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

    assert [pictures.LEFT + pictures.PART * part for part in (1, 2)] == [int(r.get("x")) for r in tree.iter("rect")]
    lost = [line for line in tree.iter("line") if line.get("class") == "lost"]
    assert [str(pictures.LEFT + round(1.5 * pictures.PART))] * marks == [line.get("x1") for line in lost]
    assert pictures.course_words(course()) in tree.find("title").text


def test_times_by_fault():
    """Each row says how many trials it counts; a fault without an answer has no row."""
    silent = course(median_ms=(0.0,) * 3, longest_ms=(0.0,) * 3)
    tree = ET.fromstring(pictures.times({"kill": [course(), course()], "cut": [silent]}))
    texts = [text.text for text in tree.iter("text")]

    assert ["typical answer (2)", "longest: kill (2)", "start of broker (6)"] == texts[:3]
    assert ["0.1 ms", "1.0 ms", "10 ms", "100 ms", "1.0 s", "10 s", "100 s"] == texts[3:]
    assert 4 == len(list(tree.iter("path")))
