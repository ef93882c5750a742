"""The package keeps its budgets (`budgets.toml`): lines of a room, fields of a record, parameters of a function."""

import ast
import collections
import pathlib
import tomllib

from conformance import paths

ROOT = paths.root()
PACKAGE = ROOT / "conformance"
BUDGETS = tomllib.loads((pathlib.Path(__file__).parent / "budgets.toml").read_text())
SLACK = 150
"""A budget is lowered when its room has become smaller by so many lines."""


def room(path: pathlib.Path) -> str:
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else "root modules"


def fields(node: ast.ClassDef) -> int:
    return sum(isinstance(each, ast.AnnAssign) and "ClassVar" not in ast.unparse(each.annotation) for each in node.body)


def parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    every = [each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    return len(every) - (every[:1] in (["self"], ["cls"]))


def test_a_room_keeps_to_its_lines():
    """And its budget to the room: what was deleted does not come back unseen."""
    lines = collections.Counter(
        tests=sum(len(path.read_text().splitlines()) for path in (ROOT / "tests").rglob("*.py"))
    )
    for path in PACKAGE.rglob("*.py"):
        lines[room(path)] += len(path.read_text().splitlines())
    budget = BUDGETS["lines"]

    assert lines.keys() == budget.keys()
    assert {name: count for name, count in lines.items() if count > budget[name]} == {}
    assert {name: count for name, count in lines.items() if count < budget[name] - SLACK} == {}


def test_a_record_or_function_is_wide_only_for_a_stated_reason():
    """Each exception is exactly as wide as it says, so that it can only become narrower."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            name = f"{path.relative_to(PACKAGE)} {getattr(node, 'name', '')}"
            if isinstance(node, ast.ClassDef) and (count := fields(node)) > BUDGETS["fields"]:
                found[name] = {"fields": count}
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and parameters(node) > BUDGETS["parameters"]:
                found[name] = {"parameters": parameters(node)}
    stated = {each.pop("record"): each for each in map(dict, BUDGETS["wide"])}

    assert all(each.pop("why") for each in stated.values())
    assert found == stated
