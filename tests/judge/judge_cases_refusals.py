"""Deliveries that their consumer gave back."""

from judge_histories import came, given_back, handed, kept, settled, silent, took

REFUSALS = {
    "released and gone": (
        "released_gone",
        kept(1, 2) + handed(1) + given_back(1) + handed(2) + given_back(2) + settled(2, epoch=1),
        2,
        1,
    ),
    "released, come again and taken": (
        "released_gone",
        kept(1) + handed(1) + given_back(1) + took(1) + settled(epoch=1),
        1,
        0,
    ),
    "rejected and gone": ("released_gone", kept(1) + handed(1) + given_back(1, "rejected") + settled(epoch=1), 0, 0),
    "released, and the queue not silent yet": ("released_gone", kept(1) + handed(1) + given_back(1) + silent(1), 0, 0),
    "failed and gone": (
        "failed_gone",
        kept(1, 2) + handed(1) + given_back(1, "failed") + handed(2) + given_back(2, "failed") + settled(2, epoch=1),
        2,
        1,
    ),
    "failed, come again and taken": (
        "failed_gone",
        kept(1) + handed(1) + given_back(1, "failed") + took(1) + settled(epoch=1),
        1,
        0,
    ),
    "released and gone is another's": ("failed_gone", kept(1) + handed(1) + given_back(1) + settled(epoch=1), 0, 0),
    "failed, and the queue not silent yet": (
        "failed_gone",
        kept(1) + handed(1) + given_back(1, "failed") + silent(1),
        0,
        0,
    ),
    # counts
    "a release that counts": (
        "release_counted",
        handed(1) + given_back(1) + handed(1, count=1) + handed(2, count=3) + given_back(2) + handed(2, count=3),
        2,
        1,
    ),
    "a release that leaves the count of earlier failures": (
        "release_counted",
        handed(1, count=2) + given_back(1) + handed(1, count=2),
        1,
        0,
    ),
    "a higher count at another consumer may be a failure between": (
        "release_counted",
        handed(1) + given_back(1) + handed(1, consumer=2, count=1),
        0,
        0,
    ),
    "a higher count at the drain may be a failure between": (
        "release_counted",
        handed(1) + given_back(1) + came(1, epoch=1, count=1),
        0,
        0,
    ),
    "a third delivery says nothing about the release": (
        "release_counted",
        handed(1) + given_back(1) + handed(1) + handed(1, count=1),
        0,
        0,
    ),
    "a failure may count": ("release_counted", handed(1) + given_back(1, "failed") + handed(1, count=1), 0, 0),
    "a failure that does not count": (
        "failure_uncounted",
        handed(1) + given_back(1, "failed") + handed(1) + handed(2) + given_back(2, "failed") + handed(2, count=1),
        2,
        1,
    ),
    "no count that the client could see": (
        "failure_uncounted",
        handed(1, count=None) + given_back(1, "failed") + handed(1, count=None),
        1,
        0,
    ),
    "the same count at another consumer": (
        "failure_uncounted",
        handed(1) + given_back(1, "failed") + handed(1, consumer=2),
        0,
        0,
    ),
    "a failure that comes again unmarked": (
        "failure_unmarked",
        handed(1)
        + given_back(1, "failed")
        + handed(1, redelivered=False)
        + handed(2, redelivered=False)
        + given_back(2, "failed")
        + handed(2, redelivered=True),
        2,
        1,
    ),
    "a mark that nobody could see": (
        "failure_unmarked",
        handed(1) + given_back(1, "failed") + handed(1, redelivered=None),
        1,
        0,
    ),
    "a release need not count": ("failure_uncounted", handed(1) + given_back(1) + handed(1), 0, 0),
    # what becomes of them
    "undeliverable here and here again": (
        "undeliverable_again",
        handed(1) + given_back(1, "undeliverable") + handed(1) + handed(2) + given_back(2, "undeliverable"),
        2,
        1,
    ),
    "undeliverable here and given to another": (
        "undeliverable_again",
        handed(1) + given_back(1, "undeliverable") + handed(1, consumer=2),
        1,
        0,
    ),
    "rejected and delivered again": (
        "rejected_again",
        handed(1) + given_back(1, "rejected") + handed(2) + given_back(2, "rejected") + came(1, epoch=1),
        2,
        1,
    ),
    "rejected and discarded": ("rejected_again", handed(1) + given_back(1, "rejected") + settled(epoch=1), 1, 0),
    "released and delivered again": ("rejected_again", handed(1) + given_back(1) + came(1, epoch=1), 0, 0),
    "refused and delivered again": (
        "refused_again",
        handed(1) + given_back(1, "failed") + handed(2) + given_back(2, "rejected") + handed(1, consumer=2),
        2,
        1,
    ),
    "refused and discarded": ("refused_again", handed(1) + given_back(1, "failed") + settled(epoch=1), 1, 0),
}
