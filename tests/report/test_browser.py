"""The pages in a real browser: found in two clicks, read without scripts, on a phone, in the dark, and by axe-core."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from report_rows import full, judgement, row

from conformance.judge.rows import Verdict
from conformance.report import site, write_all


@pytest.fixture(scope="module")
def addresses(catalogue, scenarios, tmp_path_factory):
    """The page of a healthy run, of one with everything in it, and the site over both."""
    runs = tmp_path_factory.mktemp("runs")
    healthy = [row(claim, scenario=name) for name, one in scenarios.items() for claim in one.decides]
    write_all(judgement(*healthy, version="1"), catalogue, scenarios, runs / "healthy")
    write_all(full(catalogue, scenarios), catalogue, scenarios, runs / "full")
    index = site.write([runs], runs / "site")
    site_pages = {"site": index, "claims": index.parent / "claims.html", "broker": index.parent / "artemis/index.html"}
    return {"healthy": runs / "healthy/report.html", "full": runs / "full/report.html", **site_pages}


@pytest.fixture
def opened(browser, addresses):
    """Open a page from its file; any error of its script fails the test."""
    contexts, errors = [], []

    def go(name, width=1300, **how):
        contexts.append(browser.new_context(viewport={"width": width, "height": 900}, **how))
        page = contexts[-1].new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.goto(addresses[name].as_uri())
        return page

    yield go
    for context in contexts:
        context.close()
    assert [] == errors


@pytest.mark.parametrize(
    ("name", "width", "scheme"),
    [
        ("healthy", 390, "light"),
        ("full", 1300, "dark"),
        ("site", 390, "dark"),
        ("broker", 390, "light"),
        ("claims", 1300, "dark"),
    ],
)
def test_every_user_can_read_it(opened, name, width, scheme):
    """axe-core finds nothing serious, and no page is wider than its window, with everything unfolded."""
    page = opened(name, width, color_scheme=scheme)
    for kind in (".claim details", ".scenario", ".evidence details"):  # one of each: all of them take axe-core a minute
        page.evaluate("kind => document.querySelectorAll(kind).forEach((one, at) => one.open = !at)", kind)
    found = Axe().run(page).response["violations"]

    assert [] == [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")]
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert width >= page.evaluate("document.documentElement.scrollWidth")


def test_a_violation_is_two_clicks_away(opened):
    """From the first screen: its claim in the list of violations, and then the table behind the picture."""
    page = opened("full")
    page.locator("#doubt-violated a").first.click()
    picture = page.locator(".evidence svg").first

    assert picture.is_visible()
    assert "after 2 restarts of the broker" in page.locator(".evidence").first.inner_text()
    page.locator(".evidence summary").first.click()
    assert page.locator(".evidence table").first.is_visible()


def test_a_picture_is_zoomed(opened):
    """By a double click and by keys; 0 puts it back. The page does not become wider."""
    page = opened("full")
    box = page.locator(".evidence .picture").first
    svg = box.locator("svg")
    before = svg.bounding_box()
    box.dblclick()
    twice = svg.bounding_box()
    box.press("0")
    again = svg.bounding_box()
    box.press("-")

    assert (2.0, 2.0) == (twice["width"] / before["width"], twice["height"] / before["height"])
    assert before["width"] == again["width"] > svg.bounding_box()["width"]
    assert page.evaluate("document.documentElement.scrollWidth") <= 1300


def test_claims_are_found_and_ordered(opened):
    """By text and answer; the worst first; and all again."""
    page = opened("full")
    claims, shown = page.locator(".claim"), page.locator(".claim:not([hidden])")
    every = claims.count()
    page.locator("#find select").select_option("VIOLATED")
    violated_now = shown.count()
    page.locator("#find select").select_option("")
    page.locator("#find input[type=search]").fill("solcd-ack-01")
    named = shown.count()
    page.locator("#find input[type=search]").fill("")
    page.locator("#find input[type=checkbox]").check()
    first = shown.first.get_attribute("data-answer")
    page.locator("#find input[type=checkbox]").uncheck()

    assert 0 < violated_now < every
    assert (1, "VIOLATED", every) == (named, first, shown.count())
    assert f"{every} of {every} claims" == page.locator("#find [role=status]").inner_text()


def test_the_filter_is_in_the_address(opened):
    """A count of the first screen sets it, a page opens with it, and what is not tried unfolds."""
    page = opened("full")
    claims = page.locator(".claim:not([hidden])")
    page.locator('.chips a[href="#filter=VIOLATED"]').click()
    violated_now = claims.count()
    page.locator("#find input[type=search]").fill("nowhere")
    address = page.url.partition("#")[2]
    page.locator('.chips a[href="#filter=NOT_TRIED"]').click()

    assert (True, 0) == (violated_now > 0, claims.count())
    assert "filter=VIOLATED&text=nowhere" == address
    assert page.locator(".untried[open]").first.is_visible()


def test_a_report_is_copied_as_markdown(opened):
    """Where the browser gives no clipboard, its text is shown instead."""
    page = opened("full")
    page.evaluate("Object.defineProperty(navigator, 'clipboard', {value: {writeText: () => Promise.reject()}})")
    page.locator("#copy").click()
    text = page.locator("#markdown").input_value()

    assert page.locator("#markdown").is_visible()
    assert text.startswith("## Apache Artemis 2.56.0 over amqp")
    assert "| Are confirmed messages safe? |" in text


def test_nothing_is_missing_without_scripts(opened):
    """What needs one is not shown: a form and a button."""
    page = opened("full", java_script_enabled=False)

    assert not page.locator("#find").is_visible()
    assert not page.locator("#copy").is_visible()
    assert page.locator(".claim").count() == page.locator(".claim:visible").count() > 0


def test_paper_has_every_answer(opened, tmp_path):
    """In print nothing is cut: links and forms go, and the claims stay."""
    page = opened("healthy")
    page.emulate_media(media="print")
    pages = page.pdf(format="A4")

    assert pages.startswith(b"%PDF")
    assert not page.locator("nav").is_visible()
    assert page.locator(".claim:visible").count() == page.locator(".claim").count()


def test_a_page_of_every_claim_is_small(addresses):
    """All claims in all scenarios, which no run has: under 2.5 MB. A whole run of one broker is under 1.5 MB."""
    assert addresses["healthy"].stat().st_size < 2_500_000


def test_other_verdicts_keep_their_sign(opened):
    """No colour alone: each answer has a sign and a word."""
    page = opened("full")
    texts = page.locator(".claim .v").all_text_contents()

    assert {word for word in map(str, Verdict) if any(word in text for text in texts)} >= {"HOLDS", "VIOLATED"}
    assert [] == [text for text in texts if len(text.split()) < 2]


def test_the_site_leads_to_a_claim(opened):
    """A click on an answer opens the page of the run at that claim, which unfolds."""
    page = opened("claims")
    page.locator("table a.v").first.click()
    page.wait_for_url("**/report.html#claim-*")
    name = page.url.partition("#")[2]

    assert page.locator(f"#{name}").is_visible()
