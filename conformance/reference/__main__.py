"""`python -m conformance.reference`."""

import sys

from conformance.reference.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
