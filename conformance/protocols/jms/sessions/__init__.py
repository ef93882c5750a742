"""The session of the suite through a vendor's client: the API of JMS, over the protocol of that client."""
