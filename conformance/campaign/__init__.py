"""Run from a user's options to a judged folder: the engine that all front ends share.

`options`   the options of a run, their check, and the record of the run
`folders`   judges folders that earlier runs wrote, and joins the parts of one
`batches`   judges a run while it is recorded
`open_run`  records and judges
"""

from conformance.campaign.folders import join_parts, judge_folders
from conformance.campaign.open_run import OpenRun, Watcher, execute, session
from conformance.campaign.options import (
    Campaign,
    Options,
    command,
    credential_words,
    dated_folder,
    folder_for,
    narrowed,
    option_words,
    prepare,
    run_record,
    unable,
)

__all__ = [
    "Campaign",
    "OpenRun",
    "Options",
    "Watcher",
    "command",
    "credential_words",
    "dated_folder",
    "execute",
    "folder_for",
    "join_parts",
    "judge_folders",
    "narrowed",
    "option_words",
    "prepare",
    "run_record",
    "session",
    "unable",
]
