"""Check the login of a peer, over any protocol."""

from __future__ import annotations

from typing import NamedTuple


class Guard(NamedTuple):
    """With a `user` nobody comes in without that name and the password, or a certificate."""

    user: str | None = None
    password: bytes = b""

    def knows(self, user: bytes, password: bytes) -> bool:
        """Whether these are the user's; it takes as long for a wrong password as for the right one."""
        import hmac

        ours, theirs = (self.user or "").encode() + b"\0" + self.password, user + b"\0" + password
        return self.user is not None and hmac.compare_digest(ours, theirs)


OPEN = Guard()
"""Everybody."""
