"""Record the histories of a run: `planning` chooses the trials, `trial` plays one, `record` loops over them.

Nothing here judges.
"""
