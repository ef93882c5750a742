"""Ways to change the folder of a run after the run."""

import os
import re
import shutil

import msgspec
from judge_histories import CLEAN, LOSSY, RUN, close, record, write

from conformance import records, scenario
from conformance.judge.input.packing import compact_all
from conformance.records import RunFile, TrialRecord

KILL = "broker-killed-while-publishing"
LIAR = scenario.SYNC_OFF.label


def recorded(place, histories, run=RUN, controls=3):
    """Record one scenario: these trials of the subject, and so many of a control that loses messages."""
    for arm, each, label in (("subject", histories, ""), ("control", [LOSSY] * controls, LIAR)):
        for index, history in enumerate(each, 1):
            about = record(f"{arm}.{index}", KILL, arm, label, index)
            write(place / "trials" / about.trial, history, about, run=run.run)
    close(place, run)
    return place


def edit(path, old, new):
    """Change a file of the run, and keep its size and time."""
    before = path.stat()
    path.write_bytes(path.read_bytes().replace(old, new))
    assert before.st_size == path.stat().st_size
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def nothing(run):
    """Leave the folder as it is."""


def delete_histories(run):
    for path in run.glob("trials/subject.2/*.jsonl"):
        path.unlink()


def delete_one(run):
    (run / "trials" / "subject.2" / "drain-1.jsonl").unlink()


def swap(run):
    """Two trials change places, with everything that was packed of them."""
    trials = run / "trials"
    (trials / "subject.1").rename(trials / "aside")
    (trials / "subject.2").rename(trials / "subject.1")
    (trials / "aside").rename(trials / "subject.2")


def swap_histories(run):
    first, second = (run / "trials" / name / "drain-1.jsonl" for name in ("subject.2", "subject.1"))
    first.rename(run / "aside")
    second.rename(first)
    (run / "aside").rename(second)


def edit_history(run):
    edit(run / "trials" / "subject.2" / "publisher-1.jsonl", b'"p1:2"', b'"p1:1"')


def edit_record(run):
    """The violating trial calls itself void."""
    path = run / "trials" / "subject.2" / "trial.json"
    about = records.read(path, records.TrialRecord)
    records.save(msgspec.structs.replace(about, void="the disk was full"), path)


def edit_seed(run):
    path = run / "trials" / "subject.2" / "trial.json"
    records.save(msgspec.structs.replace(records.read(path, records.TrialRecord), seed=2), path)


def copy_honest(run):
    """The trials of an honest run, whose names are the same."""
    honest = recorded(run.parent / "honest", [CLEAN] * 3, msgspec.structs.replace(RUN, run="honest"))
    for name in ("subject.2", "subject.3"):
        shutil.rmtree(run / "trials" / name)
        shutil.copytree(honest / "trials" / name, run / "trials" / name)


def delete_violating(run):
    for name in ("subject.2", "subject.3"):
        shutil.rmtree(run / "trials" / name)


def delete_all(run):
    for path in run.glob("trials/*"):
        shutil.rmtree(path)


def copy_sixteen(run):
    for number in range(4, 20):
        shutil.copytree(run / "trials" / "subject.1", run / "trials" / f"subject.{number}")


def bring_later(run):
    """The folder of a planned trial that was not there when the run was closed."""
    whole = records.read(run / "run.json", RunFile)
    known = {name: sums for name, sums in whole.checksums.items() if name != "subject.3"}
    records.save(msgspec.structs.replace(whole, checksums=known), run / "run.json")


def plant(run):
    """A trial that was not planned, whose record says so of itself."""
    about = record("subject.4", KILL, "subject", "", 4)
    write(run / "trials" / about.trial, CLEAN, about)


def lines(change):
    """Change the lines of a file; one that has a line is cut in its middle."""

    def changed(body):
        found = body.splitlines(keepends=True)
        return b"".join(change(found)) if len(found) > 3 else body[: len(body) // 2]

    return changed


WAYS = {
    "emptied": lambda _: b"",
    "cut in the middle": lambda body: body[: len(body) // 2],
    "without its last byte": lambda body: body[:-1],
    "a byte more": lambda body: body + b" ",
    "a byte edited": lambda body: body.replace(b"1", b"2", 1),
    "the last digit edited": lambda body: b"7".join(body.rsplit(b"1", 1)),
    "without its first line": lines(lambda found: found[1:]),
    "without its last line": lines(lambda found: found[:-1]),
    "without a line": lines(lambda found: [*found[:2], *found[3:]]),
    "a line twice": lines(lambda found: [*found[:2], found[1], *found[2:]]),
    "two lines swapped": lines(lambda found: [found[0], found[2], found[1], *found[3:]]),
    "all lines twice": lines(lambda found: found * 2),
}


def of_file(name, way, trial="subject.2"):
    """Change one file of a trial; its times stay."""

    def tamper(run):
        path = run / "trials" / trial / name
        before = path.stat()
        path.write_bytes(WAYS[way](path.read_bytes()))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    return tamper


def of_run(**changes):
    """Edit fields of `run.json`, and leave its seal."""
    return lambda run: records.save(
        msgspec.structs.replace(records.read(run / "run.json", RunFile), **changes), run / "run.json"
    )


def of_events(name, change):
    """Change each event of a history."""

    def tamper(run):
        path = run / "trials" / "subject.2" / name
        head, *events, footer = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(head + b"".join(map(change, events)) + footer)

    return tamper


def _clock(by):
    """Move the clock of an event: its time is written as `"at_ns":N`."""
    return lambda line: re.sub(rb'"at_ns":(\d+)', lambda found: b'"at_ns":%d' % max(int(found[1]) + by, 0), line)


def delete(name):
    return lambda run: (run / "trials" / "subject.2" / name).unlink()


def foreign(name):
    """The file of the same trial of another run, which lost messages."""

    def tamper(run):
        other = recorded(run.parent / "other", [LOSSY] * 3, msgspec.structs.replace(RUN, run="other"))
        shutil.copyfile(other / "trials" / "subject.2" / name, run / "trials" / "subject.2" / name)

    return tamper


def doubled(name, copy):
    """One process twice in a trial."""
    return lambda run: shutil.copyfile(
        run / "trials" / "subject.2" / name, run / "trials" / "subject.2" / f"{copy}.jsonl"
    )


def linked(run):
    shutil.rmtree(run / "trials" / "subject.2")
    (run / "trials" / "subject.2").symlink_to(run / "trials" / "subject.1")


def lose_control(run):
    for number in (1, 2, 3):
        shutil.rmtree(run / "trials" / f"control.{number}")


def rename(run):
    (run / "trials" / "subject.3").rename(run / "trials" / "subject.4")


def cached(run):
    """The packed events of a trial of another run stay, and its histories are gone."""
    place = run / "trials" / "subject.2"
    (place / "events.parquet").write_bytes(b"PAR1")
    for path in place.glob("*.jsonl"):
        path.unlink()


def old_cache(run):
    """A cache that was made before a history was changed."""
    other = recorded(run.parent / "clean", [CLEAN] * 3)
    folder = other / "trials" / "subject.2"
    compact_all([(folder, records.read(folder / "trial.json", TrialRecord))])
    of_file("publisher-1.jsonl", "a byte edited")(run)
    for name in ("events.parquet", "events.json"):
        shutil.copyfile(folder / name, run / "trials" / "subject.2" / name)


def other_cache(run):
    """A trial that lost messages, with the packed events of one that did not."""
    foreign("drain-1.jsonl")(run)
    old_cache(run)


PUBLISHER, DRAIN = "publisher-1.jsonl", "drain-1.jsonl"
TRIALS = (
    *(delete_histories, delete_one, swap, swap_histories, edit_history, edit_record, edit_seed, copy_honest),
    *(delete_violating, delete_all, copy_sixteen, bring_later, plant),
    *(linked, lose_control, rename, cached, old_cache, other_cache),
)
EDITED = {
    "a seed": {"seed": 8},
    "a setting": {"settings": {"persistence": False}},
    "no setting": {"settings": {}},
    "a deviation": {"deviations": {"x": "y"}},
    "an id": {"run": "other"},
    "no plan": {"plan": None},
    "an empty plan": {"plan": ()},
    "no checksum": {"checksums": {}},
    "unfinished": {"finished": False},
    "interrupted": {"interrupted": True},
    "another broker": {"adapter": "artemis"},
    "another version": {"version": "2"},
    "no capability": {"capabilities": ()},
    "a claim selected": {"selected": ("AMQP-TX-03",)},
    "a claim required": {"required": ("SOLCD-ACK-01",)},
}
KINDS = {
    **{tamper.__name__.replace("_", " "): tamper for tamper in TRIALS},
    **{f"run.json: {what}": of_run(**changes) for what, changes in EDITED.items()},
    **{f"publisher-1 {way}": of_file(PUBLISHER, way) for way in WAYS},
    **{f"trial.json {way}": of_file("trial.json", way) for way in ("emptied", "a byte more", "the last digit edited")},
    **{f"orchestrator {way}": of_file("orchestrator.jsonl", way) for way in ("without its last line", "a line twice")},
    **{f"{name} of another run": foreign(name) for name in (PUBLISHER, DRAIN, "orchestrator.jsonl")},
    **{f"without {name}": delete(name) for name in ("trial.json", "orchestrator.jsonl", PUBLISHER)},
    **{f"{name} twice": doubled(name, copy) for name, copy in ((PUBLISHER, "publisher-2"), (DRAIN, "drain-9"))},
    "the clock of the publisher is an hour late": of_events(PUBLISHER, _clock(3_600 * 10**9)),
    "the clock of the publisher is early": of_events(PUBLISHER, _clock(-(10**6))),
    "the clock of a drain stands still": of_events(DRAIN, lambda line: re.sub(rb'"at_ns":\d+', b'"at_ns":1', line)),
}
"""What a tampered folder may be: files, lines and trials that are dropped, doubled, swapped, edited or of another run;
clocks and caches."""
