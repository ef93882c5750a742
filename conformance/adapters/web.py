"""One HTTP request to a broker's own interface, past every proxy of the environment."""

from __future__ import annotations

import base64
import http.client
import json
import urllib.parse
from typing import Any

from conformance.errors import UsageError


def ask(
    verb: str, url: str, body: str = "", *, content_type: str = "application/json", timeout_s: float = 5.0
) -> tuple[int, str]:
    """The status of the answer, and its body as text; `user:password@` in the address is its basic authentication.

    Raises `OSError` where nobody answers in HTTP, `UsageError` for an address that is none.
    """
    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port or 80
    except ValueError as error:
        raise UsageError(f"{url.rpartition('@')[2]}: expected http://HOST:PORT/PATH: {error}") from error
    if parts.scheme != "http" or not parts.hostname:
        raise UsageError(f"{url.rpartition('@')[2]}: expected http://HOST:PORT/PATH")
    headers = {"Content-Type": content_type} if body else {}
    if parts.username is not None:
        secret = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        headers["Authorization"] = f"Basic {base64.b64encode(secret.encode()).decode()}"
    target = parts.path or "/"
    connection = http.client.HTTPConnection(parts.hostname, port, timeout=timeout_s)
    try:
        connection.request(verb, f"{target}?{parts.query}" if parts.query else target, body.encode() or None, headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace")
    except ConnectionRefusedError as error:
        raise OSError("nobody listens there") from error
    except (OSError, http.client.HTTPException) as error:  # reset, silent, or of another protocol
        raise OSError(f"no answer in HTTP: {type(error).__name__} {error}".strip()) from error
    finally:
        connection.close()


def shown(url: str) -> str:
    """The address without its password, for people."""
    parts = urllib.parse.urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def field_of(text: str, path: str) -> str:
    """What stands at `path` (`0.state`) of a JSON text, as text: strings bare, all else in JSON.

    Raises `ValueError` where there is no such field, or no JSON.
    """
    value: Any = json.loads(text)
    for step in path.split("."):
        try:
            value = value[int(step)] if isinstance(value, list) else value[step]
        except (LookupError, TypeError, ValueError) as error:
            raise ValueError(f"no field {path}") from error
    return value if isinstance(value, str) else json.dumps(value)
