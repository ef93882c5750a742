"""Judge a soak: each segment when it closes, with what earlier segments left open, and the whole at the end.

`plan` has the Spark plans, on the same columns and anomalies as those of a trial, `carry` the files between two
segments, `ruling` the verdict.
"""
