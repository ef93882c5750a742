"""A STOMP 1.2 session without its transport: translate between frames and the operations of a `Session`.

Two transports make sessions of it: stomp.py (`session`) and a socket with a strict codec (`raw_session`). Both append
what arrived to one queue, the end of the stream last. `pump` handles it in the caller's thread, in that order: all
frames that a dying broker still sent are handled before `Disconnected` is raised.
"""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import re
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from typing_extensions import override

from conformance import limits
from conformance.clients.connecting import Line, Login
from conformance.clients.job import Asks, Job, address, in_turn
from conformance.clients.roles.modes import AckHeader
from conformance.clients.session import (
    Disconnected,
    LoginRefused,
    OperationAnswer,
    Received,
    Refused,
    SendOutcome,
    Session,
    await_answer,
    note_range,
    pump_until,
    wait_for_input,
)
from conformance.errors import BrokenProtocolError, ClientError
from conformance.history import CONFORMANCE_ID, Op, Phase
from conformance.protocols.stomp.options import StompOptions
from conformance.scenario.options import as_text

_CLOSE_S = 2.0
_REST_S = 5.0
Confirmed = SendOutcome | OperationAnswer
_OUR_NAME = re.compile(r"receipt-([1-9][0-9]{0,17})")  # a longer number was never asked for


@dataclasses.dataclass(frozen=True, slots=True)
class ReceivedFrame:
    """One STOMP frame with its headers unescaped; the first of repeated ones counts (STOMP 1.2, Repeated Headers)."""

    command: str
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    body: bytes = b""

    @property
    def size(self) -> int:
        """Bytes of memory that it needs, about."""
        return len(self.body) + self.head + limits.OVERHEAD

    @property
    def head(self) -> int:
        """Characters of its headers."""
        return sum(len(name) + len(value) for name, value in self.headers.items())


@dataclasses.dataclass(frozen=True, slots=True)
class End:
    """The end of the stream, why, and what it is for the client."""

    reason: str
    error: type[Exception] = Disconnected


_OF_LOGIN = re.compile(
    r"log.?in|user|pass(word|code)|credential|authenticat|authori[sz]|security|access refused", re.IGNORECASE
)
"""Words of an ERROR frame that is about the login: STOMP has no other sign of it."""


class StompLogin(Login):
    """The login of one connection by the headers of CONNECT (STOMP 1.2, CONNECT or STOMP Frame)."""

    @property
    def headers(self) -> dict[str, str]:
        login = {"login": self.access.user, "passcode": self.password} if self.access.password is not None else {}
        return {"host": self.server_name, **login}

    def refused(self, said: str) -> str:
        if self.access.password is None:
            return f"{self.where}: {said}, and no CONNECTED; if it requires a login, give --user and --password-env"
        who = f"the login of {self.access.user!r}"
        return f"{self.where}: {who} was refused: {said}; {self.where_to_look}"

    def lost(self, line: Line, reason: str) -> str:
        """Explain an end of the stream, or bytes that are no STOMP, before CONNECTED."""
        why = self.unanswered(line)
        return f"{self.where}: {why or f'the broker ended the connection before CONNECTED: {reason}'}"


class Receipts:
    """The receipts that were asked for and have not arrived.

    With Ack Event Mode `windowed` the RECEIPT of a SEND also answers every earlier SEND that has no answer. STOMP 1.2
    itself says only that the broker has received the earlier frames.

    Args:
        asks: What this client asks for.
        anomalies: Gets a sentence for each RECEIPT that is not one clean answer: without receipt-id, for a receipt that
            was never asked for, or a second time.

    Raises:
        ClientError: The broker sent more than `limits.UNTRUE_RECEIPTS` that answer nothing.
    """

    def __init__(self, asks: Asks, anomalies: deque[str]) -> None:
        self._anomalies = anomalies
        self._notes_ranges = asks.window > 0
        self._windowed = self._notes_ranges and asks.event_mode == "windowed"
        self._waiting: dict[str, Sequence[Confirmed]] = {}
        self._in_window: list[str] = []  # receipts of sends that a later one may answer as well
        self._asked = self._untruths = 0

    def __contains__(self, receipt: str) -> bool:
        return receipt in self._waiting

    def ask(self, confirms: Sequence[Confirmed], *, in_window: bool = False) -> str:
        """Return the name of a new receipt that will confirm these; `in_window` for a SEND outside transactions."""
        self._asked += 1
        receipt = f"receipt-{self._asked}"
        self._waiting[receipt] = confirms
        if in_window and self._windowed:
            self._in_window.append(receipt)
        return receipt

    def arrived(self, receipt: str | None) -> Sequence[Confirmed]:
        """Return what a RECEIPT confirms, in the order of the requests; nothing if it is an anomaly."""
        if receipt is None:
            self._untrue("a RECEIPT without receipt-id")
        elif receipt in self._waiting:
            return self._covered(receipt)
        else:
            ours = _OUR_NAME.fullmatch(receipt)
            again = ours is not None and int(ours[1]) <= self._asked
            name = limits.quote(receipt)
            self._untrue(f"a RECEIPT for {name!r}, " + ("a second time" if again else "never asked for"))
        return ()

    def _untrue(self, sentence: str) -> None:
        self._untruths += 1
        if self._untruths > limits.UNTRUE_RECEIPTS:
            raise ClientError(
                limits.limit_sentence("RECEIPT frames that answer nothing", limits.UNTRUE_RECEIPTS, "pieces")
            )
        self._anomalies.append(sentence)

    def refused(self, receipt: str | None, detail: str | None) -> Sequence[Confirmed]:
        """Return what an ERROR with that receipt-id refuses: its own frame and no other (STOMP 1.2, ERROR)."""
        if receipt not in self._waiting:
            return ()
        if receipt in self._in_window:
            self._in_window.remove(receipt)
        found = self._take([receipt])
        for one in found:
            one.phase, one.detail = Phase.FAIL, detail
        return found

    def _covered(self, receipt: str) -> Sequence[Confirmed]:
        if receipt not in self._in_window:
            return self._take([receipt])
        end = self._in_window.index(receipt) + 1
        names, self._in_window = self._in_window[:end], self._in_window[end:]
        return self._take(names)

    def _take(self, receipts: Sequence[str]) -> Sequence[Confirmed]:
        found = [one for receipt in receipts for one in self._waiting.pop(receipt)]
        if self._notes_ranges:
            note_range([one for one in found if isinstance(one, SendOutcome)])
        return found


class StompDialogue(Session):
    """See `Session`. A transport calls `_open` when its socket is connected."""

    answers_refusals = True  # a NACK asks for a receipt
    # Deliveries acknowledged in an aborted transaction return with the connection; STOMP 1.2 has no frame to release
    # them, so `releases_after_rollback` stays false.

    def __init__(self, job: Job, before_write: Callable[[], None]) -> None:
        super().__init__(job, before_write)
        self._login = StompLogin(job.connection.host, job.connection.port, job.connection.access)
        self._receipts = Receipts(job.work.asks, self.anomalies)
        self._arrived: deque[ReceivedFrame | End] = deque()
        self._handled = 0
        self._queued: list[ReceivedFrame] = []
        self._options = job.dialect.options(StompOptions)
        self._output = bytearray()
        self._blocked = False
        self._deliveries = 0
        self._queues: list[str] = []
        self._connected = False
        self._closed = False
        self._subscriptions: dict[str, AckHeader] = {}  # by their ids, in the order of the receivers
        self._poll = select.poll()
        self._readable = -1
        self._own: frozenset[int] = frozenset()
        self._socket: Line

    # what roles call

    @override
    def attach_sender(self, queue: str) -> None:
        self._queues.append(queue)

    @override
    def attach_receiver(self, queue: str, credit: int, subscription: AckHeader) -> None:
        if subscription is AckHeader.INDIVIDUAL and not self._job.dialect.singly:
            subscription = AckHeader.CUMULATIVE
        number = len(self._subscriptions) + 1
        self._subscriptions[str(number)] = subscription
        places = {"{queue}": queue, "{prefetch}": str(credit), "{prefetch_bytes}": str(credit * 1024)}
        headers = {
            "destination": address(self._job.dialect.source, queue),
            "id": str(number),
            "ack": subscription.value,
        }
        limited = subscription is not AckHeader.SETTLED  # without acknowledgements nothing reopens the broker's limit
        for name, value in self._options.subscribe.items():
            if "{prefetch" in value and not limited:
                continue
            for place, filled in places.items():
                value = value.replace(place, filled)  # noqa: PLW2901 - one place after another
            headers[name] = value
        headers |= {name: str(value) for name, value in self._job.work.asks.consumer.items()}
        headers |= {"selector": self._job.work.selector} if self._job.work.selector else {}
        self._await_receipt("SUBSCRIBE", headers, f"the SUBSCRIBE to {queue}")

    @override
    def end_receiver(self, receiver: int) -> None:
        self.incoming.end(receiver)
        self._await_receipt("UNSUBSCRIBE", {"id": str(receiver + 1)}, "the UNSUBSCRIBE")

    def _await_receipt(self, command: str, headers: dict[str, str], what: str) -> None:
        receipt = self._ask(command, headers)
        await_answer(self.pump, lambda: receipt not in self._receipts, what)

    @override
    def send(
        self, message: str, body: bytes, *, durable: bool, transaction: str | None = None, immediate: bool = False
    ) -> None:
        headers = self._sending(message, body, durable=durable)
        if immediate:
            headers["ack-immediately"] = "true"
        self._ask("SEND", headers, [SendOutcome(message, Phase.OK, None)], transaction=transaction, body=body)

    @override
    def acknowledge(
        self, covered: Sequence[Received], *, confirmed: bool = False, transaction: str | None = None
    ) -> None:
        for group in self._together(covered):
            headers = {"id": self._ack_id(group[-1])}
            answers = [
                OperationAnswer(Op.ACK, received.message, Phase.OK, delivery=received.delivery) for received in group
            ]
            if confirmed:
                self._ask("ACK", headers, answers, transaction=transaction)
            else:
                self._put("ACK", headers, transaction=transaction)

    def _together(self, covered: Sequence[Received]) -> list[list[Received]]:
        """Return the deliveries of each ACK; on a cumulative subscription one covers all (STOMP 1.2, ACK)."""
        groups: dict[int | str, list[Received]] = {}
        for received in covered:
            cumulative = self._header_of(received.receiver) is AckHeader.CUMULATIVE
            groups.setdefault(received.receiver if cumulative else received.delivery, []).append(received)
        return list(groups.values())

    @override
    def refuse(self, received: Received, outcome: str) -> None:
        self._ask("NACK", {"id": self._ack_id(received)}, [OperationAnswer(Op.NACK, received.message, Phase.OK)])

    @override
    def begin(self, transaction: str) -> None:
        self._ask("BEGIN", {}, [OperationAnswer(Op.BEGIN, transaction, Phase.OK)], transaction=transaction)

    @override
    def commit(self, transaction: str) -> None:
        self._ask("COMMIT", {}, [OperationAnswer(Op.COMMIT, transaction, Phase.OK)], transaction=transaction)

    @override
    def rollback(self, transaction: str) -> None:
        self._ask("ABORT", {}, [OperationAnswer(Op.ROLLBACK, transaction, Phase.OK)], transaction=transaction)

    @override
    def watch(self, descriptor: int) -> None:
        self._poll.register(descriptor, 0)  # POLLHUP is always reported

    @override
    def pump(self, timeout_s: float | None) -> None:
        self._flush()
        self._wait(0 if self._arrived else timeout_s)
        self._handle()

    @override
    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            if self._connected:
                receipt = self._ask("DISCONNECT", {})
                with contextlib.suppress(Disconnected, ClientError):
                    pump_until(self.pump, lambda: receipt not in self._receipts, _CLOSE_S)
        finally:
            self._release()

    # what a transport implements

    @abc.abstractmethod
    def _encode(self, frame: ReceivedFrame) -> bytes: ...

    @abc.abstractmethod
    def _read(self) -> None:
        """Append what has arrived to `_arrived`, without waiting; called when `_readable` is readable."""

    @abc.abstractmethod
    def _release(self) -> None:
        """Close the socket, and end everything else that the transport started."""

    def _open(self, readable: int) -> None:
        """Send CONNECT on `_socket` and wait for CONNECTED. A readable `readable` means: call `_read`."""
        self._readable = readable
        self._own = frozenset({readable, self._socket.fileno()})
        self._poll.register(readable, select.POLLIN)
        asked = {name: str(value) for name, value in self._job.work.asks.publisher.items()}
        asked |= {"host": self._options.virtual_host} if self._options.virtual_host else {}
        asked |= self._options.connect
        self._put("CONNECT", {"accept-version": "1.2", **self._login.headers, "heart-beat": "0,0", **asked})
        try:
            if not pump_until(self.pump, lambda: self._connected, self._job.connection.connect_s):
                raise ClientError(f"the broker did not answer CONNECT within {self._job.connection.connect_s:.0f} s")
        except Disconnected as error:
            if self._connected:  # CONNECTED and the end in one read: the next pump raises
                return
            why = self._login.lost(self._socket, str(error))
            self.close()
            raise ClientError(why) from error
        except Refused as error:
            self.close()
            said = str(error).splitlines()[0]
            kind = LoginRefused if _OF_LOGIN.search(said) else Refused
            raise kind(self._login.refused(said), error.answers) from error
        except ClientError:
            self.close()
            raise

    # outgoing frames

    def _sending(self, message: str, body: bytes, *, durable: bool) -> dict[str, str]:
        place = address(self._job.dialect.destination, in_turn(self._queues, message))
        headers = {"destination": place, CONFORMANCE_ID: message, "content-length": str(len(body))}
        if durable:
            headers["persistent"] = "true"
        if self._job.dialect.duplicate_id:
            headers[self._job.dialect.duplicate_id] = self._job.named(message)
        if lives_ms := self._job.work.lives_ms:
            end = str(int(time.time() * 1000) + lives_ms)
            for name, value in self._options.time_to_live.items():
                headers[name] = value.replace("{lives_ms}", str(lives_ms)).replace("{expires_ms}", end)
        properties = {name: as_text(value) for name, value in self._job.work.properties(message).items()}
        return headers | properties | self._options.send

    def _put(self, command: str, headers: dict[str, str], *, transaction: str | None = None, body: bytes = b"") -> None:
        if transaction is not None:
            headers["transaction"] = transaction
        self._queued.append(ReceivedFrame(command, headers, body))

    def _ask(
        self,
        command: str,
        headers: dict[str, str],
        confirms: Sequence[Confirmed] = (),
        *,
        transaction: str | None = None,
        body: bytes = b"",
    ) -> str:
        in_window = command == "SEND" and transaction is None
        receipt = headers["receipt"] = self._receipts.ask(confirms, in_window=in_window)
        self._put(command, headers, transaction=transaction, body=body)
        return receipt

    def _ack_id(self, received: Received) -> str:
        if self._header_of(received.receiver) is AckHeader.SETTLED:
            raise ClientError("a settled subscription has nothing to acknowledge")
        return str(received.handle)

    def _header_of(self, receiver: int) -> AckHeader:
        return self._subscriptions.get(str(receiver + 1), AckHeader.INDIVIDUAL)

    def _receiver_of(self, frame: ReceivedFrame) -> int:
        """Return the receiver that a MESSAGE is for: that of its subscription header, if there are several."""
        if len(self._subscriptions) <= 1:
            return 0
        name = frame.headers.get("subscription", "")
        if name not in self._subscriptions:
            raise BrokenProtocolError(f"a MESSAGE for the subscription {limits.quote(name)!r}")
        return int(name) - 1

    def _flush(self) -> None:
        if self._queued:
            self._before_write()
            for frame in self._queued:
                self._output += self._encode(frame)
            self._queued.clear()
        self._write()

    def _write(self) -> None:
        try:
            while self._output:
                del self._output[: self._socket.send(self._output, socket.MSG_DONTWAIT)]
        except BlockingIOError:
            self._blocked = True
            self._poll_for_output(select.POLLOUT)
        except OSError as error:
            self._output.clear()
            self._read_rest(str(error))
        if self._blocked and not self._output:
            self._blocked = False
            self._poll_for_output(0)

    def _poll_for_output(self, output: int) -> None:
        descriptor = self._socket.fileno()
        events = output | (select.POLLIN if descriptor == self._readable else 0)
        if events:
            self._poll.register(descriptor, events)
        else:
            self._poll.unregister(descriptor)

    def _read_rest(self, reason: str) -> None:
        """Read what the broker had sent before a write failed: the socket may still hold answers."""
        deadline = time.monotonic() + _REST_S
        while not (self._arrived and isinstance(self._arrived[-1], End)):
            left = deadline - time.monotonic()
            if left <= 0:
                self._arrived.append(End(reason))
                return
            self._wait(left)

    # incoming frames

    def _wait(self, timeout_s: float | None) -> None:
        wait_for_input(self._poll, self._readable, self._read, timeout_s, self._own)
        if self._output:
            self._write()

    def _handle(self) -> None:
        while self._arrived:
            item = self._arrived[0]
            if isinstance(item, End):  # it stays: every later pump raises the same
                raise item.error(item.reason)
            self._arrived.popleft()
            self._handled += item.size
            self._dispatch(item)

    def _dispatch(self, frame: ReceivedFrame) -> None:
        if frame.command == "MESSAGE":
            receiver = self._receiver_of(frame)
            if receiver not in self.incoming.ended:
                self.incoming.append(self._received(frame, receiver))
        elif frame.command == "RECEIPT":
            self._answer(self._receipts.arrived(frame.headers.get("receipt-id")))
        elif frame.command == "CONNECTED":
            self._connected = True
            self.greeting = self._login.clean(frame.headers.get("server", ""))
        elif frame.command == "ERROR":
            body = frame.body.decode(errors="replace").strip()
            said = [self._login.clean(text) for text in (frame.headers.get("message", ""), body) if text]
            refused = self._receipts.refused(frame.headers.get("receipt-id"), said[0] if said else None)
            raise Refused(f"the broker sent ERROR: {': '.join(said) or 'without a text'}", refused)
        else:
            raise BrokenProtocolError(f"a frame {limits.quote(repr(frame.command))}")

    def _answer(self, confirmed: Sequence[Confirmed]) -> None:
        self.outcomes.extend(one for one in confirmed if isinstance(one, SendOutcome))
        self.answers.extend(one for one in confirmed if isinstance(one, OperationAnswer))

    def _received(self, frame: ReceivedFrame, receiver: int) -> Received:
        headers = frame.headers
        count = headers.get("delivery-count")
        if count is not None and not is_number(count):
            raise ClientError(f"a MESSAGE with delivery-count {limits.quote(count)!r}")
        acknowledged_by = headers.get("ack")
        if acknowledged_by is None and self._header_of(receiver) is not AckHeader.SETTLED:
            raise BrokenProtocolError("a MESSAGE without ack (STOMP 1.2, MESSAGE)")
        self._deliveries += 1
        foreign = headers.get(CONFORMANCE_ID, f"foreign:{headers.get('message-id')}")
        message = self._job.work.known_by(headers, frame.body, foreign)
        return Received(
            message=message,
            body=frame.body,
            count=None if count is None else int(count),
            first_acquirer=None,
            redelivered=headers.get("redelivered") == "true",  # a broker that leaves the header out marks nothing
            delivery=str(self._deliveries),
            handle=acknowledged_by,
            receiver=receiver,
            altered=self._job.work.are_altered(message, headers, as_text),
        )


def is_number(text: str) -> bool:
    """Whether a header is a number of at most 64 bits, in ASCII digits.

    >>> is_number("12"), is_number("9" * 5_000), is_number("-1")
    (True, False, False)
    """
    return text.isascii() and text.isdigit() and len(text) <= limits.DIGITS
