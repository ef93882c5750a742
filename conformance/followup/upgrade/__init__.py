"""Test an upgrade: `conformance upgrade --from artemis@2.44.0 --to artemis@2.56.0`.

Every scenario in which a fault ends the broker and it starts again is played twice: by the old version alone, and as an
upgrade, in which the new version starts on the data that the old one left. Claims, controls and judge are those of any
run. A violation that the old version alone also has is not a regression.

`broker` has the two brokers that share their data and look like one. `runs` plans, plays and compares the two runs.
"""
