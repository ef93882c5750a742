"""The page: its order, that it loads nothing, and that words of others stay words."""

from __future__ import annotations

import html.parser
import itertools
import re

import pytest

from conformance.judge.rows import Verdict, Witness
from conformance.report import html as report_html
from conformance.report import write_all
from conformance.report.model import Expectations, Item, Standing

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
        if not self.open or self.open[-1] != "style":
            self.text += data

    def named(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]


@pytest.fixture(scope="module")
def source(make, catalogue, scenarios):
    """The page of a run with everything in it."""
    return report_html.page(make.full(catalogue, scenarios), catalogue, scenarios)


@pytest.fixture(scope="module")
def page(source):
    """The same, parsed."""
    return Page(source)


def test_the_title_of_the_page_names_the_liar(make, catalogue, scenarios):
    """Two tabs of a browser, one of the honest broker and one of a liar, looked the same."""
    text = report_html.page(make.judgement(make.row(), title="Reference broker, liar x"), catalogue, scenarios)

    assert "<title>Reference broker, liar x 2.56.0: acknowledgement report</title>" in text


def test_the_order_of_the_page(page):
    """The verdict and the doubts come before any answer; the glossary is last."""
    parts = ["verdict", "doubts", "answers", "claims", "scenarios", "self-checks", "environment", "glossary"]

    assert parts == [name for name in page.ids if name in parts]


def test_the_doubts_are_in_the_order_of_severity(page):
    doubts = [name for name in page.ids if name.startswith("doubt-")]

    assert ["doubt-violated", "doubt-error", "doubt-undecided", "doubt-void", "doubt-not-tried"] == doubts


def test_what_was_observed_stands_beside_its_claim(source):
    """An observation has no bound and no control: its figures are the answer."""
    answers = source[source.index('id="answers"') : source.index('id="claims"')]

    assert "<small>1,250 were held without trouble.</small>" in answers
    assert "0 of 1,240 confirmed messages lost in 6 kills." not in answers  # what holds has columns for it


def test_nothing_is_loaded_from_outside(page, source):
    addresses = [attrs[name] for _, attrs in page.tags for name in ("src", "href", "action", "data") if name in attrs]

    assert [] == [address for address in addresses if not address.startswith("#")]
    assert [] == re.findall(r"@import|url\(", source)


def test_no_script_and_a_strict_policy(page):
    policy = [attrs["content"] for attrs in page.named("meta") if "http-equiv" in attrs]

    assert [] == page.named("script")
    assert [] == [name for _, attrs in page.tags for name in attrs if name.startswith("on")]
    assert ["default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"] == policy


def test_every_link_has_its_end(page):
    links = {attrs["href"].removeprefix("#") for attrs in page.named("a")}

    assert set() == links - set(page.ids)
    assert len(page.ids) == len(set(page.ids))


def test_the_markup_is_balanced(page):
    assert [] == page.unbalanced


def test_tables_speak_to_screen_readers(page):
    assert len(page.named("table")) == len(page.named("caption"))
    assert [] == [attrs for attrs in page.named("th") if attrs.get("scope") not in ("col", "row")]
    assert [{"lang": "en"}] == page.named("html")


def test_headings_skip_no_level(page):
    """h1, then h2, then h3: a reader can walk along them."""
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch(r"h[1-6]", tag)]

    assert [] == [(a, b) for a, b in itertools.pairwise(levels) if b > a + 1]


def test_every_claim_of_the_catalogue_is_on_the_page(page, catalogue):
    assert set() == {f"claim-{claim}" for claim in catalogue.claims} - set(page.ids)


def test_every_verdict_word_is_in_the_glossary(page):
    assert [] == [word for word in Verdict if f"word-{word}" not in page.ids]


def test_no_score_and_no_conformant(page):
    """Nothing on the page sums claims up, and a partial run is never called conformant."""

    assert None is re.search(r"\bconformant\b|% of claims|% conform", page.text, re.IGNORECASE)


def test_the_first_witness_has_its_timeline(page):
    found = [
        word for word in ("p1-000213", "kill at the 213th confirm", "silence after 0 messages") if word in page.text
    ]

    assert ["p1-000213", "kill at the 213th confirm", "silence after 0 messages"] == found


def test_a_sentence_of_another_vendor_is_marked(page):
    assert "not promised by this product" in page.text


def test_a_requirement_of_the_user_is_marked(make, catalogue, scenarios):
    text = report_html.page(make.judgement(make.violated(required=True)), catalogue, scenarios)

    assert "your requirement, not promised by this configuration" in Page(text).text


def test_what_was_expected_is_marked(make, catalogue, scenarios):
    row = make.violated()
    about = {"claim": row.claim, "scenario": row.scenario, "mode": row.mode}
    items = (
        Item(standing=Standing.KNOWN, text="<b>bold</b> 4711", **about),
        Item(standing=Standing.UNMATCHED, claim="AMQP-DUR-01", text="no match"),
    )
    told = Expectations(exit_code=0, means="nothing new", items=items)
    page = Page(report_html.page(make.judgement(row), catalogue, scenarios, told))

    assert {"doubt-known", "doubt-unmatched"} <= set(page.ids)
    assert [True, True] == ["<b>bold</b> 4711" in page.text, "Exit code 0: nothing new." in page.text]
    assert {"tag"} == {attrs["class"] for attrs in page.named("span") if attrs.get("class") == "tag"}
    assert "known failure" in page.text.partition("One row per claim")[2]


def test_a_row_judged_as_another_vendor_is_marked(make, catalogue, scenarios):
    row = make.violated("EMS-STEP-06", scope="profile", required=True)
    text = Page(report_html.page(make.judgement(row, judged_as=("ems",)), catalogue, scenarios)).text

    assert ("judged at your request, not promised by this product" in text, False) == (
        True,
        "your requirement, not promised" in text,
    )


@pytest.mark.parametrize(
    ("vendor", "words"),
    [
        ("", "over amqp: does it keep its acknowledgement"),
        ("qpid-jms", "over amqp through Apache Qpid JMS 2.10.0: does it keep its acknowledgement"),
    ],
)
def test_a_vendors_client_is_named_in_the_title(make, catalogue, scenarios, vendor, words):
    """What was tried with it is another thing than what was tried with the suite's own sessions."""
    run = make.judgement(make.row(), vendor=vendor, client="Apache Qpid JMS 2.10.0")

    assert words in Page(report_html.page(run, catalogue, scenarios)).text


def test_self_checks_are_not_among_the_answers(make, catalogue, scenarios):
    run = make.judgement(make.row(), self_checks=(make.row("EMS-AUTO-03", reason="ours alone"),))
    text = Page(report_html.page(run, catalogue, scenarios)).text

    assert text.index("Self-checks of the suite") < text.index("ours alone")


def test_a_violation_can_be_seen_again(make, catalogue, scenarios):
    """From the folder of the page, wherever that was moved: no folder of the machine is in it."""
    text = " ".join(Page(report_html.page(make.judgement(make.violated()), catalogue, scenarios)).text.split())

    line = "type in the folder of this report: conformance replay . --scenario broker-killed-while-publishing --trial 2"
    assert 1 == text.count(line)


def test_words_of_others_stay_words(make, catalogue, scenarios):
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'&"
    seen = Witness(trial=evil, queue=evil, message=evil, timeline=({"at_ms": 1.0, "op": evil, "detail": {evil: evil}},))
    run = make.judgement(
        make.violated(evil, says=evil, reason=evil, scenario=evil, replay=evil, witnesses=(seen,), document=evil),
        trials=(make.trial(evil, scenario=evil, void=evil, void_log=(evil,)),),
        command=evil,
        title=evil,
        settings={evil: evil},
        deviations={evil: evil},
    )
    page = Page(report_html.page(run, catalogue, scenarios))

    assert [] == page.named("script") + page.named("img")
    assert [] == [name for _, attrs in page.tags for name in attrs if name.startswith("on")]
    assert evil in page.text


def test_characters_that_a_browser_obeys_are_spelled_out(make, catalogue, scenarios):
    text = report_html.page(make.judgement(make.violated(reason="p1-\u202e000\x1b")), catalogue, scenarios)

    assert (True, False) == ("p1-\\u202e000\\x1b" in text, "\u202e" in text)


@pytest.mark.parametrize("changes", [{}, {"finished": False}, {"finished": False, "interrupted": True}])
def test_a_run_without_anything_has_a_page(make, catalogue, scenarios, changes):
    page = Page(report_html.page(make.judgement(**changes), catalogue, scenarios))

    assert ("Nothing was tried." in page.text, []) == (True, page.unbalanced)


def test_a_scenario_that_this_version_does_not_have(make, catalogue):
    page = Page(report_html.page(make.judgement(make.row(scenario="long-gone", claim="OLD-01")), catalogue, {}))

    assert {"scenario-long-gone", "claim-OLD-01"} <= set(page.ids)


def test_a_partial_run_does_not_wear_the_sign_of_holds(make, catalogue, scenarios):
    run = make.full(catalogue, scenarios, bad=False)

    assert 'class="headline t-NOT_TRIED"' in report_html.page(run, catalogue, scenarios)


def test_write_all(make, catalogue, scenarios, tmp_path):
    paths = write_all(make.full(catalogue, scenarios), catalogue, scenarios, tmp_path / "a" / "b")

    assert {"html": tmp_path / "a/b/report.html", "json": tmp_path / "a/b/report.json"} == paths
    assert [] == [path for path in paths.values() if not path.is_file()]
