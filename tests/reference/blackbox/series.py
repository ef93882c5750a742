"""A series of crashes under load: start, compare with the books, load, crash, and again; then a last look."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import pathlib
import random
import time
from collections.abc import Iterator

from conformance.faults.power import loss
from conformance.faults.power.image import LossyDisk
from conformance.ledger import Ledger

from . import amqp, stomp
from .accounts import Accounts, Fault, What
from .load import Client
from .server import PATIENCE, Server

LEAST, MOST = 200, 1200
"""Messages in the queue: below the one no consumer comes in this life of the broker, above the other no publisher.

Without a backlog every message would be on its way to a consumer, and the doubt about its acknowledgement would
excuse its loss.
"""
LONGEST_S = 0.25
"""Within which the crash comes, counted from when all clients are connected."""
CALM = 1 / 3
"""What is confirmed before its sync is at risk for a moment only, which a busy broker's next sync ends."""
PUBLISHERS = {"ap": ("amqp", amqp.Publisher), "sp": ("stomp", stomp.Publisher)}
CONSUMERS = {"ac": ("amqp", amqp.Consumer), "sc": ("stomp", stomp.Consumer)}


@dataclasses.dataclass
class Series:
    """`crashes` on one data folder below `folder`; `powers`: losses of power, else deaths of the process.

    `words` are for the broker. `until_fault`: end with the first fault. `calm`: the share of lives with one publisher
    and a crash right after an answer; in the others all do what the backlog allows, and the crash comes at any time.
    """

    folder: pathlib.Path
    crashes: int
    seed: int
    powers: bool = False
    words: tuple[str, ...] = ()
    until_fault: bool = False
    calm: float = CALM
    accounts: Accounts = dataclasses.field(default_factory=Accounts)
    noted: collections.Counter[tuple[str, What]] = dataclasses.field(default_factory=collections.Counter)
    """How often each kind of client did or read what."""
    done: int = 0
    seconds: float = 0.0

    def run(self) -> Accounts:
        """Play all of it. Raises `FaultError` where a power loss cannot be made."""
        began = time.monotonic()
        rng = random.Random(self.seed)
        with contextlib.ExitStack() as stack:
            disk = self._disk(stack) if self.powers else None
            data = (disk.mountpoint if disk else self.folder) / "data"
            for number in range(self.crashes + 1):
                if not self._life(number, data, disk, rng):
                    break
        self.seconds = time.monotonic() - began
        return self.accounts

    def _disk(self, stack: contextlib.ExitStack) -> LossyDisk:
        ledger = stack.enter_context(Ledger(self.folder / "ledger", f"crashes-{self.seed}-{time.monotonic_ns()}"))
        return stack.enter_context(LossyDisk.make(ledger, self.folder / "disk.img", self.folder / "disk"))

    def _life(self, number: int, data: pathlib.Path, disk: LossyDisk | None, rng: random.Random) -> bool:
        """From a start to the next crash; false where it was the last."""
        with self.started(data) as server:
            found = amqp.census(server)
            self.accounts.census(found, server.depth())
            if number == self.crashes or (self.until_fault and self.accounts.faults):
                return False
            clients = self._clients(number, server, len(found), rng)
            for client in clients:
                client.start()
            for client in clients:
                assert client.ready.wait(PATIENCE), f"{client.name} found no broker"
            if clients[0].calm:
                assert clients[0].struck.wait(PATIENCE), f"{clients[0].name} was not answered"
            else:
                time.sleep(rng.uniform(0, LONGEST_S))  # the fault is meant to come at a time and not at an event
            lost_ns = self._crash(server, disk, rng)
            for client in clients:
                client.join(PATIENCE)
                for error in client.errors:
                    self.accounts.fault(Fault.BROKEN, error)
                self.noted.update((client.name[-2:], fact.what) for fact in client.facts)
            self.accounts.epoch((fact for client in clients for fact in client.facts), lost_ns)
        if disk is not None:
            disk.after_loss()
        self.done += 1
        return True

    @contextlib.contextmanager
    def started(self, data: pathlib.Path) -> Iterator[Server]:
        """Start a broker that goes on from what the last crash has left, and end it.

        What it says on standard error stays outside the disk that loses its power.
        """
        server = Server(data, *self.words, errors=self.folder / "broker.err")
        try:
            yield server
        finally:
            server.kill()

    def _clients(self, number: int, server: Server, found: int, rng: random.Random) -> list[Client]:
        named = {**(PUBLISHERS if found < MOST else {}), **(CONSUMERS if found >= LEAST else {})}
        calm = found < MOST and rng.random() < self.calm
        chosen = [rng.choice([*PUBLISHERS])] if calm else [*named]
        return [
            named[name][1](
                f"{number}-{name}",
                server.port(named[name][0]),
                MOST // 2,
                calm=calm,
                strike=rng.randint(1, 8) if calm else 0,
            )
            for name in chosen
        ]

    def _crash(self, server: Server, disk: LossyDisk | None, rng: random.Random) -> int | None:
        """The moment from which the machine counts as dead, where it is the machine."""
        assert server.process.poll() is None, server.errors.read_text()
        if disk is None:
            server.kill()
            return None
        with disk.handle() as descriptor:
            # What is torn is written back first, and meanwhile the broker may sync: half of the losses come at once.
            torn = rng.getrandbits(32) if rng.random() < 0.5 else None
            lost = loss.lose(descriptor, torn=torn, folder="data")
            server.kill()
        return lost.invoked_ns

    def lines(self) -> Iterator[str]:
        """What happened, a line each."""
        counts = self.accounts.counts
        what = "power losses" if self.powers else "SIGKILLs"
        yield f"{self.done} {what} in {self.seconds:.0f} s, seed {self.seed}"
        yield ", ".join(f"{name} {counts[name]:,}" for name in sorted(counts))
        yield f"faults: {len(self.accounts.faults)}"
        for fault, detail in self.accounts.faults[:20]:
            yield f"  {fault.name}: {detail} ({fault})"
