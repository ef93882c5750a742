"""A session that is a list: it answers in the next pump, or as its script says."""

from collections import deque

from conformance.clients.session import Disconnected, OperationAnswer, Received, SendOutcome
from conformance.history import Op, Phase, make_body


class Listed:
    """What a broker would say, without one. `refusals` and `releases` are what a protocol does."""

    answers_refusals = False
    releases_after_rollback = True
    found = ""

    def __init__(self, *, messages=(), answers=True, dies_after=None, unanswered=()):
        self.outcomes, self.incoming, self.answers = deque(), deque(), deque()
        self.returned, self.anomalies, self.reached = deque(), deque(), deque()
        self.waiting, self.asked, self.messages = [], [], list(messages)
        self.replies, self.dies_after, self.unanswered = answers, dies_after, unanswered
        self.acknowledged, self.refused, self.transacted, self.log = [], [], [], []
        self.credit, self.most, self.pumps, self.subscription = 0, 0, 0, None
        self.immediate = []

    def attach_sender(self, queue):
        pass

    def attach_receiver(self, queue, credit, subscription):
        self.credit, self.subscription = credit, subscription

    def sendable(self):
        return 1_000

    def send(self, message, body, *, durable, transaction=None, immediate=False):
        self.waiting.append(message)
        self.immediate += [message] if immediate else []
        self.log.append((Op.SEND, message, transaction))
        self.most = max(self.most, len(self.waiting))

    def send_unanswered(self, message, body, *, durable):
        self.log.append((Op.SEND, message, None))

    def acknowledge(self, covered, *, confirmed=False, transaction=None):
        names = [received.message for received in covered]
        self.acknowledged += names
        self.log += [(Op.ACK, name, transaction) for name in names]
        if confirmed:
            self.asked += [OperationAnswer(Op.ACK, r.message, Phase.OK, delivery=r.delivery) for r in covered]

    def refuse(self, received, outcome):
        self.refused.append((received.message, outcome))
        self.messages.append(received.message)

    def begin(self, transaction):
        self._ask(Op.BEGIN, transaction)

    def commit(self, transaction):
        self._ask(Op.COMMIT, transaction)

    def rollback(self, transaction):
        self._ask(Op.ROLLBACK, transaction)

    def _ask(self, op, name):
        self.log.append((op, name, name))
        if op not in self.unanswered:
            self.asked.append(OperationAnswer(op, name, Phase.OK))

    def fetch(self):
        pass

    def replenish(self, credit, receiver=0):
        self.credit += credit

    def pump(self, timeout_s):
        self.pumps += 1
        if self.dies_after is not None and self.pumps > self.dies_after:
            raise Disconnected("gone")
        if self.replies:
            self.outcomes.extend(SendOutcome(message, Phase.OK, None) for message in self.waiting)
            self.waiting.clear()
        self.answers.extend(self.asked)
        self.asked.clear()
        while self.credit > 0 and self.messages:
            self.credit -= 1
            name = self.messages.pop(0)
            self.incoming.append(Received(name, make_body(name, 64), 0, None, False, f"{name}-{self.pumps}", None))

    def close(self):
        pass
