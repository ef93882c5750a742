"""What is typed: `python -m conformance.reference`, and `main` for a command that delegates to it."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from conformance.errors import ConformanceError
from conformance.reference import settings
from conformance.reference.liars import registry


def main(argv: Sequence[str]) -> int:
    """Serves until SIGTERM or SIGINT; the exit code: 0 stopped, 3 could not start, 4 a word is not known.

    Prints `ready amqp=127.0.0.1:N stomp=127.0.0.1:S http=127.0.0.1:M` on standard output when it serves (stomp only if
    it was asked for), one line on standard error when it cannot. A disk error after that ends the process with
    `disk.DISK_ERROR`.
    """
    typed = _parser().parse_args(argv)
    try:
        chosen = settings.parse(typed.set)
        behaviour = registry.behaviour(typed.liar)
        # The protocol engine costs half of the start: a mistyped word need not wait for it.
        from conformance.reference.server import Wanted, serve

        ports = typed.amqp_port, typed.http_port, typed.stomp_port
        wanted = Wanted(*ports, typed.data, typed.queue, chosen, behaviour)
        asyncio.run(serve(wanted))
    except ConformanceError as error:
        print(f"conformance broker: {error}", file=sys.stderr)
        return int(error.exit_code)
    return 0


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        """argparse exits with 2, which means inconclusive here; a wrong word is 4."""
        self.exit(4, f"{self.prog}: {message}\n")


class _Names(argparse.Action):
    def __call__(self, *_: object) -> None:
        """As argparse does for --help: print, and be done, whatever else is missing."""
        print("\n".join(registry.LIARS))
        sys.exit(0)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="conformance broker",
        description="The bundled reference broker: AMQP 1.0 and STOMP 1.0 to 1.2 on 127.0.0.1.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"settings:\n{settings.described()}\n\nliars:\n{registry.described()}",
    )
    parser.add_argument(
        "--amqp-port", type=int, default=5672, metavar="N", help="default 5672; 0: chosen by the system"
    )
    parser.add_argument("--stomp-port", type=int, metavar="S", help="0: chosen by the system; not given: no STOMP")
    parser.add_argument(
        "--http-port", type=int, default=0, metavar="M", help="depths; 0: chosen by the system, the default"
    )
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="where the journal is; made if missing")
    parser.add_argument("--queue", action="append", default=[], metavar="NAME", help="declared at the start")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="see settings below")
    parser.add_argument("--liar", metavar="NAME", help="be wrong in exactly one way: see liars below")
    parser.add_argument("--liars", action=_Names, nargs=0, help="the names of all liars, one a line, and nothing else")
    return parser
