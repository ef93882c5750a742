"""Comprehension: the first screen alone answers the six questions, counts the faults, and names the next command."""

import re

import msgspec
import pytest
from report_rows import judgement, row, unanswered, violated

from conformance import paths
from conformance.judge.rows import Verdict
from conformance.judge.rules import UNPLAYED
from conformance.report import questions, write_all

VISIBLE = """() => {
  const texts = [];
  for (const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT); walk.nextNode(); ) {
    const range = document.createRange();
    range.selectNodeContents(walk.currentNode);
    const box = range.getBoundingClientRect();
    const seen = box.height && box.bottom <= innerHeight && walk.currentNode.parentElement.checkVisibility();
    if (seen && !walk.currentNode.parentElement.closest("script, style")) texts.push(walk.currentNode.data.trim());
  }
  return texts.filter(Boolean).join("\\n");
}"""
"""The text that a reader sees without scrolling."""

TRIED = (
    row(anomaly="lost", fault="kill", faults=59),
    row("AMQP-ACK-01", anomaly="delivered_twice", faults=12, scenario="b"),
    row("AMQP-TX-01", anomaly="half_applied", faults=9, scenario="c"),
    row("AMQP-CALL-01", anomaly="send_waited", fault="none", faults=6, scenario="d"),
    row("AMQP-GONE-01", anomaly="gone", fault="stop", faults=3, scenario="e"),
    row("EXPECT-KEPT-01", Verdict.OBSERVED, anomaly="expired_nowhere", fault="none", faults=30, scenario="f"),
)
LOSES = (violated(anomaly="lost", fault="kill", faults=45, offended_faults=22, offences=2_040), *TRIED[1:])
PARTLY = (
    row(anomaly="lost", fault="kill", faults=3),
    unanswered("AMQP-TX-01", Verdict.NOT_TRIED, UNPLAYED[0], anomaly="half_applied", fault="kill", scenario="c"),
)
NONE = "nothing to try"
RUN = "conformance run --adapter artemis"


def read(text):
    """Return the answer to each question, the number of faults, and the next command, as a reader finds them."""
    lines = text.splitlines()
    answers = {}
    for asks in questions.QUESTIONS:
        after = lines[lines.index(asks) + 1 :]
        answers[asks] = next(line for line in after if len(line) > 1)  # its sign comes first
    faults = re.search(r"in (?:\d+ of )?(\d+) (?:kill|fault)s?\.", text)
    command = next(line for line in lines if line.startswith("conformance "))
    return [*answers.values()], faults and int(faults[1]), command


@pytest.fixture(scope="module")
def first_screen(catalogue, scenarios, tmp_path_factory, browser):
    """Return the visible text of a report in a window of 1300 by 900 pixels."""

    def look(*rows, command, account):
        folder = tmp_path_factory.mktemp("run")
        found = judgement(*rows, command=command)
        write_all(msgspec.structs.replace(found, account=account), catalogue, scenarios, folder)
        page = browser.new_page(viewport={"width": 1300, "height": 900})
        page.goto((folder / "report.html").as_uri())
        text = page.evaluate(VISIBLE)
        page.close()
        return text

    return look


@pytest.mark.parametrize(
    ("rows", "command", "answers", "faults", "next_command"),
    [
        (
            TRIED,
            f"{RUN} --seed 7",
            [
                "0 lost in 59 kills",
                "0 came back in 12 kills",
                "0 broken in 9 kills",
                "0 wrong in 6 trials",
                "0 failed in 3 stops",
                "0 gone in 30 trials",
            ],
            59,
            f"{RUN} --seed 7",
        ),
        (
            LOSES,
            f"{RUN} --seed 7",
            [
                "lost in 22 of 45 kills",
                "0 came back in 12 kills",
                "0 broken in 9 kills",
                "0 wrong in 6 trials",
                "0 failed in 3 stops",
                "0 gone in 30 trials",
            ],
            45,
            "conformance replay . --scenario broker-killed-while-publishing --trial 2",
        ),
        (PARTLY, f"{RUN} --quick --seed 7", ["0 lost in 3 kills", NONE, "not tried", NONE, NONE, NONE], 3, RUN),
    ],
    ids=["it passes", "it loses messages", "partly tried"],
)
def test_the_first_screen_answers(first_screen, rows, command, answers, faults, next_command):
    text = first_screen(*rows, command=command, account={"delivered": 26_809, "unexplained": 2_040})

    assert (answers, faults, next_command) == read(text)
    assert ("lost 2,040 of 28,849 confirmed messages, in 22 of 45 kills" in text) == (rows is LOSES)
    assert ("publisher-1 sent message p1-000213; the broker confirmed it 2.8 ms later." in text) == (rows is LOSES)


SITE = paths.root() / "reports" / "examples" / "index.html"
SHOWN = {
    "activemq": ["persistence=false", "lost in 12 of 12 trials if the broker is killed", "Keep persistence=true."],
    "artemis": ["lost in 3 of 3 full disks", "lost in 12 of 60 power losses", "journal_type=ASYNCIO"],
    "mosquitto": ["as configured (2.0.11 over mqtt): not promised: lost in 96 of 96 kills", "Keep persistence=true."],
    "openmq": ["persistence=false", "not tried by a run here", "Keep persistence=true."],
    "qpid": [
        "journal_buffer_ms=500, sync_non_transactional=false and sync_transactional=false",
        "as configured (10.1.0 over amqp): lost in 5 of 128 trials",
        "as configured (10.1.0 over amqp091): lost in 3 of 6 trials",
    ],
    "rabbitmq": ["lost in 6 of 6 power losses", "queue_type=quorum: such a queue syncs before it confirms."],
    "reference": ["persistence=false", "lost in 3 of 3 trials if the broker is stopped", "Keep persistence=true."],
}
"""By broker of the published site, what its first screen must say of the settings that lose messages."""


@pytest.mark.parametrize(
    "broker", sorted({path.parent.parent.parent.name for path in SITE.parent.glob("*/*/*/*.json")})
)
def test_a_click_leads_to_the_setting_that_loses_messages(browser, broker):
    """From the index to the page of each broker, whose first screen has the settings, what was seen, and what to set."""
    page = browser.new_page(viewport={"width": 1300, "height": 900})
    page.goto(SITE.as_uri())
    page.locator(f'th a[href="{broker}/index.html"]').first.click()
    page.wait_for_url(f"**/{broker}/index.html")
    text, name = page.evaluate(VISIBLE), page.locator("h1").inner_text()
    answers = page.locator("#answer li").all()
    cut = [one.inner_text() for one in answers if one.bounding_box()["y"] + one.bounding_box()["height"] > 900]
    page.close()

    title = name.removeprefix("What loses messages on ").removesuffix(", and what to set")
    assert f"Which setting loses messages on {title}?" in text
    assert [words for words in SHOWN[broker] if words not in text] == []
    assert (True, []) == (bool(answers), cut)


def test_a_cell_of_the_site_leads_to_what_explains_it(browser):
    """Each cell with a loss opens the page of its broker at the row of that fault, which says in how many it was seen."""
    page = browser.new_page(viewport={"width": 1300, "height": 900})
    page.goto(SITE.as_uri())
    cells = [(one.get_attribute("href"), one.locator("b").inner_text()) for one in page.locator("a.t-VIOLATED").all()]
    explained = []
    for address, share in cells:
        page.goto(f"{SITE.parent.as_uri()}/{address}")
        row = page.locator(f'[id="{address.partition("#")[2]}"]')
        explained.append(share.removeprefix("✗ ") in row.inner_text() and 0 <= row.bounding_box()["y"] < 900)
    page.close()

    assert [True] * 8 == explained
