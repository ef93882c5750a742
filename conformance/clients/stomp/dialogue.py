"""A STOMP 1.2 session without its transport: what frames say in the words of a `Session`.

Two transports make sessions of it: stomp.py (`session`) and a socket with a codec of our own (`raw_session`). Both only
append what arrived to one queue, the end of the stream last, and `pump` handles it in the caller's thread in that
order: everything that a dying broker still sent is handed over before `Disconnected` is raised.

The login stands in CONNECT. `Receipts` knows which frames asked for a RECEIPT, and which of them a RECEIPT answers.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from conformance import limits
from conformance.adapters.credentials import REDACTED, Access, redacted
from conformance.clients.connecting import Line, dial, unanswered
from conformance.clients.roles.modes import AckHeader
from conformance.clients.session import (
    DeliveryBuffer,
    Disconnected,
    OperationAnswer,
    Received,
    Refused,
    SendOutcome,
    pump_until,
    ranged,
)
from conformance.clients.workers.job import Asks, StompWords, address
from conformance.errors import ClientError
from conformance.history import Op, Phase

Confirmed = SendOutcome | OperationAnswer
_ANSWERED_BY_US = re.compile(r"receipt-([1-9][0-9]{0,17})")  # what a longer one names was never asked for


class Receipts:
    """The receipts that were asked for and have not come.

    Raises `ClientError` where a broker sends more than `limits.UNTRUE_RECEIPTS` that answer nothing.

    With Ack Event Mode `windowed` the RECEIPT of a SEND answers every SEND before it that has no answer as well; STOMP
    1.2 itself says of earlier frames no more than that they were received.

    Attributes:
        anomalies: Every RECEIPT that is not one clean answer, as a sentence: without receipt-id, for a receipt that
            nobody asked for, or a second time.
    """

    def __init__(self, asks: Asks) -> None:
        self.anomalies: deque[str] = deque()
        self._ranges = asks.window > 0
        self._windowed = self._ranges and asks.event_mode == "windowed"
        self._waiting: dict[str, Sequence[Confirmed]] = {}
        self._in_window: list[str] = []  # receipts of sends that a later one may answer as well
        self._asked = self._untruths = 0

    def __contains__(self, receipt: str) -> bool:
        """Whether it was asked for, and has not come."""
        return receipt in self._waiting

    def ask(self, confirms: Sequence[Confirmed], *, in_window: bool = False) -> str:
        """The name of a new receipt, and what it will confirm; `in_window` for a SEND outside transactions."""
        self._asked += 1
        receipt = f"receipt-{self._asked}"
        self._waiting[receipt] = confirms
        if in_window and self._windowed:
            self._in_window.append(receipt)
        return receipt

    def came(self, receipt: str | None) -> Sequence[Confirmed]:
        """What a RECEIPT confirms, in the order in which it was asked; nothing where it is untrue."""
        if receipt is None:
            self._untrue("a RECEIPT without receipt-id")
        elif receipt in self._waiting:
            return self._covered(receipt)
        else:
            ours = _ANSWERED_BY_US.fullmatch(receipt)
            again = ours is not None and int(ours[1]) <= self._asked
            name = limits.quoted(receipt)
            self._untrue(f"a RECEIPT for {name!r}, " + ("a second time" if again else "never asked for"))
        return ()

    def _untrue(self, sentence: str) -> None:
        self._untruths += 1
        if self._untruths > limits.UNTRUE_RECEIPTS:
            raise ClientError(limits.exceeded("RECEIPT frames that answer nothing", limits.UNTRUE_RECEIPTS, "pieces"))
        self.anomalies.append(sentence)

    def refused(self, receipt: str | None, detail: str | None) -> Sequence[Confirmed]:
        """What an ERROR with that receipt-id refuses: its own frame, and no other (STOMP 1.2, ERROR)."""
        if receipt not in self._waiting:
            return ()
        if receipt in self._in_window:
            self._in_window.remove(receipt)
        found = self._told([receipt])
        for one in found:
            one.phase, one.detail = Phase.FAIL, detail
        return found

    def _covered(self, receipt: str) -> Sequence[Confirmed]:
        if receipt not in self._in_window:
            return self._told([receipt])
        end = self._in_window.index(receipt) + 1
        names, self._in_window = self._in_window[:end], self._in_window[end:]
        return self._told(names)

    def _told(self, receipts: Sequence[str]) -> Sequence[Confirmed]:
        found = [one for receipt in receipts for one in self._waiting.pop(receipt)]
        if self._ranges:
            ranged([one for one in found if isinstance(one, SendOutcome)])
        return found


class StompLogin:
    """Where the broker is and how one comes in; it reads the secret when it is made.

    Attributes:
        headers: `host`, and `login` and `passcode` where there is a user (STOMP 1.2, CONNECT or STOMP Frame).

    Raises:
        UsageError: The secret is not where it should be.
    """

    def __init__(self, host: str, port: int, access: Access) -> None:
        self.host, self.port, self.access = host, port, access
        self.headers = {"host": (access.tls and access.tls.server_name) or host}
        if access.password is not None:
            self.headers |= {"login": access.user, "passcode": access.password.read()}

    def dial(self, connect_s: float) -> Line:
        """See `access.dial`."""
        return dial(self.host, self.port, self.access, connect_s)

    def clean(self, text: str) -> str:
        """What a peer said, without the secret, and cut where it is too long."""
        return limits.quoted(redacted(text, self.access))

    def refused(self, told: str) -> str:
        """What an ERROR before CONNECTED means."""
        if self.access.password is None:
            return f"{self._where}: {told}, and no CONNECTED; where it wants a login, give --user and --password-env"
        who = f"the login of {self.access.user!r}"
        return f"{self._where}: {who} was refused: {told}; look at the user and at {self.access.password}"

    def lost(self, line: Line, reason: str) -> str:
        """What an end of the stream, or what is no STOMP, before CONNECTED means."""
        why = unanswered(self.host, self.port, self.access, line)
        return f"{self._where}: {why or f'the broker ended the connection before CONNECTED: {reason}'}"

    @property
    def _where(self) -> str:
        return f"{self.host}:{self.port}"


def without_secret(headers: Mapping[str, str]) -> Mapping[str, str]:
    """Headers of a frame as others may see them."""
    return {**headers, "passcode": REDACTED} if "passcode" in headers else headers


_ANSWER_S = 30.0
_CLOSE_S = 2.0
_REST_S = 5.0
_UNLIMITED = 1 << 30
_SUBSCRIPTION = "1"
_REDELIVERED = {"true": True, "false": False}


@dataclasses.dataclass(frozen=True, slots=True)
class ReceivedFrame:
    """One STOMP frame with its headers unescaped; the first of repeated ones counts (STOMP 1.2, Repeated Headers)."""

    command: str
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    body: bytes = b""

    @property
    def size(self) -> int:
        """Bytes that it keeps in memory, about."""
        return len(self.body) + self.head + limits.OVERHEAD

    @property
    def head(self) -> int:
        """Characters of its headers."""
        return sum(len(name) + len(value) for name, value in self.headers.items())


@dataclasses.dataclass(frozen=True, slots=True)
class End:
    """The end of the stream, and why. `protocol` is set where the peer broke the protocol and did not just go."""

    reason: str
    protocol: bool = False


class StompDialogue:
    """See `Session`. A transport calls `_open` when its socket stands and implements `_encode`, `_read`, `_release`.

    Attributes:
        anomalies: See `Receipts`.
        on_frame: Called with `sent` or `received` and each frame, in the caller's thread; sent means queued for the
            socket after `before_write`.

    Raises:
        ClientError: From any method: the peer broke the protocol, or gave no answer to a CONNECT or SUBSCRIBE.
        Refused: From `pump`: an ERROR frame, with its text. What arrived before it was handled.
        Disconnected: From `pump`: the stream has ended. What arrived before was handled.
    """

    answers_refusals = True
    """A NACK asks for a receipt."""
    releases_after_rollback = False
    """STOMP 1.2 has no word for it: what was acknowledged in an aborted transaction comes back with the connection."""

    def __init__(self, login: StompLogin, words: StompWords, before_write: Callable[[], None], asks: Asks) -> None:
        self.outcomes: deque[SendOutcome] = deque()
        self.incoming: deque[Received] = DeliveryBuffer()
        self.answers: deque[OperationAnswer] = deque()
        self._receipts = Receipts(asks)
        self.anomalies = self._receipts.anomalies
        self.on_frame: Callable[[str, ReceivedFrame], None] | None = None
        self._login = login
        self._words, self._before_write, self._asks = words, before_write, asks
        self._arrived: deque[ReceivedFrame | End] = deque()
        self._handled = 0
        self._queued: list[ReceivedFrame] = []
        self._output = bytearray()
        self._blocked = False
        self._deliveries = 0
        self._connected = False
        self._closed = False
        self._destination = ""
        self._subscription = AckHeader.INDIVIDUAL
        self._poll = select.poll()
        self._readable = -1
        self._own: frozenset[int] = frozenset()
        self._socket: Line

    # what roles call

    def attach_sender(self, queue: str) -> None:
        """Remember where to send; STOMP opens nothing for a sender."""
        self._destination = address(self._words.destination, queue)

    def attach_receiver(self, queue: str, credit: int, subscription: AckHeader) -> None:
        """SUBSCRIBE, and wait for its RECEIPT; messages may come before it and are kept.

        The credit is only what the broker's own header makes of it: STOMP has no credit.
        """
        self._subscription = subscription
        places = {"{queue}": queue, "{prefetch}": str(credit), "{prefetch_bytes}": str(credit * 1024)}
        headers = {
            "destination": address(self._words.destination, queue),
            "id": _SUBSCRIPTION,
            "ack": subscription.value,
        }
        limited = subscription is not AckHeader.SETTLED  # where nothing is acknowledged, nothing reopens a limit
        for name, value in self._words.subscribe.items():
            if "{prefetch" in value and not limited:
                continue
            for place, filled in places.items():
                value = value.replace(place, filled)  # noqa: PLW2901 - one place after another
            headers[name] = value
        headers |= {name: str(value) for name, value in self._asks.consumer.items()}
        receipt = self._ask("SUBSCRIBE", headers)
        if not self._pump_until(lambda: receipt not in self._receipts, _ANSWER_S):
            raise ClientError(f"the broker did not answer the SUBSCRIBE to {queue} within {_ANSWER_S:.0f} s")

    def sendable(self) -> int:
        """No limit: STOMP has no credit for senders."""
        return _UNLIMITED

    def send(
        self, message: str, body: bytes, *, durable: bool, transaction: str | None = None, immediate: bool = False
    ) -> None:
        """SEND with a receipt of its own; in a transaction too, where the outcome is provisional."""
        headers = self._sending(message, body, durable=durable)
        if immediate:
            headers["ack-immediately"] = "true"
        self._ask("SEND", headers, [SendOutcome(message, Phase.OK, None)], transaction=transaction, body=body)

    def acknowledge(
        self, covered: Sequence[Received], *, confirmed: bool = False, transaction: str | None = None
    ) -> None:
        """ACK each, or on a cumulative subscription only the last (STOMP 1.2, ACK).

        Raises:
            ClientError: On a settled subscription, whose deliveries STOMP does not let anybody acknowledge.
        """
        cumulative = self._subscription is AckHeader.CUMULATIVE
        for group in [covered] if cumulative and covered else [[received] for received in covered]:
            headers = {"id": self._ack_id(group[-1])}
            answers = [OperationAnswer(Op.ACK, received.message, Phase.OK) for received in group]
            if confirmed:
                self._ask("ACK", headers, answers, transaction=transaction)
            else:
                self._put("ACK", headers, transaction=transaction)

    def refuse(self, received: Received, outcome: str) -> None:
        """NACK, whatever the outcome: STOMP has one word. On a cumulative subscription it covers those before it."""
        self._ask("NACK", {"id": self._ack_id(received)}, [OperationAnswer(Op.NACK, received.message, Phase.OK)])

    def begin(self, transaction: str) -> None:
        """BEGIN with a receipt."""
        self._ask("BEGIN", {}, [OperationAnswer(Op.BEGIN, transaction, Phase.OK)], transaction=transaction)

    def commit(self, transaction: str) -> None:
        """COMMIT with a receipt."""
        self._ask("COMMIT", {}, [OperationAnswer(Op.COMMIT, transaction, Phase.OK)], transaction=transaction)

    def rollback(self, transaction: str) -> None:
        """ABORT with a receipt."""
        self._ask("ABORT", {}, [OperationAnswer(Op.ROLLBACK, transaction, Phase.OK)], transaction=transaction)

    def replenish(self, credit: int) -> None:
        """Nothing: the acknowledgement itself gives the broker's window back."""

    def fetch(self) -> None:
        """Deliveries come by themselves."""

    def watch(self, descriptor: int) -> None:
        """End the process when `descriptor` hangs up: the harness that gave the job is gone."""
        self._poll.register(descriptor, 0)  # POLLHUP is always reported

    def pump(self, timeout_s: float | None) -> None:
        """Write what is queued, wait at most `timeout_s` for input (None: no limit), handle what came."""
        self._flush()
        self._wait(0 if self._arrived else timeout_s)
        self._handle()

    def close(self) -> None:
        """DISCONNECT, wait for its RECEIPT as far as the peer still listens, and release the socket."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._connected:
                receipt = self._ask("DISCONNECT", {})
                with contextlib.suppress(Disconnected, ClientError):
                    self._pump_until(lambda: receipt not in self._receipts, _CLOSE_S)
        finally:
            self._release()

    # what a transport has of its own

    def _encode(self, frame: ReceivedFrame) -> bytes:
        """The bytes of a frame."""
        raise NotImplementedError

    def _read(self) -> None:
        """Append what has arrived to `_arrived`, without waiting; called when `_readable` is."""
        raise NotImplementedError

    def _release(self) -> None:
        """Close the socket, and end what else was started."""
        raise NotImplementedError

    def _open(self, readable: int, connect_s: float) -> None:
        """CONNECT on `_socket`, and wait for CONNECTED; `readable` says that there is something to `_read`."""
        self._readable = readable
        self._own = frozenset({readable, self._socket.fileno()})
        self._poll.register(readable, select.POLLIN)
        asked = {name: str(value) for name, value in self._asks.publisher.items()}
        asked |= {"host": self._words.virtual_host} if self._words.virtual_host else {}
        self._put("CONNECT", {"accept-version": "1.2", **self._login.headers, "heart-beat": "0,0", **asked})
        try:
            if not self._pump_until(lambda: self._connected, connect_s):
                raise ClientError(f"the broker did not answer CONNECT within {connect_s:.0f} s")
        except Disconnected as error:
            if self._connected:  # CONNECTED and the end in one read: the next pump tells the end
                return
            told = self._login.lost(self._socket, str(error))
            self.close()
            raise ClientError(told) from error
        except Refused as error:
            self.close()
            raise Refused(self._login.refused(str(error).splitlines()[0]), error.answers) from error
        except ClientError:
            self.close()
            raise

    # outgoing frames

    def _sending(self, message: str, body: bytes, *, durable: bool) -> dict[str, str]:
        headers = {"destination": self._destination, "conformance-id": message, "content-length": str(len(body))}
        if durable:
            headers["persistent"] = "true"
        return headers | self._words.send

    def _put(self, command: str, headers: dict[str, str], *, transaction: str | None = None, body: bytes = b"") -> None:
        if transaction is not None:
            headers["transaction"] = transaction
        self._queued.append(ReceivedFrame(command, headers, body))

    def _ask(
        self,
        command: str,
        headers: dict[str, str],
        confirms: Sequence[SendOutcome | OperationAnswer] = (),
        *,
        transaction: str | None = None,
        body: bytes = b"",
    ) -> str:
        in_window = command == "SEND" and transaction is None
        receipt = headers["receipt"] = self._receipts.ask(confirms, in_window=in_window)
        self._put(command, headers, transaction=transaction, body=body)
        return receipt

    def _ack_id(self, received: Received) -> str:
        if self._subscription is AckHeader.SETTLED:
            raise ClientError("a settled subscription has nothing to acknowledge")
        return str(received.handle)

    def _flush(self) -> None:
        if self._queued:
            self._before_write()
            for frame in self._queued:
                if self.on_frame is not None:
                    self.on_frame("sent", dataclasses.replace(frame, headers=without_secret(frame.headers)))
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
        """After a failed write: answers may still lie in the socket, and the broker did send them."""
        deadline = time.monotonic() + _REST_S
        while not (self._arrived and isinstance(self._arrived[-1], End)):
            left = deadline - time.monotonic()
            if left <= 0:
                self._arrived.append(End(reason))
                return
            self._wait(left)

    # incoming frames

    def _wait(self, timeout_s: float | None) -> None:
        for descriptor, events in self._poll.poll(None if timeout_s is None else max(timeout_s, 0) * 1000):
            if descriptor == self._readable and events & ~select.POLLOUT:
                self._read()
            elif descriptor not in self._own and events & (select.POLLHUP | select.POLLERR):
                raise SystemExit("the harness is gone")
        if self._output:
            self._write()

    def _pump_until(self, done: Callable[[], bool], timeout_s: float) -> bool:
        return pump_until(self.pump, done, timeout_s)

    def _handle(self) -> None:
        while self._arrived:
            item = self._arrived[0]
            if isinstance(item, End):  # it stays: every later pump says the same
                if item.protocol:
                    raise ClientError(f"the broker broke the protocol: {item.reason}")
                raise Disconnected(item.reason)
            self._arrived.popleft()
            self._handled += item.size
            if self.on_frame is not None:
                self.on_frame("received", item)
            self._dispatch(item)

    def _dispatch(self, frame: ReceivedFrame) -> None:
        if frame.command == "MESSAGE":
            self.incoming.append(self._received(frame))
        elif frame.command == "RECEIPT":
            self._answer(self._receipts.came(frame.headers.get("receipt-id")))
        elif frame.command == "CONNECTED":
            self._connected = True
        elif frame.command == "ERROR":
            body = frame.body.decode(errors="replace").strip()
            told = [self._login.clean(text) for text in (frame.headers.get("message", ""), body) if text]
            refused = self._receipts.refused(frame.headers.get("receipt-id"), told[0] if told else None)
            raise Refused(f"the broker sent ERROR: {': '.join(told) or 'without a text'}", refused)
        else:
            raise ClientError(f"the broker broke the protocol: a frame {limits.quoted(repr(frame.command))}")

    def _answer(self, confirmed: Sequence[SendOutcome | OperationAnswer]) -> None:
        self.outcomes.extend(one for one in confirmed if isinstance(one, SendOutcome))
        self.answers.extend(one for one in confirmed if isinstance(one, OperationAnswer))

    def _received(self, frame: ReceivedFrame) -> Received:
        headers = frame.headers
        count = headers.get("delivery-count")
        if count is not None and not is_number(count):
            raise ClientError(f"the broker broke the protocol: a MESSAGE with delivery-count {limits.quoted(count)!r}")
        acknowledged_by = headers.get("ack")
        if acknowledged_by is None and self._subscription is not AckHeader.SETTLED:
            raise ClientError("the broker broke the protocol: a MESSAGE without ack (STOMP 1.2, MESSAGE)")
        self._deliveries += 1
        return Received(
            message=limits.quoted(headers.get("conformance-id", f"foreign:{headers.get('message-id')}")),
            body=frame.body,
            count=None if count is None else int(count),
            first_acquirer=None,
            redelivered=_REDELIVERED.get(headers.get("redelivered", "")),
            delivery=str(self._deliveries),
            handle=acknowledged_by,
        )


def is_number(text: str) -> bool:
    """Whether a header is a number of at most 64 bits, in ASCII digits.

    >>> is_number("12"), is_number("9" * 5_000), is_number("-1")
    (True, False, False)
    """
    return text.isascii() and text.isdigit() and len(text) <= limits.DIGITS
