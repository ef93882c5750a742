"""What tests of clients share stands beside them: the folder is on the path."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
