"""What an owner and a product say together about an external broker, and the check that nothing of it is missing."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from conformance.adapters.external.addresses import HTTP, numbers_of, places, with_management
from conformance.adapters.file.launch_tables import COMMANDS, Depth, External, QueuesTable
from conformance.adapters.file.model import BrokerFile
from conformance.adapters.file.placeholders import placeholders
from conformance.adapters.file.reading import check_external, texts
from conformance.adapters.file.table import together
from conformance.errors import UsageError
from conformance.protocols import protocol_of_depth

_OF_STARTED = ("archive", "data_dir", "home", "instance", "java", "java_home", "log_file")
"""Placeholders that have a value only for a broker that the suite starts."""


def complete_rules(file: BrokerFile, said: External) -> External:
    """Return the rules of an owner, with those of the product that the owner leaves out.

    Raises `UsageError`: a wrong or missing address, a broker for which the suite cannot make a queue, or a text that
    cannot be filled for a broker that the suite does not start.
    """
    rules = (file.external or External()).under(said)
    places(rules.urls, file)
    rules = rules.model_copy(update={"urls": with_management(rules.urls, rules.management_port)})
    if not (rules.declare or file.queues or rules.creates_queues or rules.queues):
        raise UsageError(
            "the file does not say how a queue is made: give "
            'declare = { command = [..., "{queue}"], remove = [...] }, creates_queues = true, or '
            'queues = ["existing", "others"], in a file: external=FILE.toml (see docs/how-to/external-brokers.md)'
        )
    check_external(file, rules)
    if found := [*_missing_addresses(file, rules)] or [*_unfilled(file, rules)]:
        raise together(found)
    return rules


def asked_by(file: BrokerFile, rules: External | None) -> BrokerFile:
    """Return the file with the ways by which the owner of an external broker wants it to be asked."""
    if rules is None:
        return file
    asked = {"depth": rules.depth or file.depth, "policies": rules.asked_of(file.policies)}
    return file.model_copy(update={**asked, "alarms": rules.alarms or file.alarms})


def _ways(file: BrokerFile, rules: External) -> dict[str, QueuesTable | Depth | None]:
    """How the suite declares a queue at this broker, and asks for its depth. Without policies a run goes on."""
    declares = not (rules.creates_queues or rules.queues)
    return {"declare": (rules.declare or file.queues) if declares else None, "depth": rules.depth or file.depth}


def _missing_addresses(file: BrokerFile, rules: External) -> Iterator[str]:
    depth = rules.depth or file.depth
    if depth is None:
        return
    needed = protocol_of_depth(depth.method) or (HTTP if "{http_port}" in depth.url else "")
    if needed and needed not in rules.urls:
        what = "of the management" if needed == HTTP else f"for {needed.upper()}"
        given = ",".join(rules.urls.values())
        yield (
            f"external=: the address {what} is missing: the suite asks {file.name} over {needed.upper()} how many "
            f"messages a queue holds. Give it as well: --adapter {file.name}:external={given},{needed}://HOST:PORT"
        )


def _unfilled(file: BrokerFile, rules: External) -> Iterator[str]:
    """The first text of each table or command with a placeholder that has no value at this broker."""
    given = {f"{name}_port" for name in numbers_of(places(rules.urls, file), file)}
    commands = {name: command for name in COMMANDS if (command := rules.command(name))}
    for name, table in {**_ways(file, rules), **commands}.items():
        for place, text, _ in texts({"external": {name: table.model_dump() if table else {}}}):
            if why := next(filter(None, (_no_value(word, given) for word in placeholders(text))), ""):
                yield f"{place}: {why}. Give another external.{name} in its file (docs/how-to/external-brokers.md)"
                break


def _no_value(word: str, given: Collection[str]) -> str:
    """Why a placeholder has no value at an external broker; empty if it has one. `given` are ports with an address."""
    if word in _OF_STARTED:
        return f"{{{word}}} has a value only at a broker that the suite starts"
    missing = word.endswith("_port") and "." not in word and word not in given
    return f"{{{word}}} has no value: external.urls has no address for it" if missing else ""
