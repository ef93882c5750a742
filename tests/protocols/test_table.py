"""The table of protocols names the folders that exist, and the classes in them."""

import importlib
import pathlib

from conformance import protocols


def test_a_record_is_true_of_its_folder():
    room = pathlib.Path(protocols.__file__).parent
    classes = {w: importlib.import_module(f"conformance.protocols.{w}.sessions").SESSIONS for w in protocols.WIRES}

    assert {path.parent.name for path in room.glob("*/__init__.py")} == set(protocols.PROTOCOLS)
    assert {word: tuple(found) for word, found in classes.items()} == {
        word: protocols.PROTOCOLS[word].sessions for word in protocols.WIRES
    }
