"""`python -m conformance.frontend.doctor [--json]`: also where not even the command `conformance` can start."""

from __future__ import annotations

import sys

from conformance.frontend import doctor

if __name__ == "__main__":
    checks = doctor.examine()
    sys.stdout.write(doctor.as_json(checks) if sys.argv[1:] == ["--json"] else doctor.text(checks))
    sys.exit(doctor.exit_code(checks))
