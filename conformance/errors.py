"""The errors of the suite, one for each step of a run.

A run checks its options (`UsageError`), reads the claims (`CatalogueError`), fetches a broker (`FetchError`), starts it
(`LaunchError`), uses it (`ClientError`), injects faults (`FaultError`), records histories (`HistoryError`), judges them
(`JudgeError`), and may be stopped by the user (`Interrupted`). None of them is a verdict about a broker: only the judge
makes verdicts, and only from complete histories.

Every error carries the exit code of the command that it ends (design: "Exit codes"). What a broker, its log or its file
says is made `visible` before it is printed.
"""

from __future__ import annotations

import copy
import difflib
import enum
import fnmatch
from collections.abc import Collection, Iterable
from typing import Self


def visible(text: str) -> str:
    r"""Spell out every character that controls a terminal or a browser; line ends and tabs stay.

    Escape sequences could repaint a terminal, direction marks could reverse a message id.

    >>> visible("a\x1b[2J" + chr(0x202e) + "b")
    'a\\x1b[2J\\u202eb'
    """
    return "".join(char if char in "\n\t" or char.isprintable() else ascii(char)[1:-1] for char in text)


class ExitCode(enum.IntEnum):
    """The exit code of a command; if several apply, `PRECEDENCE` decides."""

    CONFORMANT = 0
    VIOLATED = 1
    INCONCLUSIVE = 2
    HARNESS = 3
    USAGE = 4
    NOTHING_RAN = 5
    INTERRUPTED = 130


# A confirmed counterexample stays one, even if the suite failed elsewhere; the report names both.
PRECEDENCE = (
    ExitCode.INTERRUPTED,
    ExitCode.USAGE,
    ExitCode.VIOLATED,
    ExitCode.HARNESS,
    ExitCode.INCONCLUSIVE,
    ExitCode.NOTHING_RAN,
    ExitCode.CONFORMANT,
)


class ConformanceError(Exception):
    """The base of every error of this project; its text is one line that a user can act on."""

    exit_code: ExitCode = ExitCode.HARNESS
    of_broker = False
    """Whether the broker itself voids the trial: then no claim holds by the other trials of that scenario alone."""

    def within(self, where: str) -> Self:
        """Return the same error, with its step or file before the text."""
        made = copy.copy(self)
        made.args = (f"{where}: {self}",)
        return made


LISTED = {
    "adapter": "`conformance adapters` lists them, `conformance init broker` writes a file for your own broker",
    "claim": "`conformance claims` lists them",
    "client": "`conformance adapters` lists them",
    "liar": "`conformance broker --help` lists them",
    "scenario": "`conformance scenarios` lists them",
    "setting": "`conformance adapters show ADAPTER` lists them",
}
"""By the kind of a word, the command that lists the known ones."""


class UsageError(ConformanceError):
    """A word that the user typed is not known, or two do not go together.

    `code` names the mistake and stays the same if the wording changes; `fields` hold its words. People read the text,
    tests and programs read code and fields.

    >>> error = UsageError("--trials 0: at least 1", code="too-small", option="--trials")
    >>> error.code, error.fields
    ('too-small', {'option': '--trials'})
    """

    exit_code = ExitCode.USAGE

    def __init__(self, text: str, *, code: str = "usage", **fields: object) -> None:
        super().__init__(text)
        self.code = code
        self.fields = fields

    @classmethod
    def unknown(
        cls,
        what: str,
        word: str,
        known: Iterable[str],
        *,
        patterns: Iterable[str] = (),
        of: str = "",
        code: str = "",
        listed: str = "",
    ) -> UsageError:
        """Return the error for a word that is not known `of` a thing; its text names the closest known word or pattern.

        `listed` says how to list the known words; the default is that of `LISTED`.

        >>> error = UsageError.unknown("client", "qpid-jm", ["qpid-jms"])
        >>> str(error)
        "unknown client 'qpid-jm': did you mean 'qpid-jms'? known: qpid-jms; `conformance adapters` lists them"
        >>> error.code, error.fields["closest"]
        ('unknown-client', 'qpid-jms')
        """
        words = sorted(known)
        guesses = [*words, *sorted(patterns)]
        close = difflib.get_close_matches(word, guesses, n=1)
        lowered = difflib.get_close_matches(word.lower(), [w.lower() for w in guesses], n=1)
        guess = close or [w for w in guesses if [w.lower()] == lowered]
        guess = guess or [w for w in guesses if word and w.lower().startswith(word.lower())]
        hint = f": did you mean {guess[0]!r}?" if guess else ":"
        hint += " N is a whole number from 1 to 999999;" if guess and "-N-" in guess[0] else ""
        shown = ", ".join(words[:12]) + (", ..." if len(words) > 12 else "")
        listed = listed or LISTED.get(what.removesuffix("s"), "")
        return cls(
            f"unknown {what}{f' of {of}' if of else ''} {word!r}{hint} known: {shown}{f'; {listed}' if listed else ''}",
            code=code or f"unknown-{what.lower().replace(' ', '-')}",
            word=word,
            closest=guess[0] if guess else "",
            of=of,
        )


def matching(what: str, patterns: Iterable[str], known: Collection[str], *, of: str = "") -> list[str]:
    """Return the known words that match shell patterns; raises `UsageError` for a pattern that matches none.

    >>> matching("claim", ["AMQP-*"], ["AMQP-ACC-01", "EMS-TX-01"])
    ['AMQP-ACC-01']
    """
    found: dict[str, None] = {}
    for pattern in patterns:
        matches = fnmatch.filter(known, pattern)
        if not matches:
            parts = [word.split("-") for word in known]
            families = {"-".join([*words[:size], "*"]) for words in parts for size in range(1, len(words))}
            if set("*?[") & set(pattern):
                raise UsageError.unknown(f"{what}s", pattern, families, of=of)
            raise UsageError.unknown(what, pattern, known, patterns=families, of=of)
        found |= dict.fromkeys(matches)
    return list(found)


class CatalogueError(ConformanceError):
    """The claims, or what a scenario says that it decides, contradict themselves."""


class FetchError(ConformanceError):
    """A distribution could not be fetched: no network, a cut download, a checksum that differs."""


class NotFoundError(FetchError):
    """The repository has no such file: an unknown version, or a mirror that lacks it."""


class StartFailure(enum.Enum):
    """How a broker failed: its process ended by itself, was ended by a signal, or it was not ready in time."""

    ENDED = enum.auto()
    SIGNALLED = enum.auto()
    LATE = enum.auto()


class LaunchError(ConformanceError):
    """A broker did not start, did not become ready, or died by itself.

    `log_tail` has the last lines of its log, `log` the path of the whole, and `log_reasons` the few lines of the whole
    that name an error. `failure` says how it failed if it was started and did not become ready, or ended later; it is
    None for every other reason. `of_broker` is that of the class.
    """

    def __init__(
        self,
        message: str,
        *,
        log_tail: Iterable[str] = (),
        log_reasons: Iterable[str] = (),
        log: str | None = None,
        failure: StartFailure | None = None,
        of_broker: bool = False,
    ) -> None:
        super().__init__(message)
        self.of_broker = of_broker
        self.log_tail = tuple(log_tail)
        self.log_reasons = tuple(log_reasons)
        self.log = log
        self.failure = failure

    @property
    def log_lines(self) -> tuple[str, ...]:
        """What to show of the log: the lines that name an error, or else its end."""
        return self.log_reasons or self.log_tail


class ClientError(ConformanceError):
    """A client process of the suite failed or died, and no fault ended it."""


class BrokerError(ClientError):
    """The broker ended a connection, or did not let a client go on, although no fault was active."""

    of_broker = True


class UnansweredError(BrokerError):
    """The broker has let a client in, and did not answer its request within the bound."""


class DroppedError(BrokerError):
    """The broker closed the connection of a client without a word, or broke its protocol, and no fault was active."""


class BrokenProtocolError(BrokerError):
    """What the broker sent is not what the protocol allows (`how`): the client cannot go on with its connection.

    A limit of the suite, and what only a library cannot read, are a `ClientError`.
    """

    def __init__(self, how: str) -> None:
        super().__init__(f"the broker broke the protocol: {how}")


class BlockedError(BrokerError):
    """The broker blocks its producers: it announces an alarm, or gives them no credit."""


class LoginError(ClientError):
    """The broker refused the login of a client: trying again is of use only while the broker is still starting."""


class FaultError(ConformanceError):
    """A fault could not be armed, or did not take effect: its trial is void."""


class HistoryError(ConformanceError):
    """A history is torn or incomplete, or has a record twice: nothing may be concluded from it."""


class JudgeError(ConformanceError):
    """Spark could not start, or a plan could not be judged."""


class Interrupted(ConformanceError):
    """The user stopped the run; what was recorded is kept and marked incomplete."""

    exit_code = ExitCode.INTERRUPTED
