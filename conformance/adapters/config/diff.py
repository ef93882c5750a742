"""How the copy of a user's configuration differs from it, in words that may be shown: no secret is in them."""

from __future__ import annotations

import difflib
import re

from conformance.adapters.credentials import REDACTED

_NAME = r"[\w.\-]*(?:pass(?:word|phrase|code|wd)?|secret|credential|token)s?(?:\.\d+)?"
_SECRETS = tuple(
    re.compile(pattern, re.IGNORECASE | re.MULTILINE)
    for pattern in (
        rf"(?P<before>^[+\-\s]*{_NAME}\s*=\s*)(?P<secret>.+)$",  # a key, whose value may hold anything
        rf"(?P<before>\b{_NAME}\s*=\s*)(?P<secret>\"[^\"]*\"|'[^']*'|[^\s;&<\"']+)",  # a parameter, an attribute
        rf"(?P<before><{_NAME}(?:\s[^>]*)?>)(?P<secret>[^<]*)",  # an element
        rf"(?P<before>\b(?:key|name)\s*=\s*[\"']{_NAME}[\"']\s+value\s*=\s*)(?P<secret>\"[^\"]*\"|'[^']*')",
        r"(?P<before>://[^\s/:@\"'<]*:)(?P<secret>[^\s/@\"'<]+)(?=@)",  # in an address
    )
)


def redacted(text: str) -> str:
    """`text` without what has the name of a secret, or stands in an address where a password does.

    >>> redacted("ssl_options.password = s3cret")
    'ssl_options.password = <redacted>'
    >>> redacted("<acceptor>tcp://h:1?keyStorePassword=s3cret;sslEnabled=true</acceptor>")
    '<acceptor>tcp://h:1?keyStorePassword=<redacted>;sslEnabled=true</acceptor>'
    """
    for pattern in _SECRETS:
        text = pattern.sub(_without, text)
    return text


def _without(found: re.Match[str]) -> str:
    """What stood before it, and its quotes."""
    quote = found["secret"][0] if found["secret"][:1] in ("'", '"') else ""
    return f"{found['before']}{quote}{REDACTED}{quote}"


def difference(yours: bytes, ran: bytes, name: str, to: str) -> str:
    """A unified diff without context: what is not in it is the same, byte for byte."""
    before, after = (data.decode("utf-8", errors="replace").splitlines() for data in (yours, ran))
    lines = difflib.unified_diff(before, after, f"{name} (yours)", f"{to} (what ran)", n=0, lineterm="")
    return redacted("".join(f"{line}\n" for line in lines))
