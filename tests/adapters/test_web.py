"""A request to a broker's own interface: an address that is none is a mistake in a file, told in one line."""

import pytest

from conformance.adapters import web
from conformance.errors import UsageError


@pytest.mark.parametrize("address", ["127.0.0.1:65536", "127.0.0.1:x", "[::1", ""])
def test_an_address_that_is_none(address):
    """Without the password that may be in it."""
    with pytest.raises(UsageError, match=r"expected http://HOST:PORT/PATH") as caught:
        web.ask("GET", f"http://guest:secret@{address}/api")

    assert "secret" not in str(caught.value)
