"""The locks in requirements/ have what pyproject.toml asks for, on each Python and processor: `python -m tools.lock`."""

import collections
import itertools
import re
import tomllib

import pytest
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from conformance import paths
from tools.lock import LOCKS

FOLDER = paths.root() / "requirements"
MANIFEST = tomllib.loads((paths.root() / "pyproject.toml").read_text())
PROJECT = MANIFEST["project"]
PYTHONS = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if "Python :: 3." in line]
MACHINES = [
    {"python_version": python, "python_full_version": f"{python}{patch}", "platform_machine": processor}
    | {"sys_platform": "linux", "os_name": "posix", "platform_system": "Linux", "extra": ""}
    | {"implementation_name": "cpython", "platform_python_implementation": "CPython"}
    for python, patch, processor in itertools.product(PYTHONS, (".0", ".99"), ("x86_64", "aarch64"))
]


def expanded(names):
    """The requirements of some extras; an extra may name others of this project."""
    for text in itertools.chain(*(PROJECT["optional-dependencies"][name] for name in names)):
        wanted = Requirement(text)
        if wanted.name == PROJECT["name"]:
            yield from expanded(wanted.extras)
        else:
            yield wanted


ASKED = {
    "dev": [*map(Requirement, PROJECT["dependencies"]), *expanded(["dev"])],
    "image": [*map(Requirement, PROJECT["dependencies"]), *expanded(["pytest"])],
    "build": [*map(Requirement, MANIFEST["dependency-groups"]["build"] + MANIFEST["build-system"]["requires"])],
}
"""By lock."""


def entries(text):
    """The entries of a lock: each a requirement with its hashes. Any other line, such as the address of an index, raises."""
    for line in re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", "").splitlines():
        requirement, *hashes = line.split(" --hash=")
        yield Requirement(requirement), [each.strip() for each in hashes]


def loose(entry, hashes):
    """Whether an entry is not one version with hashes."""
    sums = [re.fullmatch(r"sha256:[0-9a-f]{64}", each) for each in hashes]
    return not sums or not all(sums) or not re.fullmatch(r"==[^,*]+", str(entry.specifier))


def pins(known, machine):
    """The versions by package that are installed on a machine; a package that is there twice has none that fits."""
    here = [entry for entry, _ in known if entry.marker is None or entry.marker.evaluate(machine)]
    found = [(canonicalize_name(entry.name), str(entry.specifier).removeprefix("==")) for entry in here]
    return {name: version for name, version in found if [each for each, _ in found].count(name) == 1}


def faults(text, asked):
    """The entries of a lock that are loose, and what is asked for that it does not give on each machine."""
    known = list(entries(text))
    found = {str(entry) for entry, hashes in known if loose(entry, hashes)}
    for pinned in [pins(known, machine) for machine in MACHINES]:
        versions = [(wanted, pinned.get(canonicalize_name(wanted.name))) for wanted in asked]
        found |= {str(wanted) for wanted, version in versions if not version or version not in wanted.specifier}
    return found


@pytest.mark.parametrize("name", ASKED)
def test_a_lock_has_what_is_asked_for(name):
    """An empty result, or the lines of pyproject.toml that were changed without `python -m tools.lock`."""
    assert len(MACHINES) >= 12
    assert set() == faults((FOLDER / f"{name}.txt").read_text(), ASKED[name])


def test_every_lock_is_looked_at():
    assert {f"{name}.txt" for name in ASKED} == {path.name for path in FOLDER.iterdir()}
    assert set(ASKED) == set(LOCKS)


def test_a_package_has_one_version():
    """What CI tried is what the image has, and what builds it."""
    versions = collections.defaultdict(set)
    for name in ASKED:
        for entry, _ in entries((FOLDER / f"{name}.txt").read_text()):
            versions[entry.name, str(entry.marker)].add(str(entry.specifier))

    assert {} == {package: found for package, found in versions.items() if len(found) > 1}


SUM = "sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"a==1.5 --hash={SUM}", []),
        (f"A==1.5 ; python_version < '3.12' --hash={SUM}\na==1.6 ; python_version >= '3.12' --hash={SUM}", []),
        (f"b==1.5 --hash={SUM}", ["a<2,>=1"]),
        (f"a==2 --hash={SUM}", ["a<2,>=1"]),
        (f"a==1.5 ; python_version < '3.12' --hash={SUM}", ["a<2,>=1"]),
        (f"a==1.5 ; platform_machine != 'aarch64' --hash={SUM}", ["a<2,>=1"]),
        (f"a==1.5 --hash={SUM}\na==1.6 --hash={SUM}", ["a<2,>=1"]),
        ("a==1.5", ["a==1.5"]),
        ("a==1.5 --hash=md5:00", ["a==1.5"]),
        (f"a==1.5 --hash={SUM}\nb @ https://example.com/b.whl --hash={SUM}", ["b @ https://example.com/b.whl"]),
    ],
)
def test_what_a_lock_does_not_hold(text, found):
    assert found == sorted(faults(text, [Requirement("a>=1,<2")]))


def test_a_package_that_is_asked_for_in_any_version():
    assert {"b"} == faults(f"a==1 --hash={SUM}\n", [Requirement("a"), Requirement("b")])


@pytest.mark.parametrize("line", ["--index-url https://example.com", "--find-links wheels", "-r dev.txt"])
def test_a_lock_has_nothing_but_packages(line):
    with pytest.raises(InvalidRequirement):
        faults(f"{line}\n", [])
