"""The house is tidy: import direction, sizes, no claim without a scenario or a dated reason, no check without a control.

These bounds are only ever tightened.
"""

import ast
import collections
import doctest
import graphlib
import importlib
import pathlib
import re
import shutil
import subprocess
from collections.abc import Sequence

import pytest

from benchmarks import triggers
from conformance import adapters, claims, paths, scenario
from conformance.adapters import vendor_clients
from conformance.adapters.file.nodes_table import NODES
from conformance.adapters.file.settings import weaken
from conformance.claims import Subject, unmet
from conformance.judge import anomalies
from conformance.judge.plan import exposures
from conformance.protocols import PROTOCOLS, VENDOR_SURFACES, WIRES
from conformance.reference import liars
from conformance.run.planning import Selection
from conformance.scenario import Liar, SessionLiar, Weakened
from conformance.scenario.controls import substitute

ROOT = paths.root()
STAGES = (
    "errors counting limits paths history protocols claims scenario records mounts processes locks ledger adapters faults clients"
    " run judge report campaign followup testing frontend"
).split()
"""A stage imports only stages to its left; `paths` is a table of folders."""

MODULES = sorted([*(ROOT / "conformance").rglob("*.py"), *(ROOT / "suites").rglob("*.py")])
OWN = [path for path in MODULES if path.name != "check_claims.py"]
IMPORTS = re.compile(r"\b(?:import|from) .*")


def stage(path: pathlib.Path) -> str:
    return stage_of(path.relative_to(ROOT / "conformance").with_suffix("").parts)


def stage_of(parts: Sequence[str]) -> str:
    """Return the stage of a module. The sessions of a protocol lie in its folder, and are clients."""
    return "clients" if parts[0] == "protocols" and "sessions" in parts else parts[0]


def imports(path: pathlib.Path) -> set[str]:
    """The stages of this package that a module imports, lazily or not."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "conformance":
            parts = (node.module or "").split(".")[1:]
            found |= {stage_of((*parts, alias.name)) for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {
                stage_of(alias.name.split(".")[1:]) for alias in node.names if alias.name.startswith("conformance.")
            }
    return found - {"__version__"}


def names() -> dict[str, pathlib.Path]:
    """The modules of the package by name."""
    modules = {path.relative_to(ROOT).with_suffix(""): path for path in OWN if "conformance" in path.parts}
    return {".".join(name.parts).removesuffix(".__init__"): path for name, path in modules.items()}


def module_imports() -> dict[str, set[str]]:
    """By module of the package, the modules of the package that it imports: at its top, in a function or for types."""
    known = names()
    found: dict[str, set[str]] = {}
    for name, path in known.items():
        nodes = [
            node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Import | ast.ImportFrom)
        ]
        words = [
            f"{node.module}.{alias.name}" if isinstance(node, ast.ImportFrom) else alias.name
            for node in nodes
            for alias in node.names
        ]
        found[name] = {word if word in known else word.rpartition(".")[0] for word in words} & known.keys() - {name}
    return found


def allowed(here: str) -> set[str]:
    """What a stage may import; the reference broker only errors, the package itself nothing."""
    if here in ("__init__", "reference"):
        return {"errors", here} if here == "reference" else set()
    runs_it = {"reference"} if here == "frontend" else set()  # it runs the bundled broker, and puts liars on trial
    return {*STAGES[: STAGES.index(here) + 1], *runs_it}


def test_imports_point_left():
    """A stage imports only stages to its left."""
    wrong = {
        str(path.relative_to(ROOT)): sorted(more)
        for path in OWN
        if "conformance" in path.parts and (more := imports(path) - allowed(stage(path)))
    }

    assert wrong == {}


def test_no_import_circle():
    """Neither a lazy import nor one for type checking closes a circle."""
    graphlib.TopologicalSorter(module_imports()).prepare()  # a CycleError names the circle


def test_sizes():
    """A module holds one concept in at most 600 lines; a function has at most 60, the median function 10."""
    lengths = [
        (node.end_lineno - node.lineno + 1, f"{path.relative_to(ROOT)}: {node.name}")
        for path in OWN
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]

    assert [str(path.relative_to(ROOT)) for path in OWN if path.read_text().count("\n") > 600] == []
    assert [each for each in lengths if each[0] > 60] == []
    assert sorted(lengths)[len(lengths) // 2][0] <= 10


def test_plain_words():
    """A sentence names who acts: the broker, the client, the judge, you. No text hides it behind one of these words.

    A name is a sentence too, and that of a test says what happens, not what is "told".
    """
    words = r"(?<![a-z])((no|some|every)body|(who|what)ever|like(?:wise))(?![a-z])"
    hides = re.compile(rf"{words}|def (?:test_.*_told_)", re.IGNORECASE)
    tops = "conformance suites tests docs fixtures benchmarks tools examples".split()
    texts = [
        path
        for top in tops
        for kind in ("py", "md", "toml", "yaml", "yml", "j2")
        for path in (ROOT / top).rglob(f"*.{kind}")
    ]
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in [*texts, *ROOT.glob("*.md")]
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if hides.search(line)
    ]

    assert found == []


def test_folders_and_names():
    """A folder has at most 12 modules, few are under 40 lines, and a class name has one meaning in the whole package."""
    modules = [path for path in OWN if "conformance" in path.parts]
    folders = collections.Counter(path.parent for path in modules)
    classes = collections.Counter(
        node.name
        for path in modules
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )

    assert [str(folder) for folder, count in folders.items() if count > 12] == []
    assert len([path for path in modules if path.read_text().count("\n") < 40 and path.stem[:2] != "__"]) < 15
    assert [name for name, count in classes.items() if count > 1] == []


def test_the_architecture_page_names_what_exists():
    """Each module and folder on the page is one of the package."""
    page = (ROOT / "docs" / "contributing" / "architecture.md").read_text()
    named = [ROOT / "conformance" / word for word in re.findall(r"`([a-z_]+(?:/[a-z_]+)+)/?`", page)]

    assert len(named) > 15
    assert [str(path) for path in named if not path.is_dir() and not path.with_suffix(".py").exists()] == []


def test_a_protocol_is_named_in_its_folder_only():
    """Other rooms ask the record of a protocol, so that a further one costs no edit there."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in OWN
        if "conformance" in path.parts and stage(path) != "reference" and "protocols" not in path.parts
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and node.value in PROTOCOLS
    ]

    assert found == []


def test_every_claim_has_a_scenario_or_a_dated_reason():
    """In exactly one of the two places."""
    catalogue = claims.load()
    decided = {claim for item in scenario.load(catalogue).values() for claim in item.decides}
    reasons = catalogue.untried

    assert set(catalogue.claims) == decided | set(reasons)
    assert decided & set(reasons) == set()
    assert all(re.search(r"\(since 20\d\d-\d\d-\d\d\)$", reason) for reason in reasons.values())


@pytest.mark.process
def test_every_decided_claim_can_be_decided_somewhere():
    """On a broker of the package or a variant of it, over a protocol: as stock, weakened, or with another word of a setting.

    A claim whose condition no broker and no session of its scenarios meets would stand there and never get a verdict.
    """
    catalogue = claims.load()
    scripts = scenario.load(catalogue).values()
    decided = {(claim, item.id) for item in scripts for claim in item.decides}
    controls = [check.control for item in scripts for check in item.decides.values()]
    settings = {(), *(control.settings for control in controls if isinstance(control, Weakened))}
    for adapter, protocol, client in every_way():
        words = {
            ((name, word),)
            for name, setting in adapter.file.settings.items()
            for word, choice in setting.choices.items()
            if not choice.refused
        }
        several = {((NODES, count),) for count in (adapter.file.nodes.counts if adapter.file.nodes else ())}
        for changed in settings | words | several:
            given = weaken(adapter.file, dict(changed), {})
            chosen = adapter.chosen(given) if NODES in given else adapter
            if protocol in adapter.file.protocols and protocol not in chosen.file.protocols:
                continue
            effective = chosen.effective(given)
            here = Selection(
                chosen, protocol, effective, given, [], frozenset(), 1, client=client.name if client else ""
            )
            decided -= {
                (claim.id, item.id)
                for item in scripts
                if not any(map(adapter.lacks, item.needs))
                and not any(client.lacks(need) for need in item.of_client if client)
                for claim in map(catalogue.claim, item.decides)
                if here.applies(claim)
                and (
                    claim.subject is Subject.SESSION
                    or not unmet(claim.when, {**effective.values, **item.session}, effective.absent)
                )
            }

    assert OF_ABSENT_CLIENTS == {claim for claim, _ in decided}


OF_ABSENT_CLIENTS = {"EMS-EXPL-03", "EMS-MODE-02"}
"""Claims about the own client of TIBCO EMS alone: no repository has its jars, so no client of the suite has them."""


def every_way():
    """Each broker over each protocol, by the suite's own sessions or by a vendor's client."""
    for adapter in every_adapter():
        yield from ((adapter, word, None) for word in WIRES if word in adapter.file.protocols)
        for surface in VENDOR_SURFACES if not adapter.launcher.owned else ():
            for client in vendor_clients.speaking(surface, adapter.file):
                yield vendor_clients.with_client(adapter, client), surface, client


def every_adapter():
    """Each broker of the package, and each of its variants."""
    for adapter in map(adapters.find, adapters.names()):
        yield adapter
        yield from (adapter.chosen({adapters.VARIANT: name}) for name in adapter.file.variants)


def test_every_check_names_what_exists():
    """Anomalies and exposures are rows of the judge's tables, liars are liars of the bundled broker or our sessions."""
    from conformance.clients.roles.modes import SESSION_LIARS

    checks = [check for item in scenario.load(claims.load()).values() for check in item.decides.values()]

    assert {check.anomaly for check in checks} - set(anomalies.ANOMALIES) == set()
    assert {check.exposure for check in checks} - set(exposures.EXPOSURES) == set()
    assert {c.control.name for c in checks if isinstance(c.control, Liar)} - set(liars.LIARS) == set()
    through = [
        substitute(check, claims.Kind.SAFETY, "none", False, True, ())
        for check in checks
        if isinstance(check.control, Liar)
    ]
    lying = {check.control.name for check in (*checks, *through) if isinstance(check.control, SessionLiar)}
    assert lying == set(SESSION_LIARS)


def test_every_check_has_a_control_that_needs_no_setting_of_the_broker():
    """Its settings may all be fixed. A claim about a default is shown by the opposite setting, and by nothing else."""
    catalogue = claims.load()
    weak = [
        (check.control, substitute(check, claim.kind, item.fault_for(claim), owned, False, ()).control)
        for owned in (False, True)
        for item in scenario.load(catalogue).values()
        for claim, check in ((catalogue.claims[name], check) for name, check in item.decides.items())
        if isinstance(check.control, Weakened) and claim.kind is not claims.Kind.DEFAULT
    ]
    stay = {control for stated, control in weak if control == stated}
    of_client = {name for client in vendor_clients.names() for name in vendor_clients.find(client).settings}

    assert {control.name for _, control in weak if isinstance(control, Liar)} <= set(liars.LIARS)
    assert {name for control in stay for name, _ in control.settings} <= of_client


def test_every_liar_is_used():
    """A liar that is no control and is not hunted is dead, unless a test shows what is wrong with it."""
    checks = [check for item in scenario.load(claims.load()).values() for check in item.decides.values()]
    controls = {check.control.name for check in checks if isinstance(check.control, Liar)}
    hunted = {quarry.liar for quarry in triggers.QUARRIES}
    tests = "".join(path.read_text() for path in [*ROOT.glob("tests/reference/test_*.py")])

    assert sorted(name for name in set(liars.LIARS) - controls - hunted if f'"{name}"' not in tests) == []
    assert controls | hunted <= set(liars.LIARS)


def test_no_dead_module():
    """Every module is imported by another, run as one, or a front."""
    fronts = {"__init__", "__main__", "worker"}
    imported = {path: set(re.findall(r"\w+", " ".join(IMPORTS.findall(path.read_text())))) for path in MODULES}
    run = (ROOT / ".ci" / "run").read_text()
    dead = [
        str(path.relative_to(ROOT))
        for path in OWN
        if "conformance" in path.parts
        and path.stem not in fronts
        and f"-m {'.'.join(path.relative_to(ROOT).with_suffix('').parts)} " not in run
        and not any(path.stem in words for name, words in imported.items() if name != path)
    ]

    assert dead == []


@pytest.mark.parametrize("name", [name for name, path in names().items() if ">>> " in path.read_text()])
def test_the_examples_of_docstrings(name):
    """An example that is never run becomes wrong."""
    assert 0 == doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS).failed


def test_one_function_prints():
    """What the command line prints goes through `say`, which makes the text of others safe; see `errors.visible`."""
    sources = {path.name: path.read_text() for path in sorted((ROOT / "conformance" / "frontend" / "cli").glob("*.py"))}
    found = [name for name, text in sources.items() for _ in re.findall(r"click\.s?echo\(|(?<!\.)\bprint\(", text)]

    assert ["group.py"] == found


@pytest.mark.process
@pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")
def test_no_place_of_one_machine():
    """No path of the machine it was written on, and no registry but the documented one."""
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    here = {"tests/house/test_tidy.py", "suites/claims/check_claims.py"}
    places = re.compile(r"(?<![\w.])/(work|root)/|\.mirror\b")
    bad = [
        name
        for name in tracked
        if name not in here and (ROOT / name).is_file() and places.search((ROOT / name).read_text(errors="replace"))
    ]

    assert bad == []


def test_no_dead_data_file():
    """Every file of `fixtures/` and `reports/` is named by code, by a test, or by a broker, README or template beside it.

    The published examples are what the suite wrote.
    """
    readers = [
        *(ROOT / "conformance").rglob("*.py"),
        *(ROOT / "tests").rglob("*.py"),
        *(ROOT / "fixtures").rglob("*.md"),
        *(ROOT / "fixtures").rglob("broker.toml"),
        *(ROOT / "fixtures").rglob("*.j2"),
        *(ROOT / "reports" / "templates").rglob("*.j2"),
    ]
    text = "\n".join(path.read_text() for path in readers)
    files = [
        p for top in ("fixtures", "reports") for p in (ROOT / top).rglob("*") if p.is_file() and "pyc" not in p.name
    ]

    ours = [path for path in files if "examples" not in path.parts]
    assert [str(path.relative_to(ROOT)) for path in ours if path.name not in text] == []
