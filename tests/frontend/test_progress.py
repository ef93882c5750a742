"""What a run shows while it lasts: a bar and a line a trial on a terminal of any width, a line a scenario in a pipe."""

import concurrent.futures
import dataclasses
import io
import re

import msgspec
import pytest
import verdict_rows
from rich.console import Console

from conformance import campaign
from conformance.frontend import progress
from conformance.frontend.progress import RunProgress, Show
from conformance.run.record import Progress
from conformance.run.trial.described import describe

PREPARED = campaign.prepare(campaign.Options(adapter="reference", claims=("SOLCD-ACK-01", "EMS-STEP-02"), seed=7))
PLAN = PREPARED.trials
MAIN = [trial for trial in PLAN if not trial.waits_for_liveness]
WHOLE = len(PLAN)
PATIENT = dataclasses.replace(MAIN[0], id="patient.1", index=1, waits_for_liveness=True, liar="never-answers-one-send")


def began(planned, done=0, total=WHOLE):
    return Progress(planned, None, done, total)


def ended(planned, done=1, total=WHOLE, void="", log=(), seconds=3.0):
    result = {"void": void, "void_log": log, "floor_seconds": 1.25, "seconds": seconds}
    record = msgspec.structs.replace(describe(planned), **result)
    return Progress(planned, record, done, total)


class Clock:
    """Seconds that pass when the test says so."""

    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def course(clock):
    """A plan of six trials in a row and one patient one beside them."""
    return RunProgress([*MAIN[:6], PATIENT], clock=clock)


def play(course, clock, planned, seconds, done, total=7):
    course.feed(began(planned, done, total))
    clock.now += seconds
    course.feed(ended(planned, done + 1, total))


@pytest.mark.parametrize(
    ("seconds", "running", "left"),
    [
        ([10], 0, ""),  # one trial is no pace
        ([8, 12], 5, "about 35 s left"),  # four are left, less what the current one has had
        ([10, 10], 500, "about 30 s left"),  # a slow trial uses up its own share of the time only
    ],
)
def test_the_end_follows_the_pace(course, clock, seconds, running, left):
    """Of the trials that have ended, if there are two."""
    for done, each in enumerate(seconds):
        play(course, clock, MAIN[done], each, done)
    course.feed(began(MAIN[len(seconds)], len(seconds), 7))
    clock.now += running

    assert left == course.left()
    assert course.counts() == ", ".join(filter(None, (f"{len(seconds)} of 7 trials", left)))


def test_a_patient_trial_of_unknown_length(course, clock):
    """Its wait is unknown, so the estimate of the others is a minimum."""
    course.feed(began(PATIENT, 0, 7))
    for done, trial in enumerate(MAIN[:5]):
        play(course, clock, trial, 10, done)

    assert "at least 10 s left" == course.left()


def test_a_line_for_each_trial_that_runs(course, clock):
    """Scenario, broker, seconds since it began; the patient one goes when it has ended."""
    course.feed(began(PATIENT, 0, 7))
    play(course, clock, MAIN[0], 10, 0)
    course.feed(began(MAIN[1], 1, 7))
    clock.now += 4
    name = f"reference {PATIENT.adapter.version}"
    main, beside = course.lines()

    assert (f"{MAIN[1].script.id} #{MAIN[1].index}", name, "4 s") == main
    assert "14 s" == beside[2]
    course.feed(ended(PATIENT, 2, 7))
    assert 1 == len(course.lines())


def test_void_trials_and_verdicts_are_counted(course):
    """And a broker that is not the one as configured says so."""
    weak = next(trial for trial in PLAN if trial.arm_label == "weakened")
    course.verdicts = {"HOLDS": 3, "VIOLATED": 1}
    course.feed(began(MAIN[0], 0, 7))
    before = course.counts()
    course.feed(ended(MAIN[0], 1, 7, void="the kill missed"))
    course.feed(began(weak, 1, 7))

    assert "0 of 7 trials, 1 VIOLATED, 3 HOLDS" == before
    assert "1 of 7 trials, 1 void, 1 VIOLATED, 3 HOLDS" == course.counts()
    assert course.lines()[0][1].endswith(" weakened")


def test_two_jobs_are_two_lines(clock):
    """Two that run side by side take half as long, on two brokers or on one that they share."""
    course = RunProgress(MAIN[:6], clock)
    for done, (first, second) in enumerate([MAIN[:2], MAIN[2:4]]):
        course.feed(began(first, 2 * done, 6))
        course.feed(began(second, 2 * done, 6))
        clock.now += 10
        course.feed(ended(first, 2 * done + 1, 6))
        course.feed(ended(second, 2 * done + 2, 6))
    course.feed(began(MAIN[4], 4, 6))
    clock.now += 4
    course.feed(began(MAIN[5], 4, 6))

    assert ["4 s", "0 s"] == [line[2] for line in course.lines()]
    assert "about 10 s left" == course.left()


def test_what_runs_alone_is_added(clock):
    """It comes after the rest, and is estimated by the pace of the rest until two of it have ended."""
    timed = [dataclasses.replace(trial, script=dataclasses.replace(trial.script, timing=True)) for trial in MAIN[3:6]]
    course = RunProgress([*MAIN[:3], *timed], clock)
    for done, trial in enumerate(MAIN[:2]):
        play(course, clock, trial, 10, done, 6)
    before = course.left()
    play(course, clock, MAIN[2], 10, 2, 6)
    for done, trial in enumerate(timed[:2]):
        play(course, clock, trial, 20, done + 3, 6)
    course.feed(began(timed[2], 5, 6))

    assert ("about 40 s left", "about 20 s left") == (before, course.left())
    assert "5 of 6 trials, about 20 s left" == course.counts()


def test_repeats_are_a_recording_of_their_own(course, clock):
    """After the last trial the counts begin anew, without the patient ones."""
    for done, trial in enumerate(MAIN[:6]):
        play(course, clock, trial, 10, done)
    course.feed(began(MAIN[0], 0, 2))

    assert "0 of 2 trials" == course.counts()


def shown(events, *, terminal, width=100, **how):
    """What comes out of a `Show` that hears of these events."""
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=terminal, width=width, quiet=how.get("quiet", False))
    with Show(PREPARED, console=console, **how) as show:
        for event in events:
            show.watcher.progress(event)
        show._live.refresh()
    return stream.getvalue()


TWO = [began(MAIN[0]), ended(MAIN[0]), began(MAIN[1], 1), ended(MAIN[1], 2), began(MAIN[2], 2)]
OF_ONE = [trial for trial in PLAN if trial.script.id == PLAN[0].script.id]


def test_a_pipe_gets_plain_lines():
    """One for each scenario when its last trial is recorded, without escape sequences; and one for a repeated trial."""
    events = [each for at, one in enumerate(OF_ONE) for each in (began(one, at), ended(one, at + 1))]
    _, whole, again = shown([*events, ended(OF_ONE[0], WHOLE)], terminal=False).splitlines()
    count = len(OF_ONE)

    assert "\x1b" not in whole
    said = rf"  {count}/{WHOLE}  {PLAN[0].script.id}: {count} trials in {3 * count}.0 s; (about|at least) \d+ (s|min) left$"
    assert re.search(said, whole), whole
    assert again.endswith(f"{PLAN[0].script.id}: {count + 1} trials in {3 * count + 3}.0 s")


def test_a_log_is_never_silent_for_long(monkeypatch):
    """A trial has a line if nothing was said before it for a while."""
    monkeypatch.setattr(progress, "_SILENT_S", -1.0)

    assert 2 == shown(TWO, terminal=False).count("recorded in 3.0 s")


@pytest.mark.parametrize(
    ("client", "words"), [("", "over amqp, seed 7"), ("qpid-jms", r"over amqp through Apache Qpid JMS [\d.]+, seed 7")]
)
def test_the_first_line_names_a_vendors_client(client, words):
    """And no other: the suite's own sessions are always the same."""
    prepared = dataclasses.replace(PREPARED, selection=dataclasses.replace(PREPARED.selection, client=client))
    stream = io.StringIO()
    with Show(prepared, console=Console(file=stream, width=200)):
        pass

    assert re.search(words, stream.getvalue())


@pytest.mark.parametrize("width", [30, 60, 80, 200])
def test_a_terminal_of_any_width_has_a_bar_and_one_line_a_trial(width):
    """No line breaks."""
    stream = io.StringIO()
    with Show(PREPARED, console=Console(file=stream, force_terminal=True, width=width)) as show:
        show.at(began(MAIN[0]))
        show.at(began(PATIENT))
        narrow = Console(file=io.StringIO(), width=width)
        narrow.print(show._running())
    bar, *lines = narrow.file.getvalue().splitlines()

    assert (2, True) == (len(lines), all(len(line) <= width for line in (bar, *lines)))
    assert width < 60 or f"0 of {WHOLE} trials" in bar
    assert width < 60 or all(MAIN[0].script.id in line for line in lines)


def test_a_terminal_shows_recorded_trials_only_in_its_bar():
    """A void one has its line."""
    text = shown([*TWO, ended(MAIN[2], 3, void="the kill missed", log=("a\x1b[2Jb",))], terminal=True)

    assert ["recorded in" in text, "VOID: the kill missed" in text, "| a\\x1b[2Jb" in text] == [False, True, True]


def test_the_same_log_is_shown_once():
    """A broker that never starts says the same each time."""
    events = [ended(trial, void="it did not start", log=("no port",)) for trial in MAIN[:3]]

    assert 1 == shown(events, terminal=False).count("| no port")


@pytest.mark.parametrize("terminal", [True, False])
def test_quiet_says_nothing(terminal):
    """Only the summary comes, from elsewhere."""
    assert "" == shown(TWO, terminal=terminal, quiet=True, verbose=True)


@pytest.mark.parametrize("terminal", [True, False])
def test_verbose_tells_what_a_trial_does(terminal):
    """The broker once, seed and drawn number, every restart and fault, and what each trial took."""
    weak = next(trial for trial in PLAN if trial.arm_label == "weakened")
    text = shown([*TWO, began(weak, 2)], terminal=terminal, width=200, verbose=True)

    for words in (
        f"begin {MAIN[0].script.id} subject #1: seed {MAIN[0].seed}, drawn number {MAIN[0].k}",
        "Start the broker again on the same data.",
        f"the {MAIN[0].k}",
        "recorded in 3.0 s, 1.2 s of it restarts and waits",
        f"broker reference {weak.adapter.version} weakened: {weak.control}",
    ):
        assert words in text, words
    assert 1 == text.count("broker reference") - text.count("weakened: ")


def test_any_thread_may_tell():
    """Lanes report at the same time, while the live lines are drawn anew."""
    stream = io.StringIO()
    with Show(PREPARED, console=Console(file=stream, force_terminal=True), verbose=True) as show:

        def lane(at):
            trial = dataclasses.replace(PATIENT, id=f"patient.{at}")
            for _ in range(20):
                show.at(began(trial))
                show._live.refresh()
                show.at(ended(trial, void="missed"))

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(lane, range(8)))

    assert 160 == stream.getvalue().count("VOID: missed")


def test_verdicts_are_printed():
    """The worst word first; nothing where nothing was decided."""
    stream = io.StringIO()
    with Show(PREPARED, console=Console(file=stream)) as show:
        show.verdicts([])
        show.verdicts(["HOLDS", "VIOLATED", "HOLDS"])

    assert stream.getvalue().endswith("judged: 1 VIOLATED, 2 HOLDS\n")


@pytest.mark.parametrize("variable", ["FORCE_COLOR", "NO_COLOR", "CLICOLOR_FORCE"])
def test_a_pipe_gets_no_live_line_in_any_environment(monkeypatch, capsys, variable):
    """A CI log that asks for colours gets no live line."""
    monkeypatch.setenv(variable, "1")
    with Show(PREPARED) as show:
        show.at(began(MAIN[0]))
        show.at(ended(MAIN[0], void="missed"))
    text = capsys.readouterr().err

    assert (False, True, False) == ("\x1b" in text, "VOID: missed" in text, show.live)


def test_no_color_on_a_terminal(monkeypatch):
    """The live lines remain, and carry no colour."""
    monkeypatch.setenv("NO_COLOR", "1")
    text = shown(TWO, terminal=True)

    assert [] == re.findall(r"\x1b\[[0-9;]*m", text)


def test_a_download_in_a_log_is_a_line_each_tenth(capsys):
    """It is seen to move, and does not flood the log."""
    with Show(PREPARED) as show:
        for done in range(1001):
            show.watcher.download(done * 1000, 1_000_000)

    assert 11 == capsys.readouterr().err.count("downloading: ")


def test_a_download_outside_a_run_is_seen_in_a_pipe(capsys):
    """On standard error: `conformance fetch` prints the paths only to standard output."""
    with progress.downloading("artemis") as at:
        for done in range(1001):
            at(done * 1000, 1_000_000)
    printed = capsys.readouterr()

    assert ("", 11) == (printed.out, printed.err.count("downloading: "))
    assert printed.err.endswith("downloading: 1.0 MB of 1.0 MB\n")


def test_a_violation_is_printed_once(tmp_path):
    """As soon as it is judged, with where to see it and what plays its trial again; the bar counts it."""
    stream = io.StringIO()
    replay = "conformance replay . --scenario killed --trial 2"
    first = verdict_rows.row(says="It is kept.", reason="One is lost.", replay=replay)
    more = verdict_rows.row(claim="AMQP-DUR-02", replay=replay)
    prepared = dataclasses.replace(PREPARED, folder=tmp_path)
    with Show(prepared, console=Console(file=stream, width=200)) as show:
        stream.truncate(stream.seek(0))
        show.violations([first])
        show.violations([more, first])
    see = f"    see {tmp_path}/report.html; again: conformance replay {tmp_path} --scenario killed --trial 2"

    assert [
        "VIOLATED AMQP-DUR-01 in killed: It is kept.",
        "    One is lost.",
        see,
        "VIOLATED AMQP-DUR-02 in killed: It is kept.",
        f"    {more.reason}",
        see,
    ] == stream.getvalue().splitlines()
    assert f"0 of {WHOLE} trials, 2 VIOLATED" == show.course.counts()
