"""The table of fates once more, in plain Python and from its sentences: a history in, the fate of each message out.

It walks through the events of one trial in the order of the clock. Nothing here is SQL, and no row of the table is read.
"""

from __future__ import annotations

import dataclasses

from conformance.history import DELAYED, Op, Phase
from conformance.judge.anomalies.fates import ALLOWED, REQUIRED, UNDECIDED

MS = 1


@dataclasses.dataclass
class Life:
    """Everything that clients recorded of one message; times in ms."""

    sends: list = dataclasses.field(default_factory=list)
    answers: list = dataclasses.field(default_factory=list)
    handed: list = dataclasses.field(default_factory=list)
    acks: list = dataclasses.field(default_factory=list)
    taken: list = dataclasses.field(default_factory=list)
    refusals: list = dataclasses.field(default_factory=list)
    given_back: list = dataclasses.field(default_factory=list)
    drained: list = dataclasses.field(default_factory=list)
    aside: bool = False
    unanswered: bool = False


@dataclasses.dataclass
class Transaction:
    """What was asked for, and answered."""

    commit: int | None = None
    committed: tuple[int, int] | None = None
    refused: bool = False
    rollback: int | None = None
    rolled_back: bool = False


class Trial:
    """One trial, read once."""

    def __init__(self, events):
        self.lives, self.transactions, self.faulty = {}, {}, set()
        self.ended, self.silent, self.brought = {}, {}, set()
        self.depth = self.last_fault = 0
        self.clock = 0
        for process, fields in events:
            if not process:
                self.clock += fields
                continue
            self.clock += MS
            self._read(process, fields)

    def _read(self, process, event):
        op, phase, message, tx = event["op"], event["phase"], event.get("message"), event.get("transaction")
        now, epoch, detail = self.clock, event["epoch"], event.get("detail")
        life = self.lives.setdefault(message, Life()) if message else None
        transaction = self.transactions.setdefault((process, tx), Transaction()) if tx else None
        match op, phase:
            case Op.FAULT, Phase.FIRED:
                self.faulty.add(epoch)
                self.last_fault = now
            case Op.SEND, Phase.INVOKE:
                life.sends.append((now, transaction, event.get("durable"), event.get("count")))
            case Op.SEND, Phase.OK if not tx:
                life.answers.append((now, "accepted"))
            case Op.SEND, Phase.FAIL:
                life.answers.append((now, "outside" if str(detail).endswith("outside its transaction") else "refused"))
            case Op.DELIVER, Phase.OK:
                life.handed.append((now, epoch))
            case Op.ACK, Phase.INVOKE:
                life.acks.append((now, epoch, transaction))
            case Op.ACK, Phase.OK:
                life.taken.append((now, epoch))
            case Op.ACK, Phase.FAIL:
                life.refusals.append(now)
            case Op.ACK, Phase.INFO:
                life.unanswered = True
            case Op.NACK, Phase.INVOKE:
                life.given_back.append((now, detail))
            case Op.COMMIT, Phase.INVOKE:
                transaction.commit = now
            case Op.COMMIT, Phase.OK:
                transaction.committed = (now, epoch)
            case Op.COMMIT, Phase.FAIL:
                transaction.refused = True
            case Op.ROLLBACK, Phase.INVOKE:
                transaction.rollback = now
            case Op.ROLLBACK, Phase.OK:
                transaction.rolled_back = True
            case Op.DRAIN, Phase.OK if message:
                life.drained.append((now, epoch))
                self.brought.add(int(process.split("-")[1]))
            case Op.DRAIN, Phase.INFO if message:
                life.aside = True
            case Op.DRAIN, _ if detail != DELAYED:
                number = int(process.split("-")[1])
                self.ended[number] = now
                if phase is Phase.OK:
                    self.silent[number] = now
            case Op.DEPTH, Phase.OK:
                self.depth = event["count"]

    # what the drains say

    @property
    def read_out(self):
        """Two drains ended after the last fault, and the second of them brought nothing."""
        last = max([*self.ended, *self.brought], default=0)
        both = all(self.ended.get(number, -1) > self.last_fault for number in (last - 1, last))
        return last >= 2 and both and last not in self.brought

    @property
    def settled(self):
        return self.read_out and self.silent.get(max(self.ended), -1) > self.last_fault

    # what the publisher knows

    def promise(self, life):
        """Return what is owed, `kept`, `absent` or `either`, and the anomaly of a breach."""
        if not life.sends:
            return "absent", "phantom"
        transactions = [tx for _, tx, _, _ in life.sends if tx]
        outcomes = [word for _, word in life.answers]
        if transactions:
            if len(life.sends) > 1:
                return "either", ""
            tx = transactions[0]
            if tx.commit is None:
                return "absent", "available_early" if tx.rollback is not None else "available_undischarged"
            if "outside" in outcomes:
                return "either", ""
            if tx.committed is None:
                surely = tx.refused and not self.of_two(life)
                return ("absent", "outcome_not_in_effect") if surely else ("either", "")
            if "refused" in outcomes:
                return "absent", "refused_delivered"
            good, anomaly = True, "lost_committed"
        else:
            if not outcomes:
                return "either", ""
            if "accepted" not in outcomes:
                return ("absent" if len(life.sends) == 1 else "either"), "refused_delivered"
            good, anomaly = outcomes[0] == "accepted" and (len(life.sends) == 1 or "refused" not in outcomes), "lost"
        if not good or not any(durable for *_, durable, _ in life.sends) or self.expired(life):
            return "either", ""
        return "kept", anomaly

    def expired(self, life):
        return any(at + lives < self.clock for at, _, _, lives in life.sends if lives is not None)

    # what the consumers did

    def duty(self, life):
        """Return what the broker must do with a message that consumers had, and the anomalies of a breach.

        `come`: it comes again, else the first anomaly; the second is that of one that is set aside. `go`: it does not,
        else the first anomaly in the same run, the second after a restart. `open`: nothing is known.
        """
        last_hand, given_back = life.handed[-1][0], life.given_back[-1][0] if life.given_back else 0
        refused = life.refusals and life.refusals[-1] > max([last_hand, given_back, *[at for at, _ in life.taken[:1]]])
        if len(life.sends) > 1 or self.of_two(life) or refused:
            return "open", "", ""
        if life.taken:
            return "go", "delivered_after_acknowledgement", "delivered_after_restart"
        transactions = [tx for *_, tx in life.acks if tx]
        if any(tx.committed for tx in transactions):
            return "go", "transacted_acknowledgement", "returned_after_commit"
        if any(tx.commit is not None for tx in transactions):
            return "open", "", ""
        if life.acks and life.acks[-1][0] > last_hand and life.acks[-1][2]:
            if any(tx.rolled_back for tx in transactions):
                return "come", "transacted_acknowledgement", "set_aside_early"
            return "come", "undischarged_gone", "set_aside_early"
        last_ack = life.acks[-1][0] if life.acks else 0
        if given_back > max(last_hand, last_ack):
            word = life.given_back[-1][1]
            if word == "rejected":
                return "go", "rejected_again", "rejected_again"
            gone = {"released": "released_gone", "failed": "failed_gone", "undeliverable": "given_back_nowhere"}
            return "come", gone.get(word, "gone"), UNDECIDED if word in gone else "set_aside_early"
        if last_ack > last_hand:
            closed = life.acks[-1][1] not in self.faulty and not life.unanswered
            return ("closed" if closed else "may"), "returned_after_close", ""
        return "come", "gone", "set_aside_early"

    def of_two(self, life):
        return any(tx for _, tx, _, _ in life.sends) and any(tx for *_, tx in life.acks)

    # what became of it

    def owes(self, message):
        """Whether a depth may count it: confirmed or committed, of any kind, and nothing was done with it."""
        life = self.lives[message]
        outcomes = [word for _, word in life.answers]
        transactions = [tx for _, tx, _, _ in life.sends if tx]
        if transactions:
            # The answer to any commit of the message, also of the transaction of its acknowledgement.
            every = [*transactions, *[tx for *_, tx in life.acks if tx]]
            sure = any(tx.committed for tx in every) and not {"refused", "outside"} & set(outcomes)
        else:
            sure = "accepted" in outcomes and (
                not {"refused", "outside"} & set(outcomes) or (len(life.sends) == 1 and outcomes[0] == "accepted")
            )
        done = life.drained or life.acks or life.given_back or life.aside or self.expired(life)
        return bool(life.sends) and sure and not done

    def counted(self):
        if self.settled:
            return set()

        def order(message):
            life = self.lives[message]
            producer, n = message[1:].split(":")
            return len(life.handed), not any(durable for *_, durable, _ in life.sends), int(producer), int(n)

        return set(sorted(filter(self.owes, self.lives), key=order)[: self.depth])

    def fates(self):
        counted = self.counted()
        return {message: self.fate(life, message in counted) for message, life in self.lives.items()}

    def fate(self, life, in_depth):
        owed, breach = self.promise(life)
        came = sorted([*life.handed, *life.drained])
        sent_in = [tx for _, tx, _, _ in life.sends if tx]
        commits = [tx.commit for tx in (*sent_in, *[tx for *_, tx in life.acks if tx]) if tx.commit is not None]
        if sent_in and len(life.sends) == 1 and came and commits and came[0][0] < min(commits):
            return "available_early" if owed != "absent" else breach
        if owed == "absent":
            if came:
                return breach
            return UNDECIDED if life.aside or (not self.settled and not self.read_out) else REQUIRED
        if not life.handed:
            return self._untaken(life, owed, breach, in_depth)
        kind, first, second = self.duty(life)
        since, epoch = self._since(life)
        later = [run for at, run in came if at > since]
        if later:
            last = max(run for _, run in came)
            again = epoch in (None, last) or self._in_first(came, since, epoch)
            return self._returned(kind, first, second, owed, again=again)
        if life.aside:
            if kind == "come":
                return second if owed == "kept" else UNDECIDED
            return UNDECIDED
        if in_depth:
            return (REQUIRED if owed == "kept" else ALLOWED) if kind == "come" else UNDECIDED
        if not self.settled:
            return UNDECIDED
        if kind == "come":
            return first if owed == "kept" else UNDECIDED
        if kind in ("go", "closed"):
            return REQUIRED if owed == "kept" else ALLOWED
        return ALLOWED if kind == "may" and owed == "kept" else UNDECIDED

    def _untaken(self, life, owed, breach, in_depth):
        kept = owed == "kept"
        if life.drained:
            return REQUIRED if kept else ALLOWED
        if life.aside:
            return "set_aside_early" if kept else ALLOWED
        if in_depth:
            return REQUIRED if kept else ALLOWED
        if self.read_out:
            return breach if kept else ALLOWED
        return UNDECIDED

    def _since(self, life):
        """Return when the last word on the message was, and in which run of the broker, if an answer says so."""
        if life.taken:
            return life.taken[0]
        done = [tx.committed for *_, tx in life.acks if tx and tx.committed]
        if self.of_two(life):
            done += [tx.committed for _, tx, _, _ in life.sends if tx and tx.committed]
        if done:
            return min(done)
        words = [at for at, *_ in (*life.handed, *life.acks, *life.given_back)]
        return max(words), max((epoch for _, epoch, _ in life.acks), default=None)

    def _in_first(self, came, since, epoch):
        return epoch == 1 and any(run == 1 and at > since for at, run in came)

    def _returned(self, kind, first, second, owed, *, again):
        if kind == "go":
            return first if again else second
        if kind == "closed":
            return first if again else UNDECIDED
        if kind == "come":
            return REQUIRED if owed == "kept" else ALLOWED
        return ALLOWED if kind == "may" else UNDECIDED


def fates(events):
    """Return the fate of each message of a history, by its id."""
    return Trial(events).fates()
