"""Download from a Maven repository: resume after a cut, and never retry after a wrong checksum.

`CONFORMANCE_MAVEN_URL` names another repository (default: Maven Central), `CONFORMANCE_CA_BUNDLE` a file with further
certificates. `HTTPS_PROXY`, `NO_PROXY`, `SSL_CERT_FILE` and `SSL_CERT_DIR` mean what they mean everywhere.
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

from conformance.adapters.distribution.fetch import Progress, reported
from conformance.errors import FetchError, NotFoundError

CENTRAL = "https://repo1.maven.org/maven2"
RESUMES = 3
"""How often a connection that was cut is taken up again."""

LARGEST = 1 << 30
"""Bytes of one file. The largest distribution that is known has 49 MB (Artemis 2.56.0): a server that sends twenty
times as much sends something else, and would fill the disk before the sum shows it."""

LARGEST_SUM = 1 << 16
"""Bytes of a checksum file. One has 128 characters, and at most a name."""

_PAUSE_S = 0.5
_PLAIN = {"Accept-Encoding": "identity"}
# Compression would make a byte range of the wire another one than a byte range of the file.
_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")
_CUT = (httpx.ReadError, httpx.RemoteProtocolError, httpx.ReadTimeout)


class _CutError(Exception):
    """The connection ended before the file did."""


def base() -> str:
    """The repository, without a slash at its end."""
    return (os.environ.get("CONFORMANCE_MAVEN_URL") or CENTRAL).rstrip("/")


def text(path: str) -> str:
    """A small file of the repository; `FetchError` where it cannot be had, or is longer than `LARGEST_SUM`."""
    url = f"{base()}/{path}"
    found = bytearray()
    with _client() as client, _translated(url):
        try:
            with client.stream("GET", url, headers=_PLAIN) as response:
                _refuse(response, url)
                for chunk in response.iter_raw():
                    found += chunk
                    _bounded(url, len(found), LARGEST_SUM)
        except _CUT as error:
            raise FetchError(f"{url}: the connection was cut: {error}") from error
    return found.decode(errors="replace")


def file(path: str, part: pathlib.Path, progress: Progress | None = None) -> None:
    """Complete `part` with the rest of the file; what is there already is kept, so that a later call resumes it.

    Raises `FetchError` after `RESUMES` further attempts at a cut connection, and at once for everything else, such as
    a file of more than `LARGEST` bytes: of that nothing is kept.
    """
    url = f"{base()}/{path}"
    with _client() as client:
        for attempt in range(RESUMES + 1):
            try:
                with _translated(url):
                    _once(client, url, part, progress)
            except _CutError as error:
                here = part.stat().st_size if part.exists() else 0
                if attempt == RESUMES:
                    raise FetchError(
                        f"{url}: the connection was cut {RESUMES + 1} times ({error}); {here} bytes are kept, "
                        "run the command again to resume"
                    ) from error
                time.sleep(_PAUSE_S * attempt)  # nothing to await: the other side says nothing when it is back
            else:
                return


def _once(client: httpx.Client, url: str, part: pathlib.Path, progress: Progress | None) -> None:
    start = part.stat().st_size if part.exists() else 0
    headers = _PLAIN | ({"Range": f"bytes={start}-"} if start else {})
    with client.stream("GET", url, headers=headers) as response:
        if start and not _continues(response, start) and response.status_code in (206, 416):
            part.unlink()
            response.close()
            return _once(client, url, part, progress)
        _refuse(response, url)
        start = start if response.status_code == httpx.codes.PARTIAL_CONTENT else 0
        with reported(f"write {part}"):
            _receive(response, url, part, start, progress)
    return None


def _continues(response: httpx.Response, start: int) -> bool:
    """Whether the answer holds exactly the bytes from `start` on; a server may also send others, or the whole file."""
    match = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
    return response.status_code == httpx.codes.PARTIAL_CONTENT and match is not None and int(match[1]) == start


def _receive(response: httpx.Response, url: str, part: pathlib.Path, start: int, progress: Progress | None) -> None:
    length = response.headers.get("Content-Length", "")
    total = start + int(length) if re.fullmatch("[0-9]{1,18}", length) else None
    done = start
    try:
        _bounded(url, total or 0, LARGEST)
        with part.open("ab" if start else "wb") as stream:
            for chunk in response.iter_raw():
                done += len(chunk)
                _bounded(url, done, LARGEST)
                stream.write(chunk)
                if progress:
                    progress(done, total)
    except _CUT as error:
        raise _CutError(str(error) or type(error).__name__) from error
    except FetchError:
        part.unlink(missing_ok=True)  # it would be taken up again
        raise


def _bounded(url: str, size: int, largest: int) -> None:
    if size > largest:
        raise FetchError(
            f"{url}: the server sends at least {size} bytes, and {largest} is the most that such a file may have; look "
            "at CONFORMANCE_MAVEN_URL and at the proxy"
        )


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
    """The one seam where httpx's errors become ours."""
    host = httpx.URL(url).host
    try:
        yield
    except _CUT as error:
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
            return f"{url}: the name {host} is not known here: no network? behind a proxy, set HTTPS_PROXY"
        if isinstance(cause, ssl.SSLError):
            hint = "for a certificate authority of your own set CONFORMANCE_CA_BUNDLE"
            return f"{url}: TLS failed: {cause.reason or cause}: {hint}"
        cause = cause.__cause__ or cause.__context__
    return f"{url}: {error}"


def _client() -> httpx.Client:
    try:
        context = httpx.create_ssl_context()
        extra = os.environ.get("CONFORMANCE_CA_BUNDLE")
        if extra:
            context.load_verify_locations(cafile=extra)
        timeout = httpx.Timeout(30, read=60)
        return httpx.Client(verify=context, follow_redirects=True, timeout=timeout)
    except OSError as error:  # ssl.SSLError is one
        raise FetchError(f"certificates cannot be read (CONFORMANCE_CA_BUNDLE, SSL_CERT_FILE): {error}") from error
    except (ValueError, httpx.InvalidURL) as error:
        raise FetchError(f"the proxy settings of the environment are not usable: {error}") from error
