"""Profiles: what a peer may ask for, and that no word of it is guessed."""

from __future__ import annotations

import pytest

from conformance import paths
from conformance.errors import UsageError
from conformance.reference.profiles import PROFILES, Consuming, ProfileMode, Publishing, Unknown, profile


def test_standard_has_nothing_to_ask_for():
    """Words that mean something elsewhere mean nothing here, as both standards say of what they do not know."""
    asked = {"publish-window": "nine", "ack-event-mode": "?", "ack-mode": "?", "prefetch": "?"}

    assert profile("standard").publishing(asked) is None
    assert profile("standard").consuming(asked) == Consuming(ProfileMode(), 0)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({}, Publishing(50, ranged=False)),
        ({"publish-window": "9"}, Publishing(9, ranged=False)),
        ({"ack-event-mode": "windowed"}, Publishing(50, ranged=True)),
        ({"ack-event-mode": "per-message", "publish-window": "65535"}, Publishing(65535, ranged=False)),
    ],
)
def test_windows(asked, found):
    assert profile("solace").publishing(asked) == found


@pytest.mark.parametrize(
    "asked",
    [
        *({"publish-window": word} for word in ("0", "-1", "65536", "1e3", "", "٣", "9" * 5000)),
        {"ack-event-mode": "WINDOWED"},
    ],
)
def test_a_wrong_word_of_a_publisher(asked):
    with pytest.raises(Unknown, match=next(iter(asked))):
        profile("solace").publishing(asked)


@pytest.mark.parametrize(
    ("name", "mode", "found"),
    [
        ("ems", "explicit-client", ProfileMode()),
        ("ems", "explicit-client-dups-ok", ProfileMode(lazy=True)),
        ("ems", "dups-ok", ProfileMode(lazy=True)),
        ("ems", "no-ack", ProfileMode(settled=True)),
        ("qpid", "no-ack", ProfileMode(settled=True)),
        ("qpid", "pre", ProfileMode()),
    ],
)
def test_modes(name, mode, found):
    assert profile(name).consuming({"ack-mode": mode}).mode == found


def test_an_unknown_mode_names_those_there_are():
    with pytest.raises(Unknown, match="auto, client, pre, no-ack"):
        profile("qpid").consuming({"ack-mode": "explicit-client"})


def test_the_prefetch_limit():
    """Of the qpid profile only; `ems` has none, and ignores the word."""
    assert profile("qpid").consuming({"prefetch": "10"}).prefetch == 10
    assert profile("ems").consuming({"prefetch": "ten"}).prefetch == 0
    with pytest.raises(Unknown, match="prefetch"):
        profile("qpid").consuming({"prefetch": "ten"})


def test_an_unknown_profile_names_the_closest():
    with pytest.raises(UsageError, match="solace"):
        profile("solaris")


def test_each_profile_and_mode_is_documented():
    text = (paths.root() / "docs/reference/profiles.md").read_text()

    assert all(f"| `{name}`" in text for name in PROFILES)
    assert all(f"`{mode}`" in text for each in PROFILES.values() for mode in each.modes)
