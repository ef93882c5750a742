"""Topic filters of MQTT (section 4.7)."""

from __future__ import annotations

from collections.abc import Sequence


def is_filter(name: str) -> bool:
    """Whether this is a topic filter: `#` is the last level, and a wildcard is a whole level (section 4.7.1)."""
    levels = name.split("/")
    return (
        bool(name)
        and "#" not in levels[:-1]
        and all(each in ("+", "#") or not set(each) & {"+", "#"} for each in levels)
    )


def matches(name: str, topic: str) -> bool:
    """Whether a topic filter matches a topic (section 4.7).

    >>> matches("a/+/#", "a/b"), matches("+/b", "/b"), matches("#", "$SYS/a"), matches("a/+", "a")
    (True, True, False, False)
    """
    if name == topic:
        return True
    if topic.startswith("$") and name[0] in "+#":
        return False
    return _match(name.split("/"), topic.split("/"))


def _match(levels: Sequence[str], topic: Sequence[str]) -> bool:
    if levels[-1] == "#":
        levels = levels[:-1]
        topic = topic[: len(levels)] if len(topic) >= len(levels) else ()
        return len(topic) == len(levels) and all(map(_same, levels, topic))
    return len(levels) == len(topic) and all(map(_same, levels, topic))


def _same(level: str, here: str) -> bool:
    return level in ("+", here)
