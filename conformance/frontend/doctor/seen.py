"""What a probe says."""

from __future__ import annotations

import dataclasses
from typing import Literal

State = Literal["ok", "note", "missing"]


@dataclasses.dataclass(frozen=True)
class ProbeResult:
    """What a probe saw: `ok`, there with a `note`, or `missing`; and the next step of a user."""

    state: State
    says: str
    todo: str = ""
