"""The time line of a message as a picture, and the sentence that says how it ended."""

import xml.etree.ElementTree as ET

import pytest
from report_rows import TIMELINE

from conformance.judge.rows import Witness
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
