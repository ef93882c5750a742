"""`python -m conformance.cli`."""

from conformance.cli.entry import main

main()
