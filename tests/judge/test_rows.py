"""Times of messages in buckets, and the replay command of a row."""

import math

import pytest

from conformance.judge.rows import ANSWER, Histogram, bucket_end_ms, replay_in


def histogram(counts, longest_ms=1.0, messages=9, seconds=1.5):
    return Histogram(
        of=ANSWER, paced=True, messages=messages, seconds=seconds, longest_ms=longest_ms, counts=dict(counts)
    )


def test_the_end_of_a_bucket_is_its_longest_time():
    """By the rule of `Histogram`, for each time up to 4,095 ns."""
    longest = {}
    for nanoseconds in range(1 << 12):
        shift = max(nanoseconds.bit_length() - 5, 0)
        longest[(nanoseconds >> shift) + 16 * shift] = nanoseconds

    assert list(range(144)) == list(longest)
    assert longest == {bucket: round(bucket_end_ms(bucket) * 1e6, 6) for bucket in longest}


@pytest.mark.parametrize(
    ("counts", "share", "rank"),
    [
        ({20: 3, 57: 1}, 0.75, 3),
        ({20: 3, 57: 1}, 0.76, 4),
        ({57: 1, 20: 3, 40: 6}, 0.3, 3),
        ({57: 1, 20: 3, 40: 6}, 0.31, 4),
        ({57: 1, 20: 3, 40: 6}, 0.9, 9),
    ],
)
def test_a_quantile_is_the_end_of_the_bucket_of_its_message(counts, share, rank):
    """By the sorted times of all messages; none is longer than the longest."""
    ends = sorted(bucket_end_ms(bucket) for bucket, count in counts.items() for _ in range(count))
    assert math.ceil(share * len(ends)) == rank

    assert ends[rank - 1] == histogram(counts).quantile_ms(share)
    assert min(ends[rank - 1], 0.00003) == histogram(counts, longest_ms=0.00003).quantile_ms(share)


def test_without_a_time_the_longest_is_the_quantile():
    assert 7.0 == histogram({}, longest_ms=7.0).quantile_ms(0.5)


def test_histograms_add_up():
    one = histogram({3: 1, 7: 2}, longest_ms=4.0, messages=4, seconds=1.0)
    other = histogram({7: 5, 1: 8}, longest_ms=3.0, messages=20, seconds=2.5)
    both = histogram({1: 8, 3: 1, 7: 7}, longest_ms=4.0, messages=24, seconds=3.5)

    assert (both, both) == (one + other, other + one)
    assert [1, 3, 7] == list((one + other).counts)


@pytest.mark.parametrize(
    ("replay", "typed"),
    [
        ("conformance replay . --scenario s --trial 2", "conformance replay 'runs/a b' --scenario s --trial 2"),
        ("conformance run --seed 7", "conformance run --seed 7"),
        ("conformance replay other --scenario s", "conformance replay other --scenario s"),
    ],
)
def test_a_replay_outside_its_folder_names_it(replay, typed):
    assert typed == replay_in(replay, "runs/a b")
