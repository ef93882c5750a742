"""`python -m conformance.frontend.cli`."""

from conformance.frontend.cli.entry import main

main()
