"""One line of history and one answer each: which anomaly it shows, or that it is innocent of it."""

from judge_cases_calls import CALLS
from judge_cases_clients import CLIENTS
from judge_cases_compared import COMPARED
from judge_cases_deliveries import DELIVERIES
from judge_cases_disk import DISK
from judge_cases_link import LINK
from judge_cases_refusals import REFUSALS
from judge_cases_sends import SENDS
from judge_cases_sessions import SESSIONS
from judge_cases_standing import STANDING
from judge_cases_transactions import TRANSACTIONS
from judge_cases_windows import WINDOWS

PARTS = (SENDS, DELIVERIES, TRANSACTIONS, REFUSALS, DISK, SESSIONS, LINK, WINDOWS, CALLS, CLIENTS, COMPARED, STANDING)

# name: (anomaly, history, messages it applies to, messages that offend)
CASES = {name: case for part in PARTS for name, case in part.items()}
