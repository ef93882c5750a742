"""Write the pages, schemas and figures that are data of the code: `python -m tools.reference_pages`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import click

from conformance import claims, paths, scenario
from conformance.adapters.file import schema
from conformance.errors import PRECEDENCE, ExitCode
from conformance.frontend.cli import cli
from conformance.frontend.cli.group import ALIASES
from conformance.frontend.options import PYTEST, options_of
from conformance.reference import liars
from conformance.report import model
from conformance.report.phrases import EXIT_MEANS

ROOT = paths.root()
HEAD = "<!-- Written by `python -m tools.reference_pages`; a test compares it. -->\n\n"


def pages() -> dict[str, str]:
    """Return the text of each page by its path: whole ones, and those that have a table or figures among other text."""
    made = {
        "claims.md": _claims(),
        "scenarios.md": _scenarios(),
        "options.md": _options(),
        "broker-toml.md": _keys(),
        "exit-codes.md": _exit_codes(),
    }
    return {
        **{f"docs/reference/{name}": HEAD + "\n".join(lines) + "\n" for name, lines in made.items()},
        "docs/reference/liars.md": _before("docs/reference/liars.md", "| liar |") + liars.table() + "\n",
        "docs/broker.schema.json": schema.text(),
        "reports/templates/report.schema.json": model.schema_text(),
        "README.md": _figures((ROOT / "README.md").read_text()),
    }


def _before(path: str, mark: str) -> str:
    return (ROOT / path).read_text().partition(mark)[0]


def _figures(text: str) -> str:
    """Return the text with its numbers of scenarios, claims and liars."""
    catalogue = claims.load()
    decided, every = len(catalogue.claims) - len(catalogue.untried), len(catalogue.claims)
    scripts = len(scenario.load(catalogue))
    text = re.sub(r"\d+ scenarios decide \d+ of the \d+", f"{scripts} scenarios decide {decided} of the {every}", text)
    return re.sub(r"\d+ liars", f"{len(liars.LIARS)} liars", text)


def _table(*head: str, rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield from ("", f"| {' | '.join(head)} |", "|---" * len(head) + "|")
    for row in rows:
        yield f"| {' | '.join(' '.join(cell.replace('|', chr(92) + '|').split()) for cell in row)} |"


def _claims() -> Iterator[str]:
    catalogue = claims.load()
    scripts = scenario.load(catalogue).values()
    untried = catalogue.untried
    documents = dict.fromkeys(map(catalogue.document_title, catalogue.claims.values()))
    yield from ("# Claims", "")
    decided = len(catalogue.claims) - len(untried)
    yield f"{len(catalogue.claims)} claims; [scenarios](scenarios.md) decide {decided} of them."
    yield "`conformance claims show CLAIM` prints one in full: its source, its conditions and what falsifies it."
    yield from _table("kind", "what it means", rows=_definitions(catalogue.definitions["kinds"]))
    for title in documents:
        found = [claim for claim in catalogue.claims.values() if catalogue.document_title(claim) == title]
        address = catalogue.url(found[0]).partition("#")[0]
        yield from ("", f"## {title}", *(("", f"<{address}>") if address else ()))
        yield from _table(
            "claim", "kind", "what it says", "decided by", rows=(_claim(one, scripts, untried) for one in found)
        )


def _definitions(text: str) -> Iterator[tuple[str, ...]]:
    """Return the words of a definition of the catalogue, `word: meaning. word: meaning.`, as rows."""
    for sentence in text.rstrip(".").split(". "):
        word, _, meaning = sentence.partition(": ")
        yield f"`{word}`", meaning


def _claim(claim: claims.Claim, scripts: Iterable[scenario.Scenario], untried: Mapping[str, str]) -> tuple[str, ...]:
    decided = ", ".join(f"`{item.id}`" for item in scripts if claim.id in item.decides)
    if claim.of_profile and decided:
        decided += "; on a profile of the bundled broker only"
    return f"`{claim.id}`", claim.kind, claim.says, decided or f"none: {untried[claim.id]}"


def _scenarios() -> Iterator[str]:
    catalogue = claims.load()
    scripts = scenario.load(catalogue)
    yield from ("# Scenarios", "", f"{len(scripts)} scenarios. Each decides some of the [claims](claims.md).")
    yield from _table("fault", "what is done", rows=((f"`{name}`", text) for name, text in catalogue.faults.items()))
    rows = (
        (
            f"`{item.id}`" + (" (only with `--thorough`)" if item.thorough else ""),
            ", ".join(sorted({f"`{item.fault_for(catalogue.claims[name])}`" for name in item.decides})),
            item.says,
            ", ".join(f"`{name}`" for name in item.decides),
        )
        for item in scripts.values()
    )
    yield from _table("scenario", "fault", "what happens", "decides", rows=rows)


def _options() -> Iterator[str]:
    yield from ("# Options", "", "`conformance COMMAND --help` has examples too.")
    yield from (f"`conformance {name}` is `conformance {' '.join(words)}`." for name, words in ALIASES.items())
    yield "`conformance broker --help` lists the options, settings, profiles and liars of the bundled broker."
    for name, command in _commands(cli, "conformance"):
        first = (command.help or "").split("\n\n")[0]
        yield from ("", f"## {name}", "", " ".join(first.split()))
        rows = [_option(param) for param in command.params if isinstance(param, click.Option) and param.help]
        yield from _table("option", "meaning", rows=rows) if rows else ()
    yield from ("", "## pytest", "", "The plugin has these, with the meaning that `conformance run` gives them:")
    yield ", ".join(f"`{option.flag}`" for option in options_of(PYTEST)) + "."
    yield "Each also has a name in full, such as `--conformance-seed`, if another plugin has the short one."


def _commands(group: click.Group, name: str) -> Iterator[tuple[str, click.Command]]:
    for word, command in group.commands.items():
        yield f"{name} {word}", command
        if isinstance(command, click.Group):
            yield from _commands(command, f"{name} {word}")


def _option(param: click.Option) -> tuple[str, ...]:
    metavar = "" if param.is_flag else f" {param.metavar or param.type.name.upper()}"
    return ", ".join(f"`{flag}{metavar}`" for flag in param.opts), (param.help or "").replace("<", "&lt;")


def _keys() -> Iterator[str]:
    made = schema.schema()
    yield from (
        "# Keys of broker.toml",
        "",
        "[A broker as one file](../how-to/broker-file.md) has an example of most of them.",
    )
    yield "`conformance adapters --schema` prints this as a JSON Schema."
    for name, table in [("The file", made), *made["$defs"].items()]:
        yield from ("", f"## {name}", "", " ".join(table["description"].split()))
        required = table.get("required", ())
        rows = [
            (f"`{key}`", _kind(entry), "required" if key in required else _default(entry))
            for key, entry in table.get("properties", {}).items()
        ]
        yield from _table("key", "type", "default", rows=rows) if rows else ()


def _default(entry: Mapping[str, Any]) -> str:
    value = entry.get("default")
    return f"`{json.dumps(value)}`" if value not in (None, "", []) and not isinstance(value, dict) else ""


def _kind(entry: Mapping[str, Any]) -> str:
    """Return the type of a key in words: a table by its name, an array by what it holds, words one after another."""
    if "$ref" in entry:
        name = str(entry["$ref"].rpartition("/")[2])
        return f"[{name}](#{name.lower()})"
    if "anyOf" in entry:
        return " or ".join(dict.fromkeys(kind for one in entry["anyOf"] if (kind := _kind(one)) != "null"))
    if "enum" in entry or "const" in entry:
        return ", ".join(f"`{word}`" for word in entry.get("enum", [entry.get("const")]))
    if entry.get("type") == "array":
        return f"list of {_kind(entry.get('items', {}))}"
    held = entry.get("additionalProperties")
    named = held or next(iter(entry.get("patternProperties", {}).values()), None)
    return f"table of {_kind(named)}" if isinstance(named, dict) else str(entry.get("type", "any"))


def _exit_codes() -> Iterator[str]:
    order = ", ".join(str(int(code)) for code in PRECEDENCE)
    yield from (
        "# Exit codes",
        "",
        "Each command ends with one of these. `run`, `upgrade`, `judge` and `replay` use all.",
    )
    yield from _table("code", "meaning", rows=((str(int(code)), EXIT_MEANS[code]) for code in ExitCode))
    yield from ("", f"If several apply, the first of {order} is returned: an error of the suite in another scenario")
    yield "does not hide a violation, and the report names both."
    yield "NOT_TRIED does not change the code; `--require-tried` makes it 2."


def main() -> None:
    for name, text in pages().items():
        (ROOT / name).write_text(text)


if __name__ == "__main__":
    main()
