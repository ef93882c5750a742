"""What is typed: `python -m conformance.reference`, and `main` for a command that delegates to it."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conformance.errors import ConformanceError, UsageError
from conformance.reference import liars, profiles, settings
from conformance.reference.pair.members import MEMBERS, PairOptions
from conformance.reference.security import ServerTls


def main(argv: Sequence[str]) -> int:
    """Serves until SIGTERM or SIGINT; the exit code: 0 stopped, 3 could not start, 4 a word is not known.

    Prints `ready amqp=127.0.0.1:N stomp=127.0.0.1:S http=127.0.0.1:M` on standard output when it serves (each protocol
    that was asked for), one line on standard error when it cannot. A disk error after that ends the process with
    `disk.DISK_ERROR`. The active member of a pair prints `member N is active` as well, a standby `member N is in step`.
    """
    typed = parser().parse_args(argv)
    try:
        pair = _pair(typed)
        behaviour = liars.behaviour(typed.liar, in_pair=pair is not None)
        chosen = settings.parse(behaviour.known_settings(typed.set))
        # The protocol engine costs half of the start: a mistyped word need not wait for it.
        from conformance.reference.server import ServerOptions, serve

        ports = typed.amqp_port, typed.http_port, typed.stomp_port
        queues = settings.parse_queues(typed.queue, chosen)
        more = {"profile": profiles.profile(typed.profile), "listen": typed.listen, **_secured(typed)}
        more |= {"amqp091_port": typed.amqp091_port, "mqtt_port": typed.mqtt_port}
        wanted = ServerOptions(*ports, typed.data, queues, chosen, behaviour, **more)
        asyncio.run(serve(wanted, pair))
    except ConformanceError as error:
        print(f"conformance broker: {error}", file=sys.stderr)
        return int(error.exit_code)
    return 0


def _secured(typed: argparse.Namespace) -> dict[str, Any]:
    """Return the TLS ports, their files, and the login; raises `UsageError` for an option without its partner."""
    from conformance.reference.security import OPEN, Guard

    tls = ServerTls(typed.tls_cert, typed.tls_key, typed.tls_ca) if typed.tls_cert and typed.tls_key else None
    if tls is None and any((typed.tls_cert, typed.tls_key, typed.tls_ca)):
        raise UsageError("--tls-cert, --tls-key and --tls-ca: give the first two together")
    if tls is None and any(getattr(typed, name) is not None for name in _SECURE):
        raise UsageError("--amqps-port, --amqps091-port, --stomps-port and --mqtts-port need --tls-cert and --tls-key")
    if (typed.user is None) != (typed.password_file is None):
        raise UsageError("--user and --password-file: give both or neither")
    guard = OPEN
    if typed.user is not None:
        try:
            guard = Guard(typed.user, typed.password_file.read_bytes().removesuffix(b"\n"))
        except OSError as error:
            raise UsageError(f"--password-file {typed.password_file}: {error.strerror}") from error
    return {**{name: getattr(typed, name) for name in _SECURE}, "tls": tls, "guard": guard}


def _pair(typed: argparse.Namespace) -> PairOptions | None:
    """Return how this broker is a member of a pair, None if it is not; raises `UsageError` for an incomplete pair."""
    words = (typed.pair, typed.member, typed.replication, typed.peer)
    if all(word is None for word in words):
        return None
    if any(word is None for word in words):
        raise UsageError("--pair, --member, --replication and --peer: give all four or none")
    if typed.replication_s <= 0:
        raise UsageError(f"--replication-s {typed.replication_s}: expected seconds above 0")
    return PairOptions(*words, typed.replication_s)


_SECURE = ("amqps_port", "amqps091_port", "stomps_port", "mqtts_port")


_QUEUE = f"declared at the start; its own {', '.join(settings.OPTIONS)}: else those of the settings"


def _port(text: str) -> int:
    number = int(text)
    if not 0 <= number < 1 << 16:
        raise argparse.ArgumentTypeError(f"{text} is no port: expected 0 to 65535")
    return number


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise argparse.ArgumentTypeError(f"{text} is no address: expected HOST:PORT")
    return host, int(port)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        """argparse exits with 2, which means inconclusive here; a wrong word is 4."""
        self.exit(4, f"{self.prog}: {message}\n")


class _Names(argparse.Action):
    def __call__(self, *_: object) -> None:
        """Print and exit, even if required options are missing, as argparse does for --help."""
        print("\n".join(liars.names()))
        sys.exit(0)


def parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="conformance broker",
        description="The bundled reference broker: AMQP 1.0, AMQP 0-9-1, STOMP 1.0 to 1.2, MQTT 5 and 3.1.1.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"settings:\n{settings.describe()}\n\nprofiles:\n{profiles.describe()}\n\nliars:\n{liars.describe()}",
    )
    parser.add_argument(
        "--amqp-port", type=_port, default=5672, metavar="N", help="default 5672; 0: chosen by the system"
    )
    parser.add_argument(
        "--amqp091-port", type=_port, metavar="A", help="AMQP 0-9-1; 0: chosen by the system; not given: off"
    )
    parser.add_argument("--stomp-port", type=_port, metavar="S", help="0: chosen by the system; not given: no STOMP")
    parser.add_argument("--mqtt-port", type=_port, metavar="Q", help="0: chosen by the system; not given: no MQTT")
    parser.add_argument(
        "--http-port", type=_port, default=0, metavar="M", help="depths; 0: chosen by the system, the default"
    )
    for name in ("--amqps-port", "--amqps091-port", "--stomps-port", "--mqtts-port"):
        parser.add_argument(name, type=_port, metavar="N", help="over TLS; 0: chosen by the system; not given: no TLS")
    parser.add_argument("--tls-cert", type=Path, metavar="FILE", help="the broker's certificate with its chain, PEM")
    parser.add_argument("--tls-key", type=Path, metavar="FILE", help="its key, PEM, without a passphrase")
    parser.add_argument(
        "--tls-ca", type=Path, metavar="FILE", help="authorities that sign clients' certificates: SASL EXTERNAL"
    )
    parser.add_argument(
        "--user",
        metavar="NAME",
        help="the login of a client without a certificate: SASL PLAIN, login of STOMP, CONNECT",
    )
    parser.add_argument("--password-file", type=Path, metavar="FILE", help="the user's password, one line")
    parser.add_argument("--listen", default="127.0.0.1", metavar="ADDRESS", help="default 127.0.0.1")
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="where the journal is; made if missing")
    parser.add_argument("--queue", action="append", default=[], metavar="NAME[:OPTION=VALUE,...]", help=_QUEUE)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="see settings below")
    parser.add_argument("--profile", default="standard", metavar="NAME", help="a system's behaviour: see below")
    parser.add_argument("--pair", type=Path, metavar="FOLDER", help="be a member of the pair that shares this folder")
    parser.add_argument("--member", type=int, choices=MEMBERS, help="the number of this member")
    parser.add_argument("--replication", type=_address, metavar="HOST:PORT", help="where its standby connects")
    parser.add_argument("--peer", type=_address, metavar="HOST:PORT", help="the --replication of the other member")
    parser.add_argument("--replication-s", type=float, default=5.0, metavar="S", help="bound of its answer; default 5")
    parser.add_argument("--liar", metavar="NAME", help="be wrong in exactly one way: see liars below")
    parser.add_argument("--liars", action=_Names, nargs=0, help="the names of all liars, one a line, and nothing else")
    return parser
