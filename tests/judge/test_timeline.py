"""What is shown of a timeline that is longer than its place: literal rows, the message's own events among the rounds."""

import pytest

from conformance.judge.plan import timeline

FIELDS = ("at_ms", "process", "op", "phase", "detail")


def events(text):
    """Rows as text: milliseconds, process, operation, phase, detail."""
    rows = [line.split() for line in text.splitlines() if line.strip()]
    return [dict(zip(FIELDS, (float(at), *words), strict=True)) for at, *words in rows]


def shown(found):
    return [each if isinstance(each, int) else each["at_ms"] for each in found]


def a_round(number):
    """A kill and the next start of the broker: six events from 100 * number on."""
    at = 100 * number
    return f"""
        {at} publisher-{number} fault armed kill
        {at + 70} publisher-{number} fault fired kill
        {at + 80} orchestrator fault effective kill
        {at + 81} orchestrator broker ok kill
        {at + 82} orchestrator broker invoke start
        {at + 99} orchestrator broker ok start
    """.strip()


DRAINS = """
    2000 drain-1 drain invoke -
    2040 drain-1 drain ok silent
    2050 orchestrator broker ok restart
    2060 drain-2 drain invoke -
    2090 drain-2 drain ok silent
"""


def of_rounds(own):
    """Nine rounds, the events of a message, and two drains, by time."""
    rounds = "\n".join(map(a_round, range(1, 10)))
    return sorted(events(f"{rounds}\n{own}\n{DRAINS}"), key=lambda event: event["at_ms"])


def test_a_message_lost_in_the_middle_shows_its_send_and_its_confirm():
    """Neither is among the first and last five of the 61 events. A number stands for the events left out there."""
    found = of_rounds("560 publisher-5 send invoke -\n565 publisher-5 send ok -")

    assert [
        *(100, 19),
        *(480, 2, 499, 500),  # the last kill before it, the start, and one event that a number would not shorten
        *(560, 565, 570, 3, 599),  # its send and confirm, the first kill after them, the start
        *(20, 980, 2, 999),  # the last kill before the drains, the start
        *(2000, 2040, 2050, 2060, 2090),  # the drains, and the restart between them
    ] == shown(timeline.fold(found, 10))


def test_a_message_delivered_again_shows_what_came_between():
    """Its acknowledgement, the first kill after it and the last one before the second delivery."""
    own = """
        160 publisher-1 send invoke -
        165 publisher-1 send ok -
        210 consumer-2 deliver ok -
        220 consumer-2 ack invoke -
        230 consumer-2 ack ok -
        710 consumer-7 deliver ok -
    """
    kept = {one for one in shown(timeline.fold(of_rounds(own), 10)) if isinstance(one, float)}

    assert {160, 165, 210, 220, 230, 710} | {170, 180, 199, 270, 299} | {680, 699, 770, 799} <= kept
    assert not {370, 470, 570, 870} & kept


@pytest.mark.parametrize("most", [61, 1_000])
def test_a_timeline_that_fits_is_whole(most):
    found = of_rounds("560 publisher-5 send invoke -\n565 publisher-5 send ok -")

    assert found == timeline.fold(found, most)


def test_without_events_of_a_message_the_drains_stay():
    """Of a trial without a finding: how it ended."""
    assert [100, 49, 980, 2, 999, 2000, 2040, 2050, 2060, 2090] == shown(timeline.fold(of_rounds(""), 10))


def test_of_too_many_events_of_its_own_the_least_telling_go_first():
    """Frames of a link before the answers; then the middle of a message that comes again and again."""
    frames = [f"{at} link-1 frame ok -" for at in range(10, 20)]
    answers = ["0 publisher-1 send invoke -", *frames, "20 publisher-1 send ok -"]
    again = [f"{at} consumer-1 deliver ok -" for at in range(20)]

    assert [0, 10, 20] == shown(timeline.fold(events("\n".join(answers)), 4))
    assert [0, 1, 16, 18, 19] == shown(timeline.fold(events("\n".join(again)), 4))


def test_a_stored_timeline_is_bounded_by_the_same_rule(monkeypatch):
    monkeypatch.setattr(timeline, "MOST", 4)

    assert [0, 1, 18, 19] == shown(timeline.cut(events("\n".join(f"{at} c deliver ok -" for at in range(20)))))
