"""Literal histories, by the anomaly or the exposure that they show; the tables say how many messages, and in which."""

from judge_cases_calls import CALLS
from judge_cases_deliveries import DELIVERIES
from judge_cases_disk import DISK
from judge_cases_exposures import EXPOSURES
from judge_cases_guards import GUARDS
from judge_cases_link import LINK
from judge_cases_sends import SENDS
from judge_words import table

BY_FRAMES = table(LINK)
TABLES = (table(SENDS), table(DELIVERIES), table(DISK), BY_FRAMES, table(CALLS), table(GUARDS))

CASES = {name: (anomaly, *case) for part in TABLES for anomaly, cases in part.items() for name, case in cases.items()}
"""Name: (anomaly, messages that it applies to, messages that offend, history)."""

EXPOSED = {name: case for cases in table(EXPOSURES).values() for name, case in cases.items()}
"""Name of an exposure: (messages that it counts, history)."""

EXPOSED_BY_FRAMES = tuple(table(EXPOSURES)["by frames"])
