"""Download one file of a Maven repository with httpx: resume after a cut, and bound its size.

`CONFORMANCE_MAVEN_URL` names another repository (default: Maven Central), `CONFORMANCE_CA_BUNDLE` a file with further
certificates. `HTTPS_PROXY`, `NO_PROXY`, `SSL_CERT_FILE` and `SSL_CERT_DIR` mean what they mean everywhere.

Why no library does this: pooch compares checksums, but it starts a cut download again from its first byte, repeats a
download whose checksum differs, and has no limit of size. httpx has no resume. So these few lines are ours.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import socket
import ssl
import time
from collections.abc import Iterator

import httpx

from conformance.adapters.file.launch_tables import Progress
from conformance.errors import FetchError, NotFoundError

CENTRAL = "https://repo1.maven.org/maven2"
RESUMES = 3
"""How often a connection that was cut is resumed."""

LARGEST = 1 << 30
"""Bytes of one file. The largest known distribution has 49 MB (Artemis 2.56.0). A server that sends twenty times as
much sends something else, and would fill the disk before the checksum shows it."""

LARGEST_SUM = 1 << 16
"""Bytes of a checksum file. One has 128 characters, and at most a name."""

_PAUSE_S = 0.5
_PLAIN = {"Accept-Encoding": "identity"}  # with compression a byte range of the wire is not one of the file
_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")


class _CutError(Exception):
    """The connection ended before the file did."""


def base() -> str:
    """The repository, without a slash at its end."""
    return (os.environ.get("CONFORMANCE_MAVEN_URL") or CENTRAL).rstrip("/")


def file(path: str, part: pathlib.Path, progress: Progress | None = None, *, largest: int | None = None) -> None:
    """Complete `part` with the rest of the file. The bytes that it has are kept, so that a later call resumes.

    Raises `FetchError` after `RESUMES` further attempts at a cut connection, and at once for any other error. A file of
    more than `largest` bytes (default: `LARGEST`) is deleted.
    """
    url = f"{base()}/{path}"
    with _client() as client:
        for attempt in range(RESUMES + 1):
            try:
                with _translated(url):
                    _once(client, url, part, progress, LARGEST if largest is None else largest)
            except _CutError as error:
                if attempt == RESUMES:
                    raise FetchError(
                        f"{url}: the connection was cut {RESUMES + 1} times ({error}); {_size(part)} bytes are kept, "
                        "run the command again to resume"
                    ) from error
                time.sleep(_PAUSE_S * attempt)  # there is no event to await: a server does not say that it is back
            else:
                return


def _size(part: pathlib.Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _once(client: httpx.Client, url: str, part: pathlib.Path, progress: Progress | None, largest: int) -> None:
    start = _size(part)
    headers = _PLAIN | ({"Range": f"bytes={start}-"} if start else {})
    with client.stream("GET", url, headers=headers) as response:
        if start and not _continues(response, start) and response.status_code in (206, 416):
            part.unlink()
            response.close()
            return _once(client, url, part, progress, largest)
        _refuse(response, url)
        start = start if response.status_code == httpx.codes.PARTIAL_CONTENT else 0
        try:
            _receive(response, part, start, progress, largest)
        except _TooLargeError as error:
            part.unlink(missing_ok=True)  # a later call would resume it
            raise FetchError(
                f"{url}: the server sends at least {error} bytes, and {largest} is the limit for such a file; look at "
                "CONFORMANCE_MAVEN_URL and at the proxy"
            ) from error
    return None


def _continues(response: httpx.Response, start: int) -> bool:
    """Whether the answer begins with byte `start`; a server may also send another range, or the whole file."""
    match = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
    return response.status_code == httpx.codes.PARTIAL_CONTENT and match is not None and int(match[1]) == start


class _TooLargeError(Exception):
    """The file has at least this number of bytes."""


def _receive(response: httpx.Response, part: pathlib.Path, start: int, progress: Progress | None, largest: int) -> None:
    length = response.headers.get("Content-Length", "")
    total = start + int(length) if re.fullmatch("[0-9]{1,18}", length) else None
    done = start
    if total and total > largest:
        raise _TooLargeError(total)
    with part.open("ab" if start else "wb") as stream:
        for chunk in response.iter_raw():
            done += len(chunk)
            if done > largest:
                raise _TooLargeError(done)
            stream.write(chunk)
            if progress:
                progress(done, total)


def _refuse(response: httpx.Response, url: str) -> None:
    status = response.status_code
    if status == httpx.codes.NOT_FOUND:
        raise NotFoundError(f"{url}: not found (404): does this version exist?")
    if status >= httpx.codes.INTERNAL_SERVER_ERROR:
        raise FetchError(f"{url}: the server failed ({status}): try later, or set CONFORMANCE_MAVEN_URL to a mirror")
    if status not in (httpx.codes.OK, httpx.codes.PARTIAL_CONTENT):
        raise FetchError(f"{url}: the server answered {status} {response.reason_phrase}")


@contextlib.contextmanager
def _translated(url: str) -> Iterator[None]:
    host = httpx.URL(url).host
    try:
        yield
    except (httpx.ReadError, httpx.RemoteProtocolError, httpx.ReadTimeout) as error:
        raise _CutError(str(error) or type(error).__name__) from error
    except httpx.ProxyError as error:
        raise FetchError(f"{url}: the proxy refused: {error}") from error
    except httpx.ConnectTimeout as error:
        raise FetchError(f"{url}: no connection to {host} in time: behind a proxy, set HTTPS_PROXY") from error
    except httpx.TooManyRedirects as error:
        raise FetchError(
            f"{url}: the server redirects in a circle: look at CONFORMANCE_MAVEN_URL and at the proxy"
        ) from error
    except (httpx.RequestError, httpx.InvalidURL) as error:  # the second of a redirect
        raise FetchError(_reason(error, url, host)) from error


def _reason(error: BaseException, url: str, host: str) -> str:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, socket.gaierror):
            return f"{url}: the name {host} is unknown: no network? behind a proxy, set HTTPS_PROXY"
        if isinstance(cause, ssl.SSLError):
            hint = "for a certificate authority of your own set CONFORMANCE_CA_BUNDLE"
            return f"{url}: TLS failed: {cause.reason or cause}: {hint}"
        cause = cause.__cause__ or cause.__context__
    return f"{url}: {error}"


def _client() -> httpx.Client:
    try:
        context = httpx.create_ssl_context()
        if extra := os.environ.get("CONFORMANCE_CA_BUNDLE"):
            context.load_verify_locations(cafile=extra)
        return httpx.Client(verify=context, follow_redirects=True, timeout=httpx.Timeout(30, read=60))
    except OSError as error:  # ssl.SSLError is one
        raise FetchError(f"certificates cannot be read (CONFORMANCE_CA_BUNDLE, SSL_CERT_FILE): {error}") from error
    except (ValueError, httpx.InvalidURL) as error:
        raise FetchError(f"the proxy settings of the environment are not usable: {error}") from error
