"""Literal histories of a link that carried AMQP: every word is one frame, as the proxy writes it down."""

from judge_histories import _id, of

from conformance.history import Op, Phase

SIZE = 300
"""Bytes of a frame."""


def framed(detail, *, to="to_broker", link=1, phase=Phase.OK, message=None, size=SIZE, **fields):
    """One frame."""
    about = {"connection": 1, "link": to, "count": size, "detail": detail, "message": message, **fields}
    return [(f"link-{link}", {"op": Op.FRAME, "phase": phase, "epoch": 1, **about})]


def transferred(*numbers, words="", to="to_client", link=1, phase=Phase.OK, epoch=1):
    """Transfers to the client; the delivery-id of a message is its number."""
    detail = f"transfer handle=0 {words}".rstrip()
    fields = {"to": to, "link": link, "phase": phase, "epoch": epoch}
    return [e for n in numbers for e in framed(detail, message=_id(n), delivery=str(n), **fields)]


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


def unreadable():
    """From here on nothing is known of the stream to the broker."""
    return framed("unreadable: a frame of 3 bytes", size=0)
