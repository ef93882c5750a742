"""One plan, one recorder: `planning.plan` says which trials, `trial` plays one, `record` is the only loop over them.

Nothing here judges. What comes out is a folder of histories.
"""
