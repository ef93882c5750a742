"""The API of JMS, by a vendor's own client: each speaks a protocol of its broker below it."""

from conformance.protocols.model import ClientProtocol, Scheme

PROTOCOL = ClientProtocol(
    name="jms",
    title="JMS",
    vendors=True,
    # What the client of TIBCO EMS is given; its own protocol has no name but that of JMS.
    schemes=(Scheme("tcp", 7222), Scheme("ssl", 7243, secure=True)),
    opaque=("core", "imq"),
)
