"""The words of literal histories: each is one event or a few, as a process records it.

`history("kept 1 2, killed, settled 1")` is a list of `(process, fields)`, in the order of the clock.
"""

import re
import shlex

from conformance.history import DELAYED, OF_ACK, OF_ANOTHER, SHUT, WAITS, Op, Phase

C = "consumer-1"
LINK_091 = 91
"""The link of this number carries AMQP 0-9-1, every other one AMQP 1.0."""

CONSTANTS = {"None": None, "True": True, "False": False, "LONG": 29_999, "SHORT": 29_998}
CONSTANTS |= {member.name: member for kind in (Op, Phase) for member in kind}
"""Between a call and the end of a pause lies one event more: with it LONG is the liveness bound, and SHORT is less."""


def history(text):
    """Return the events of words with arguments: `kept 1 2 durable=False, killed`."""
    found = []
    for word in re.findall(r'(?:"[^"]*"|[^",])+', text):
        name, *arguments = shlex.split(word)
        named = [argument.partition("=") for argument in arguments if re.match(r"[a-z_]+=", argument)]
        numbers = [_value(argument) for argument in arguments if not re.match(r"[a-z_]+=", argument)]
        found += globals()[name](*numbers, **{key: _value(value) for key, _, value in named})
    return found


def table(text):
    """Return the cases of a table, by section and name: the numbers in front of the name, and the history."""
    found, section = {}, {}
    for line in re.sub(r"\n {4,}", " ", text).splitlines():
        if line.startswith("["):
            section = found.setdefault(line.strip("[]"), {})
        elif line and not line.startswith("#"):
            about, _, words = line.rpartition(": ")
            *numbers, name = re.fullmatch(r"((?:\d+ )+)(.*)", about).groups()
            assert name not in section, f"{name} is there twice"
            section[name] = (*map(int, numbers[0].split()), history(words))
    return found


def _value(word):
    return int(word) if re.fullmatch(r"\d+", word) else CONSTANTS.get(word, word)


def of(process, op, phase, message=None, **fields):
    """One event, as the process and the fields of it."""
    return [(process, {"op": op, "phase": phase, "queue": "q", "epoch": 1, "message": message, **fields})]


def _id(n):
    return n if isinstance(n, str) else f"p1:{n}"


def pause(ms):
    """Nothing happens for so long."""
    return [("", ms)]


def sent(*numbers, durable=True, tx=None, detail=None, epoch=1, lives=None, priority=None, delay=None):
    """Sent, with so many milliseconds to live, or so many before its delivery, or with a priority."""
    about = {"durable": durable, "transaction": tx, "detail": detail, "epoch": epoch, "count": lives}
    about = {**about, "delay_ms": delay, "priority": priority}
    return [e for n in numbers for e in of("publisher-1", Op.SEND, Phase.INVOKE, _id(n), **about)]


def confirmed(*numbers, tx=None, epoch=1):
    """Answered; inside a transaction that is provisional."""
    about = {"transaction": tx, "detail": "accepted", "epoch": epoch}
    return [e for n in numbers for e in of("publisher-1", Op.SEND, Phase.OK, _id(n), **about)]


def ranged(*numbers, phase=Phase.OK):
    """Answered together, by an answer that names the last."""
    about = {"first": numbers[0], "last": numbers[-1]}
    return [e for n in numbers for e in of("publisher-1", Op.SEND, phase, _id(n), **about)]


def immediate(*numbers):
    """Sent with Ack Immediately."""
    return sent(*numbers, detail="ack immediately")


def waited(n, unanswered):
    """The publish of this message has to wait for its window."""
    return of("publisher-1", Op.CONFIRM, Phase.INFO, _id(n), count=unanswered, detail=WAITS)


def shut(n, unanswered):
    """It has waited for the liveness bound although there was room."""
    return of("publisher-1", Op.CONFIRM, Phase.INFO, _id(n), count=unanswered, detail=SHUT)


def round_trip(ms=1, n="p9:1"):
    """A commit that is answered so long after it was asked for, less the millisecond of the event itself."""
    asked, answer = discharge(Op.COMMIT, "t1", by="publisher-9")
    put_in = [("publisher-9", event) for _, event in sent(n, tx="t1")]
    return [*put_in, asked, *pause(ms - 1), answer]


def offered(setting="ack_threshold=1", phase=Phase.FAIL):
    """The broker refuses to start with a setting, or takes it."""
    return [("orchestrator", {"op": Op.BROKER, "phase": phase, "epoch": 2, "detail": f"offered {setting}"})]


def ack_refused(n):
    return of("consumer-1", Op.ACK, Phase.FAIL, _id(n), detail="rejected")


def ack_lost(n):
    """The connection ended before the answer."""
    return of("consumer-1", Op.ACK, Phase.INFO, _id(n), detail="disconnected")


def unasked(*numbers, durable=True):
    """Sent without asking for an answer."""
    return sent(*numbers, durable=durable, detail="no answer asked for")


def refused(n, word="rejected", tx=None):
    return of("publisher-1", Op.SEND, Phase.FAIL, _id(n), detail=word, transaction=tx)


def untrue(n):
    """A receipt that answers nothing, put down to the last send answered."""
    return of("publisher-1", Op.CONFIRM, Phase.FAIL, _id(n), detail="receipt twice")


def no_answer(n, why="disconnected"):
    return of("publisher-1", Op.SEND, Phase.INFO, _id(n), detail=why)


def kept(*numbers, durable=True, lives=None, priority=None, delay=None):
    """Sent and confirmed."""
    return [*sent(*numbers, durable=durable, lives=lives, priority=priority, delay=delay), *confirmed(*numbers)]


def put(tx, *numbers, publisher=1):
    """Sent in a transaction, each with its provisional answer."""
    events = [*discharge(Op.BEGIN, tx), *sent(*numbers, tx=tx), *confirmed(*numbers, tx=tx)]
    return [(f"publisher-{publisher}", event) for _, event in events]


def again(tx, *numbers):
    """Sent again by another publisher, in a transaction of its own."""
    return put(tx, *numbers, publisher=2)


def discharge(op, tx, answer=Phase.OK, by="publisher-1"):
    """Asked for, and answered unless `answer` is None: names a transaction and no message."""
    asked = of(by, op, Phase.INVOKE, transaction=tx)
    return [*asked, *of(by, op, answer, transaction=tx)] if answer else asked


def committed(tx, answer=Phase.OK, by="publisher-1"):
    return discharge(Op.COMMIT, tx, answer, by)


def rolled_back(tx, answer=Phase.OK, by="publisher-1"):
    return discharge(Op.ROLLBACK, tx, answer, by)


def answered(op, tx, by="publisher-1"):
    """The answer to a request to commit, or to roll back, that was recorded before."""
    return of(by, op, Phase.OK, transaction=tx)


def _stored(phase, about, *, fault=None, disk=1, epoch=1):
    """What was seen of one record at the disk, where queues have no names: of a message, or of a commit or rollback."""
    key = {"transaction": about} if str(about).startswith("t") else {"message": _id(about)}
    seen = {"op": Op.SYNC, "phase": phase, "epoch": epoch, "fault": fault, "detail": "pwrite64 journal"}
    return [(f"disk-{disk}", {**seen, **key})]


def wrote(*numbers, **where):
    """The record was written."""
    return [e for n in numbers for e in _stored(Phase.INVOKE, n, **where)]


def synced(*numbers, held=False, **where):
    """The first sync that covers it had returned; `held` by the fault before."""
    fault = "held_sync" if held else None
    return [e for n in numbers for e in _stored(Phase.OK, n, fault=fault, **where)]


def sync_failed(n, fault="failed_sync", **where):
    """The sync, or the write, of its record returned an error."""
    return _stored(Phase.FAIL, n, fault=fault, **where)


def removed(*numbers, held=False):
    """The record of its acknowledgement was written, and a sync that covers it had returned."""
    return of_ack(wrote(*numbers) + synced(*numbers, held=held))


def unsynced(*numbers):
    """The record of its acknowledgement was written, and no sync covers it."""
    return of_ack(wrote(*numbers))


def of_ack(seen):
    return [(disk, {**event, "detail": f"{event['detail']} {OF_ACK}"}) for disk, event in seen]


def hidden(how="io_uring"):
    """The broker uses something that the tracer cannot see."""
    return [("disk-1", {"op": Op.SYNC, "phase": Phase.INFO, "epoch": 1, "detail": how})]


def fired(fault, process="link-1"):
    """A fault that belongs to the link or the disk, fired and effective."""
    return [*of(process, Op.FAULT, Phase.FIRED, fault=fault), *of(process, Op.FAULT, Phase.EFFECTIVE, fault=fault)]


def halted(by="publisher-1"):
    """Every thread of the broker has stopped."""
    return fired("pause", by)


def resumed(by="publisher-1"):
    """The pause is over."""
    return of(by, Op.FAULT, Phase.HEALED, fault="pause")


def limited(process, count):
    """Its publish window, or its prefetch limit."""
    return of(process, Op.CONNECT, Phase.OK, count=count)


def handed(*numbers, consumer=1, **fields):
    seen = {"count": 0, "first_acquirer": True, "intact": True, **fields}
    return [e for n in numbers for e in of(f"consumer-{consumer}", Op.DELIVER, Phase.OK, _id(n), **seen)]


def began(*numbers):
    return [e for n in numbers for e in of(C, Op.PROCESS, Phase.INVOKE, _id(n))]


def processed(*numbers):
    return [e for n in numbers for e in of(C, Op.PROCESS, Phase.OK, _id(n))]


def ack_sent(*numbers, tx=None, consumer=1):
    return [e for n in numbers for e in of(f"consumer-{consumer}", Op.ACK, Phase.INVOKE, _id(n), transaction=tx)]


def acked_in(tx, *numbers):
    """Handed over, and acknowledged in a transaction: no acknowledgement of its own is answered."""
    return [*[e for n in numbers for e in handed(n)], *ack_sent(*numbers, tx=tx)]


def forwarded(tx, *numbers):
    """Sent by the consumer, in its own transaction."""
    return [(C, event) for _, event in [*sent(*numbers, tx=tx), *confirmed(*numbers, tx=tx)]]


def given_back(n, word="released"):
    """Refused by its consumer, as released, failed, undeliverable or rejected."""
    return of("consumer-1", Op.NACK, Phase.INVOKE, _id(n), detail=word)


def starved():
    """The consumer waited for the liveness bound in vain."""
    return of("consumer-1", Op.DELIVER, Phase.INFO, detail="nothing came")


def acked(*numbers):
    return [*ack_sent(*numbers), *[e for n in numbers for e in of("consumer-1", Op.ACK, Phase.OK, _id(n))]]


def took(*numbers):
    """Handed over, processed, acknowledged and confirmed, one after the other."""
    return [e for n in numbers for e in (*handed(n), *processed(n), *acked(n))]


def killed(process="publisher-1", epoch=1, detail=None):
    fired = of(process, Op.FAULT, Phase.FIRED, fault="kill", epoch=epoch, detail=detail)
    return [*fired, *took_effect("kill", epoch)]


def killed_by_another(epoch=1):
    """The kill came at the trigger of another trial, which shares the broker."""
    return killed("orchestrator", epoch, OF_ANOTHER)


def not_back(words="not recovered: it ended with status 1", phase=Phase.FAIL):
    """The start after a fault failed: the broker is to blame for it in `fail`, and maybe in `info`."""
    about = {"op": Op.BROKER, "epoch": 2}
    begun = {**about, "phase": Phase.INVOKE, "detail": "start"}
    return [("orchestrator", begun), ("orchestrator", {**about, "phase": phase, "detail": words})]


def reported(words="record 7 is damaged"):
    """The log of the broker says this, since its data were damaged."""
    return [("orchestrator", {"op": Op.BROKER, "epoch": 2, "phase": Phase.INFO, "detail": f"reported: {words}"})]


def not_alive(words="not alive: it died by itself (status 1)"):
    """Without a fault the broker ended, or dropped a connection."""
    return of("orchestrator", Op.BROKER, Phase.FAIL, queue=None, detail=words)


def not_served(words="not served: the broker confirmed no send for 30 s"):
    """It had again what it was short of, and took nothing more."""
    return of("orchestrator", Op.BROKER, Phase.FAIL, queue=None, detail=words)


def unready():
    """It was not ready, and started from a copy of its data."""
    return not_back("not ready: it ended with status 1; a second broker started from a copy", Phase.INFO)


def crashed():
    return [*of("consumer-1", Op.FAULT, Phase.FIRED, fault="consumer_crash"), *took_effect("consumer_crash")]


def took_effect(fault, epoch=1):
    return of("orchestrator", Op.FAULT, Phase.EFFECTIVE, fault=fault, epoch=epoch)


def kept_in(epoch, n):
    """Sent and confirmed in that run of the broker, by a publisher of its own."""
    about = {"epoch": epoch, "durable": True}
    sends = of(f"publisher-{epoch}", Op.SEND, Phase.INVOKE, f"p{epoch}:{n}", **about)
    return [*sends, *of(f"publisher-{epoch}", Op.SEND, Phase.OK, f"p{epoch}:{n}", **about)]


def came(n, drain=1, *, epoch=2, **fields):
    seen = {"count": 1, "first_acquirer": False, "intact": True, **fields}
    return of(f"drain-{drain}", Op.DRAIN, Phase.OK, _id(n), epoch=epoch, **seen)


def silent(drain, *, epoch=2):
    return of(f"drain-{drain}", Op.DRAIN, Phase.OK, epoch=epoch, count=0, detail="silent")


def stuck(drain, *, depth=1, epoch=2):
    return [
        *of(f"drain-{drain}", Op.DEPTH, Phase.OK, epoch=epoch, count=depth),
        *of(f"drain-{drain}", Op.DRAIN, Phase.INFO, epoch=epoch, count=0, detail="stuck"),
    ]


def delayed(drain, *, epoch=2):
    """What is left waits for a redelivery delay that no drain waits for."""
    return of(f"drain-{drain}", Op.DRAIN, Phase.INFO, epoch=epoch, count=0, detail=DELAYED)


def set_aside(*numbers, queue="DLQ"):
    """Found in the dead-letter or expiry queue after a drain."""
    return [e for n in numbers for e in of("collector-1", Op.DRAIN, Phase.INFO, _id(n), epoch=2, detail=f"in {queue}")]


def settled(*numbers, epoch=2, **fields):
    """The first drain brings these, and both fall silent."""
    first = [e for n in numbers for e in came(n, epoch=epoch, **fields)]
    return [*first, *silent(1, epoch=epoch), *silent(2, epoch=epoch + 1)]


# frames of a link that carries AMQP, as the proxy records them

SIZE = 300
"""Bytes of a frame."""


def framed(detail, *, to="to_broker", link=1, phase=Phase.OK, message=None, size=SIZE, **fields):
    """One frame."""
    if "delivery" in fields:
        fields["delivery"] = str(fields["delivery"])
    about = {"connection": 1, "link": to, "count": size, "detail": detail, "message": message, **fields}
    return [(f"link-{link}", {"op": Op.FRAME, "phase": phase, "epoch": 1, **about})]


def transferred(*numbers, words="", to="to_client", link=1, phase=Phase.OK, epoch=1):
    """Transfers to the client; the delivery-id of a message is its number."""
    detail = f"transfer handle=0 {words}".rstrip()
    fields = {"to": to, "link": link, "phase": phase, "epoch": epoch}
    return [e for n in numbers for e in framed(detail, message=_id(n), delivery=n, **fields)]


def settled_on_link(*numbers, **how):
    """Transfers to the client that need no acknowledgement."""
    return transferred(*numbers, words="settled", **how)


def disposed(first, last=None, words="accepted settled", *, to="to_broker", link=1):
    """One disposition of the client: a range where `last` is another."""
    return framed(f"disposition {words}", to=to, link=link, first=first, last=first if last is None else last)


def reached(frames, *, short=0, link=1):
    """So many frames reached the client, less some bytes of the last one."""
    about = {"link": "to_client", "connection": 1, "count": frames * SIZE - short, "detail": "bytes reached the client"}
    return of(f"link-{link}", Op.CONNECT, Phase.INFO, **{"queue": None, **about})


def closed():
    """The client closes its connection, and the broker answers."""
    return [*framed("close", size=12), *framed("close", to="to_client", size=14)]


def unreadable():
    """From here on nothing is known of the stream to the broker."""
    return framed("unreadable: a frame of 3 bytes", size=0)


# of several events


def returned(*numbers):
    """acknowledge() has returned, a while after it was called."""
    return [e for n in numbers for e in of(C, Op.ACK, Phase.OK, _id(n))]


def back(*numbers):
    """send() has returned; the listener for its answer is called later."""
    return [e for n in numbers for e in of("publisher-1", Op.CALL, Phase.OK, _id(n))]


def slow(ms):
    """The link adds so much to a round trip."""
    return of("link-1", Op.FAULT, Phase.ARMED, fault="delay", count=ms * 1000)


def question(number, phase):
    """A question to the client, and whether the answer is what a claim says."""
    return [e for each in (Phase.INVOKE, phase) for e in of("asker-1", Op.ASK, each, f"p9:{number}")]


def window(size):
    """A publisher with that window, on a machine where a commit takes a millisecond."""
    return round_trip() + limited("publisher-1", size)


def waiting(ms, n="p2:1"):
    """A send to a broker that was started for the second time, answered so long after it."""
    return sent(n, epoch=2) + pause(ms - 1) + confirmed(n, epoch=2)


def waited_for_the_timer():
    """A send that is answered after a second: no setting was offered."""
    return limited("publisher-1", 9) + sent(1) + pause(999) + confirmed(1)


def many_handed(count):
    return [e for n in range(1, count + 1) for e in handed(n)]


def taken_in_turn(count):
    """Handed over, and acknowledged before the next."""
    return [e for n in range(1, count + 1) for e in handed(n) + ack_sent(n)]


def _half(producer, process, again):
    """Three messages come; the client dies with the third one, and those in `again` come to the next."""
    first, second, third = (f"p{producer}:{n}" for n in (1, 2, 3))
    events = kept(first, second, third) + handed(first) + process(first) + handed(second) + process(second)
    events += handed(third) + crashed()
    return events + [e for n in again for e in (*handed(f"p{producer}:{n}"), *process(f"p{producer}:{n}"))]


def listening(first, again, process=None):
    """Two halves with a listener each; the messages with these digits came again in the one and in the other.

    In each half, the first two messages are processed, and the processing of the third has begun.
    """
    process = process or processed
    events = _half(1, process, str(first)) + _half(2, process, "")
    return events + settled(*(f"p2:{n}" for n in str(again)))


def receiving(first, again=""):
    """The same with receive(): no event records a processing. The first two messages are done with."""
    return listening(first, again, lambda _: [])


def prefetched():
    """Two messages came, and the application got one of them."""
    return kept(1, 2) + transferred(1, 2) + reached(2) + handed(1)


def took_in_turn(*numbers):
    """Handed over and processed, one after the other."""
    return [e for n in numbers for e in (*handed(n), *processed(n))]


def flagged(*numbers, words="persistent"):
    """Sends as a link saw them."""
    return [e for n in numbers for e in framed(f"transfer handle=0 {words}".rstrip(), message=_id(n), delivery=n)]


def unflagged(*numbers, words=""):
    return flagged(*numbers, words=words)


def brought(*numbers):
    """AMQP 0-9-1: deliveries whose tags are the numbers of their messages."""
    about = {"to": "to_client", "link": LINK_091}
    return [e for n in numbers for e in framed("basic.deliver persistent", message=_id(n), delivery=n, **about)]


def acknowledged(covers, *, multiple):
    """AMQP 0-9-1: one frame, and the messages that it settles."""
    word = str(multiple).lower()
    return framed(f"basic.ack multiple={word} accepted covers={covers}", link=LINK_091)
