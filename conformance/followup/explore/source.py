"""Write a drawn script as a scenario file, which pytest plays and which can be put into `suites/`."""

from __future__ import annotations

import textwrap

import msgspec

from conformance.scenario import Check, Liar, Scenario
from conformance.scenario.script import SETTLE

WIDTH = 110


def class_name(name: str) -> str:
    """Return the name of the class of a scenario id.

    >>> class_name("drawn-17")
    'Drawn17'
    """
    return "".join(part.capitalize() for part in name.split("-"))


def source(item: Scenario, says: str, check: Check) -> str:
    """Return the text of a module with this one scenario; `says` is its docstring, and the check what it showed."""
    core = item.steps[: -len(SETTLE)]
    lines = [f"        {_value(step)}," for step in core]
    docs = textwrap.wrap(says, WIDTH)
    classes = "Check, Liar" if isinstance(check.control, Liar) else "Check"
    return "\n".join(
        [
            '"""Found by exploring; see `conformance explore --help`."""',
            "",
            f"from conformance.scenario import {classes}, scenario",
            f"from conformance.scenario.script import {', '.join(sorted({'SETTLE', *_names(core)}))}",
            "",
            "",
            "@scenario",
            f"class {class_name(item.id)}:",
            f'    """{docs[0]}' + ("" if len(docs) > 1 else '"""'),
            *(f"    {line}" for line in docs[1:]),
            *(['    """'] if len(docs) > 1 else []),
            "",
            f'    mode = "{item.mode}"',
            "    varies = False",
            "    steps = (",
            *lines,
            "        *SETTLE,",
            "    )",
            f"    checks = ({_checked(check)},)",
            "",
        ]
    )


def _checked(check: Check) -> str:
    control = f", control=Liar({check.control.name!r})" if isinstance(check.control, Liar) else ""
    return f"Check({check.anomaly!r}, exposure={check.exposure!r}{control})"


def _value(value: object) -> str:
    """Return a step, fault or trigger as the call that makes it, without what is the default."""
    if isinstance(value, tuple):
        inner = ", ".join(map(_value, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if not isinstance(value, msgspec.Struct):
        return repr(value)
    given = []
    for field in msgspec.structs.fields(type(value)):
        mine = getattr(value, field.name)
        if field.required:
            given.append(_value(mine))
        elif mine != field.default:
            given.append(f"{field.name}={_value(mine)}")
    return f"{type(value).__name__}({', '.join(given)})"


def _names(value: object) -> set[str]:
    """Return the classes of the vocabulary that a value is made of."""
    if isinstance(value, tuple):
        return {name for each in value for name in _names(each)}
    if not isinstance(value, msgspec.Struct):
        return set()
    inner = {name for field in value.__struct_fields__ for name in _names(getattr(value, field))}
    return {type(value).__name__, *inner}
