"""Dialogues that come in pieces: what every splitter of frames must keep, whatever its protocol."""

from hypothesis import strategies as st

from conformance.faults.frames import pair

DIRECTIONS = ("to_broker", "to_client")


def split(protocol, parts):
    """Every frame of a dialogue, in its order; `parts` are (direction, bytes)."""
    splitters = dict(zip(DIRECTIONS, pair(protocol), strict=True))
    return [frame for direction, data in parts for frame in splitters[direction].feed(data)]


def assert_same_in_any_pieces(protocol, parts, data):
    """A frame is the same however it comes, and nothing may be passed on of one that is not reported."""
    splitters = dict(zip(DIRECTIONS, pair(protocol), strict=True))
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
    """Starts and lengths cover the stream without a gap; byte by byte as well."""
    found = [frame for at in range(len(whole)) for frame in splitter.feed(whole, at, at + 1)]

    assert [0, *(frame.end for frame in found)] == [*(frame.start for frame in found), len(whole)]
