"""Properties that every reader of frames must have, for any protocol."""

import tracemalloc

from hypothesis import strategies as st

from conformance.protocols import link_reading

DIRECTIONS = ("to_broker", "to_client")


def split(protocol, parts):
    """Every frame of a dialogue, in its order; `parts` are (direction, bytes)."""
    splitters = dict(zip(DIRECTIONS, link_reading(protocol).readers(), strict=True))
    return [frame for direction, data in parts for frame in splitters[direction].feed(data)]


def assert_same_in_any_pieces(protocol, parts, data):
    """Any cut of the stream gives the same frames, and no byte passes before its frame is reported."""
    splitters = dict(zip(DIRECTIONS, link_reading(protocol).readers(), strict=True))
    found, ends = [], dict.fromkeys(DIRECTIONS, 0)
    for direction, whole in parts:
        cuts = data.draw(st.lists(st.integers(0, len(whole)), max_size=12).map(sorted))
        for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
            splitter = splitters[direction]
            before = splitter.passable
            seen = splitter.feed(whole, start, end)
            found += seen
            ends[direction] = max([ends[direction], *(frame.end for frame in seen)])
            assert all(frame.start >= before for frame in seen)
            assert splitter.passable == min(splitter.offset, ends[direction])

    assert split(protocol, parts) == found
    assert all(splitter.passable == splitter.offset for splitter in splitters.values())


def assert_side_by_side(splitter, whole):
    """Starts and lengths cover the stream without a gap, fed byte by byte."""
    found = [frame for at in range(len(whole)) for frame in splitter.feed(whole, at, at + 1)]

    assert [0, *(frame.end for frame in found)] == [*(frame.start for frame in found), len(whole)]


def assert_unreadable(protocol, before, data, after):
    """After one good frame, `data` is reported once with its reason; then every byte passes, and none is reported."""
    for parts in ([data], [data[at : at + 1] for at in range(len(data))]):
        splitter = link_reading(protocol).readers()[0]
        found = [frame for part in (before, *parts) for frame in splitter.feed(part)]

        assert [False, True] == [frame.name == "unreadable" for frame in found]
        assert ("other", 0) == (found[1].kind, found[1].length)
        assert found[1].detail.startswith("unreadable: ")
        assert splitter.passable == splitter.offset, "the bytes that cannot be read must not wait for the next ones"
        assert [] == splitter.feed(after)
        assert splitter.passable == splitter.offset


def assert_not_copied(protocol, data):
    """One frame, fed in pieces of 1 MiB, takes less than 16 kB of memory."""
    splitter = link_reading(protocol).readers()[0]
    tracemalloc.start()
    try:
        seen = splitter.feed(data, 0, 1000)
        for at in range(1000, len(data), 1 << 20):
            seen += splitter.feed(data, at, min(at + (1 << 20), len(data)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert 1 == len(seen)
    assert peak < 16_000
