"""The page: its order, that it loads nothing, and that words of others stay words."""

from __future__ import annotations

import base64
import hashlib
import html.parser
import itertools
import math
import re

import msgspec
import pytest
from report_rows import full, judgement, row, trial, violated

from conformance.claims import Subject
from conformance.judge.rows import Verdict, Witness
from conformance.report import html as report_html
from conformance.report import questions, write_all
from conformance.report.model import Expectations, Item, Standing
from conformance.scenario.script import SETTLE, Consume, Publish

VOID = {"meta", "br", "link", "img", "input", "hr"}


class Page(html.parser.HTMLParser):
    """Tags with their attributes, ids in order, the text, and whether every tag was closed."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags, self.ids, self.open, self.unbalanced, self.text = [], [], [], [], ""
        self.feed(source)
        self.unbalanced += self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.unbalanced.append(tag)

    def handle_data(self, data):
        if not self.open or self.open[-1] not in ("style", "script"):
            self.text += data

    def named(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]


@pytest.fixture(scope="module")
def source(catalogue, scenarios):
    """The page of a run with everything in it."""
    return report_html.page(full(catalogue, scenarios), catalogue, scenarios)


@pytest.fixture(scope="module")
def page(source):
    """The same, parsed."""
    return Page(source)


@pytest.fixture(scope="module")
def page_of(catalogue, scenarios):
    """The parsed page of a judgement."""
    return lambda found, *expected: Page(report_html.page(found, catalogue, scenarios, *expected))


def test_the_order_of_the_page(page):
    """The answer, the first violation, the six questions and the doubts come before any claim; the glossary is last."""
    parts = ["verdict", "story", "questions", "doubts", "claims", "scenarios", "self-checks", "environment", "glossary"]

    assert parts == [name for name in page.ids if name in parts]


def test_what_was_observed_stands_beside_its_claim(source):
    """An observation has no bound and no control: its figures are the answer."""
    assert "<small>1,250 were held without trouble.</small>" in source[source.index('id="claims"') :]


def test_nothing_is_loaded_from_outside(page, source):
    """A link is followed only if a reader wants it: those go to the sentences of the documents."""
    loaded = [attrs[name] for _, attrs in page.tags for name in ("src", "action", "data") if name in attrs]
    links = [attrs["href"] for attrs in page.named("a") if not attrs["href"].startswith("#")]

    assert [] == loaded
    assert ["data:"] == [attrs["href"][:5] for attrs in page.named("link")]
    assert [] == [link for link in links if not link.startswith("https://")]
    assert [] == re.findall(r"@import|url\(", source)


def test_one_script_and_a_strict_policy(page, source):
    """The policy allows it by its hash, and nothing else."""
    policy = [attrs["content"] for attrs in page.named("meta") if "http-equiv" in attrs]
    script = re.search(r"<script>(.*?)</script>", source, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()

    assert [{}] == page.named("script")
    assert [] == [name for _, attrs in page.tags for name in attrs if name.startswith("on")]
    allowed = f"img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    assert [f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"] == policy


def test_the_markup_can_be_read_by_any_reader(page, catalogue):
    """It is balanced, every link has its end, tables have captions, headings skip no level, and nothing is missing."""
    links = {link[1:] for attrs in page.named("a") if (link := attrs["href"]).startswith("#")}
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch(r"h[1-6]", tag)]

    assert [] == page.unbalanced
    assert set() == links - set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    assert len(page.named("table")) == len(page.named("caption"))
    assert [] == [attrs for attrs in page.named("th") if attrs.get("scope") not in ("col", "row")]
    assert [{"lang": "en"}] == page.named("html")
    assert [] == [(a, b) for a, b in itertools.pairwise(levels) if b > a + 1]
    assert set() == {f"claim-{claim}" for claim in catalogue.claims} - set(page.ids)
    assert [] == [word for word in Verdict if f"word-{word}" not in page.ids]


def test_no_score_and_no_conformant(page):
    """Nothing on the page sums claims up, and a partial run is never called conformant."""
    assert None is re.search(r"\bconformant\b|% of claims|% conform", page.text, re.IGNORECASE)


def test_the_first_witness_has_its_timeline(page):
    words = ("sent message p1-000213", "The broker was killed", "kill at the 213th confirm", "silence after 0 messages")

    assert [] == [word for word in words if word not in page.text]
    assert 1 == page.text.count("sent message p1-000213")


YOURS = "your requirement, not promised by this configuration"


@pytest.mark.parametrize(
    ("found", "mark"),
    [
        (judgement(violated(required=True)), YOURS),
        (
            judgement(violated("EMS-STEP-06", scope="profile", required=True), judged_as=("ems",)),
            "judged at your request, not promised by this product",
        ),
        (judgement(row("EMS-STEP-06", Verdict.OBSERVED, scope="profile")), "not promised by this product"),
        (judgement(row(), title="Reference broker, liar x"), "Reference broker, liar x 2.56.0: acknowledgement report"),
        (judgement(row()), "over amqp: does it keep its acknowledgement"),
        (
            judgement(row(), vendor="qpid-jms", client="Apache Qpid JMS 2.10.0"),
            "over amqp through Apache Qpid JMS 2.10.0: does it keep its acknowledgement",
        ),
    ],
)
def test_what_a_reader_must_not_overlook_is_marked(page_of, found, mark):
    """A requirement, another vendor's sentence, a liar, and a vendor's client: two pages of these are not the same."""
    text = page_of(found).text

    assert mark in text
    assert (mark == YOURS) == (YOURS in text)


def test_what_was_expected_is_marked(page_of):
    row = violated()
    about = {"claim": row.claim, "scenario": row.scenario, "mode": row.mode}
    items = (
        Item(standing=Standing.KNOWN, text="<b>bold</b> 4711", **about),
        Item(standing=Standing.UNMATCHED, claim="AMQP-DUR-01", text="no match"),
    )
    expected = Expectations(exit_code=0, means="nothing new", items=items)
    page = page_of(judgement(row), expected)

    assert {"doubt-known", "doubt-unmatched"} <= set(page.ids)
    assert [True, True] == ["<b>bold</b> 4711" in page.text, "0: nothing new" in page.text]
    assert {"tag"} == {attrs["class"] for attrs in page.named("span") if attrs.get("class") == "tag"}
    assert "known failure" in page.text.partition("sentence by sentence")[2]


def test_self_checks_are_not_among_the_answers(page_of):
    run = judgement(row(), ours=(row("EMS-AUTO-03", reason="ours alone"),))
    text = page_of(run).text

    assert text.index("Self-checks of the suite") < text.index("ours alone")


def test_a_violation_can_be_seen_again(page_of):
    """From the folder of the page, wherever that was moved: no folder of the machine is in it."""
    text = " ".join(page_of(judgement(violated())).text.split())

    line = "type in the folder of this report: conformance replay . --scenario broker-killed-while-publishing --trial 2"
    assert 1 == text.count(line)


def test_words_of_others_stay_words(page_of):
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'&"
    seen = Witness(trial=evil, queue=evil, message=evil, timeline=({"at_ms": 1.0, "op": evil, "detail": {evil: evil}},))
    run = judgement(
        violated(evil, says=evil, reason=evil, scenario=evil, replay=evil, witnesses=(seen,), document=evil),
        trials=(trial(evil, scenario=evil, void=evil, void_log=(evil,)),),
        command=evil,
        title=evil,
        settings={evil: evil},
        deviations={evil: evil},
    )
    page = page_of(run)

    assert [[{}], []] == [page.named("script"), page.named("img")]
    assert [] == [name for _, attrs in page.tags for name in attrs if name.startswith("on")]
    assert evil in page.text


def test_characters_that_a_browser_obeys_are_spelled_out(page_of):
    text = page_of(judgement(violated(reason="p1-\u202e000\x1b"))).text

    assert (True, False) == ("p1-\\u202e000\\x1b" in text, "\u202e" in text)


@pytest.mark.parametrize("changes", [{}, {"finished": False}, {"finished": False, "interrupted": True}])
def test_a_run_without_anything_has_a_page(catalogue, page_of, changes):
    page = page_of(judgement(**changes))

    assert ("Nothing was tried." in page.text, []) == (True, page.unbalanced)
    assert len(page.ids) == len(set(page.ids))
    assert set() == {f"claim-{claim}" for claim in catalogue.claims} - set(page.ids)


def crossed(name, protocol, **changes):
    steps = (Publish(9, 9), Consume("auto", over=protocol), *SETTLE)
    return trial(name, scenario="crossed", steps=steps, **changes)


def test_each_pair_of_protocols_has_its_row(page_of):
    """A trial that is void, or of a control, says nothing of them; a claim of the other direction was not tried here."""
    back = trial("b1", scenario="back", steps=(Publish(9, 9, over="stomp"), Consume("auto"), *SETTLE))
    alone = trial("a1", scenario="alone", steps=(Publish(9, 9), Consume("auto"), *SETTLE))
    trials = (crossed("s1", "stomp"), crossed("s2", "stomp"), crossed("m1", "amqp091"), back, alone)
    more = (crossed("v1", "stomp", void="it did not start"), crossed("c1", "stomp", arm="control"))
    seen = (Witness(trial="s1", queue="orders", message="p1-000001"),)
    found = judgement(
        row("EXPECT-CROSSED-01", Verdict.VIOLATED, scenario="crossed", witnesses=seen),
        row("EXPECT-CROSSED-02", scenario="crossed"),
        row("EXPECT-CROSSED-03", Verdict.INCONCLUSIVE, scenario="back"),
        row("EXPECT-BODY-01", scenario="alone"),
        trials=(*trials, *more),
    )
    pairs = {(pair.sent, pair.received): list(pair.cells.values()) for pair in report_html.crossing_views(found)}

    assert {
        ("amqp", "stomp"): ["1 of 2 trials", "0 of 2 trials", ""],
        ("amqp", "amqp091"): ["0 of 1 trial", "0 of 1 trial", ""],
        ("stomp", "amqp"): ["", "", "0 of 1 trial, undecided"],
    } == pairs
    assert "crossings" in page_of(found).ids
    assert "crossings" not in page_of(judgement(trials=(alone,))).ids


def test_what_a_broker_does_with_damaged_data(page_of):
    """Each kind of damage that was tried, with each answer that was seen, the worst first."""
    seen = {"missing_file": {"whole": 0, "refused": 1, "silent": 2}, "body_bit": {"altered": 3}}
    found = msgspec.structs.replace(judgement(row()), damage=seen)

    assert [
        ("a bit of the stored body of a message is flipped", ["delivers a message that was altered (3 of 3)"]),
        (
            "the file with the most stored bodies is gone",
            ["loses messages, without a word in its log (2 of 3)", "refuses to start (1 of 3)"],
        ),
    ] == report_html.damage_views(found)
    assert "damage" in page_of(found).ids
    assert "damage" not in page_of(judgement(row())).ids


def test_a_scenario_that_this_version_does_not_have(catalogue):
    page = Page(report_html.page(judgement(row(scenario="long-gone", claim="OLD-01")), catalogue, {}))

    assert {"scenario-long-gone", "claim-OLD-01"} <= set(page.ids)


@pytest.mark.parametrize(("tried", "sign"), [(1.0, "HOLDS"), (0.5, "HOLDS"), (0.4, "NOT_TRIED")])
def test_a_run_of_few_claims_does_not_wear_the_sign_of_holds(catalogue, scenarios, tried, sign):
    about = [claim for claim in catalogue.claims.values() if claim.subject != Subject.SESSION]
    run = judgement(*(row(claim.id) for claim in about[: math.ceil(tried * len(about))]))

    assert f'class="headline t-{sign}"' in report_html.page(run, catalogue, scenarios)


def test_write_all(catalogue, scenarios, tmp_path):
    paths = write_all(full(catalogue, scenarios), catalogue, scenarios, tmp_path / "a" / "b")

    assert {"html", "json", "junit", "ctrf", "summary"} == set(paths)
    assert {path.name for path in paths.values()} == {path.name for path in (tmp_path / "a/b").iterdir()}


def test_what_is_known_of_the_version_is_linked(catalogue, scenarios):
    """At its question, its claim and the row that shows it, to what the page says about it; other rows have none."""
    full_disk = "artemis_confirms_what_was_not_written.py"
    name = f"known-{report_html.anchor(full_disk)}"
    shows = violated(claim="ARTEMIS-SEND-09", scenario="disk-full-while-publishing", anomaly="confirmed_missing")
    other = violated(claim="ARTEMIS-SEND-09", scenario="broker-killed-while-publishing", anomaly="confirmed_missing")
    of_version = judgement(shows, other, adapter="artemis", version="2.56.0")
    source = report_html.page(of_version, catalogue, scenarios)
    before = report_html.page(judgement(shows, other, adapter="artemis", version="2.44.0"), catalogue, scenarios)
    parts = re.split(r'(?=<tr>|<li>|<tbody class="claim")', source)
    linked = [part for part in parts if f'href="#{name}"' in part]

    assert 3 == len(linked)
    assert ["Are confirmed messages safe?", "ARTEMIS-SEND-09</a> <", "ARTEMIS-SEND-09 <"] == [
        word
        for word in ("Are confirmed messages safe?", "ARTEMIS-SEND-09</a> <", "ARTEMIS-SEND-09 <")
        for part in linked
        if word in part
    ]
    assert ["disk-full-while-publishing"] == [
        scenario
        for scenario in ("disk-full-while-publishing", "broker-killed-while-publishing")
        for part in linked
        if part.startswith("<li>") and scenario in part
    ]
    assert f"<code>fixtures/findings/{full_disk}</code>" in source.partition(f'<dt id="{name}">')[2]
    assert "known" not in Page(before).ids


@pytest.mark.parametrize("one", questions.problems(), ids=lambda one: one.name)
def test_each_known_problem_has_its_row(one):
    """The list in Markdown says what goes wrong; a page shows each column under its heading."""
    headings = [heading for heading, _ in report_html.describe_problem(one)]

    assert {"findings": "what it shows", "bugs": "what goes wrong"}[one.page] in headings
    assert all(text for _, text in report_html.describe_problem(one))
