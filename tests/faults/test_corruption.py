"""Damage to what a broker that is down has stored: each kind, where it is, and what it says."""

import shutil

import pytest

from conformance.errors import FaultError
from conformance.faults.disk import corruption
from conformance.history import id_of, is_intact, make_body
from conformance.scenario.faults import DAMAGE
from conformance.scenario.script import Corrupt

MESSAGES = [f"p1:{n}" for n in range(1, 41)]
SIZE = 500
HEADER = b"\x01" * 40


@pytest.fixture
def data(tmp_path):
    """A journal of two files, most of it in the second; an index; and a lock."""
    folder = tmp_path / "data"
    (folder / "journal").mkdir(parents=True)
    stored = [HEADER + make_body(message, SIZE, "t.1") for message in MESSAGES]
    (folder / "journal" / "1.log").write_bytes(b"".join(stored[:10]))
    (folder / "journal" / "2.log").write_bytes(b"".join(stored[10:]) + bytes(20_000))
    (folder / "index").write_bytes(bytes(100) + b"\x07" + bytes(100))
    (folder / "lock").write_bytes(b"1234")
    (folder / "empty").touch()
    return folder


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def damaged(data, tmp_path, how, seed="s"):
    """The files that differ, before and after, and what was said."""
    before = contents(data)
    said = corruption.corrupt(Corrupt(how), data, MESSAGES, seed, older=tmp_path / "older")
    after = contents(data)
    return {name: (old, after.get(name)) for name, old in before.items() if old != after.get(name)}, said


def bits_between(old, new):
    return [
        (at, (one ^ other).bit_count()) for at, (one, other) in enumerate(zip(old, new, strict=True)) if one != other
    ]


def bodies(content):
    return [
        content[at + len(HEADER) : at + len(HEADER) + SIZE]
        for at in range(0, content.rfind(b"p1:"), len(HEADER) + SIZE)
    ]


@pytest.mark.parametrize("seed", ["a", "b", "c", "d"])
def test_one_bit_of_one_body(data, tmp_path, seed):
    """The message still has its id, and is not what was sent."""
    changed, said = damaged(data, tmp_path, "body_bit", seed)
    ((old, new),) = changed.values()
    ((at, bits),) = bits_between(old, new)
    wrong = [id_of(body) for body in bodies(new) if not is_intact(id_of(body), body)]

    assert (1, 1) == (bits, len(wrong))
    assert said.startswith(f"byte {at:,} of journal/")
    assert said.endswith(f"in the body of {wrong[0]}")


def test_one_bit_before_a_body(data, tmp_path):
    """All bodies are as they were sent."""
    changed, said = damaged(data, tmp_path, "header_bit")
    ((old, new),) = changed.values()
    ((at, bits),) = bits_between(old, new)

    assert (1, HEADER[0]) == (bits, old[at])
    assert all(is_intact(id_of(body), body) for body in bodies(new))
    assert "before the body of p1:" in said


def test_one_bit_of_an_index(data, tmp_path):
    """In the only byte that was written; no lock, and no file that is spared."""
    changed, said = damaged(data, tmp_path, "index_bit")
    (old, new) = changed["index"]

    assert ["index"] == [*changed]
    assert [(100, 1)] == bits_between(old, new)
    assert said.startswith("byte 100 of index was 0x07 and is ")
    with pytest.raises(FaultError, match="no file without stored bodies"):
        corruption.corrupt(
            Corrupt("index_bit"), data, MESSAGES, "s", older=tmp_path, spared=[data / "index", data / "lock"]
        )


def test_a_page_of_zeros(data, tmp_path):
    changed, said = damaged(data, tmp_path, "zeroed_page")
    ((name, (old, new)),) = changed.items()
    first, last = bits_between(old, new)[0][0], bits_between(old, new)[-1][0]

    assert len(old) == len(new)
    assert first // corruption.PAGE == last // corruption.PAGE
    assert not any(new[first : last + 1])
    assert f"of journal/{name} are zeros, p1:" in said


def test_a_file_that_ends_in_its_last_body(data, tmp_path):
    changed, said = damaged(data, tmp_path, "cut_file")
    (old, new) = changed["2.log"]

    assert old.startswith(new)
    assert b"p1:40" == new[new.rfind(b"p1:40 ") :][:5]
    assert not is_intact("p1:40", new[new.rfind(b"p1:40 ") :])
    assert said == f"journal/2.log ends at byte {len(new):,}, in the body of p1:40"


@pytest.mark.parametrize(("how", "left"), [("missing_file", None), ("empty_file", b"")])
def test_the_fullest_file_is_gone_or_empty(data, tmp_path, how, left):
    changed, _ = damaged(data, tmp_path, how)

    assert {"2.log": left} == {name: new for name, (_, new) in changed.items()}


def test_a_file_of_before(data, tmp_path):
    older = tmp_path / "older" / "journal"
    older.mkdir(parents=True)
    (older / "2.log").write_bytes(b"as it was")
    changed, said = damaged(data, tmp_path, "older_file")

    assert b"as it was" == changed["2.log"][1]
    assert "journal/2.log is as it was at the start before" == said
    with pytest.raises(FaultError, match="no older state"):
        damaged(data, tmp_path, "older_file")


def test_the_seed_draws_the_place(data, tmp_path):
    copies = [shutil.copytree(data, tmp_path / name) for name in ("first", "second", "third")]
    said = [damaged(copy, tmp_path, "body_bit", seed)[1] for copy, seed in zip(copies, "aab", strict=True)]

    assert said[0] == said[1] != said[2]


def test_only_the_bodies_that_are_asked_for(data, tmp_path):
    with pytest.raises(FaultError, match="none of 1 bodies is stored as it was sent"):
        corruption.corrupt(Corrupt("body_bit"), data, ["p2:1"], "s", older=tmp_path)
    assert "in the body of p1:7" in corruption.corrupt(Corrupt("body_bit"), data, ["p1:7"], "s", older=tmp_path)


def test_every_kind_of_damage_has_its_way():
    """The table of the faults and that of the ways have the same names."""
    assert set(DAMAGE) == set(corruption._WAYS)
