"""Literal histories, by the anomaly that they show or clear the broker of."""

from judge_cases_calls import CALLS
from judge_cases_deliveries import DELIVERIES
from judge_cases_disk import DISK
from judge_cases_link import LINK
from judge_cases_sends import SENDS

PARTS = (SENDS, DELIVERIES, DISK, LINK, CALLS)

CASES = {name: (anomaly, *case) for part in PARTS for anomaly, cases in part.items() for name, case in cases.items()}
"""Name: (anomaly, history, messages it applies to, messages that offend)."""
