"""Brokers of one node, which are that node themselves: the base classes of the brokers of every launcher."""

from __future__ import annotations

import abc
import contextlib
import pathlib
import time
from collections.abc import Mapping, Sequence
from typing import Self

from conformance.adapters.interface import DepthProbe
from conformance.adapters.launch.plan import BrokerSetup, Plan
from conformance.errors import FaultError


class OneNodeBroker(abc.ABC):
    """Its own node, and its own `facts`; see `interface.Broker` and `interface.Node`."""

    folder: pathlib.Path
    by_command = False
    no_copy = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def facts(self) -> Self:
        return self

    def find_serving(self) -> Self:
        return self

    def parting(self, which: str, *, one_way: bool = False) -> contextlib.AbstractContextManager[int]:
        raise FaultError("the broker has one node, which cannot be parted from another")

    def halting(self, which: str) -> contextlib.AbstractContextManager[None]:
        raise FaultError("the broker has one node, and none beside it that goes on")

    @property
    def nodes(self) -> tuple[Self]:
        return (self,)

    @abc.abstractmethod
    def endpoint(self, protocol: str) -> tuple[str, int]:
        """As `Service.endpoint`."""

    def addresses(self, protocol: str) -> list[tuple[str, int]]:
        return [self.endpoint(protocol)]

    @property
    def node(self) -> Self:
        return self

    @abc.abstractmethod
    def launch(self, wrap: Sequence[str] = (), *, more: Sequence[str] = ()) -> None:
        """As `Node.launch`."""

    @abc.abstractmethod
    def wait_ready(self, ready_s: float = 0.0) -> None:
        """As `Node.wait_ready`."""

    @abc.abstractmethod
    def close(self) -> None:
        """As `Broker.close`."""


class PlannedBroker(OneNodeBroker):
    """A broker of one launcher, by a plan; it is also its own `service` and `target`."""

    def __init__(self, plan: Plan, setup: BrokerSetup) -> None:
        self.plan = plan
        self.folder = plan.folder
        self.deviations = dict(plan.deviations)
        self.epoch = 0
        self._ledger = setup.ledger
        self._client = setup.client
        self._began = 0.0

    @property
    def service(self) -> Self:
        return self

    target = beside = service

    def met(self, which: str) -> Self:
        return self

    def start(self, wrap: Sequence[str] = (), *, more: Sequence[str] = (), ready_s: float = 0.0) -> float:
        self.launch(wrap, more=more)
        self.wait_ready(ready_s)
        self.serve()
        return time.monotonic() - self._began

    @abc.abstractmethod
    def serve(self) -> None:
        """Declare the queues of a node that is ready, and prove that a message passes through it."""

    def depth_probe(self, queue: str, topic: str = "") -> DepthProbe:
        return self.plan.depth_probe(queue, self._moved, topic)

    def alarm_probes(self) -> Mapping[str, DepthProbe]:
        return self.plan.alarm_probes(self._moved)

    def _moved(self, url: str) -> str:
        """The URL at which clients find what the file says to be at `url`."""
        return url

    @property
    def _late(self) -> float:
        """The seconds since the newest launch."""
        return time.monotonic() - self._began
