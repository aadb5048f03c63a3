"""``python -m snn [KEY=VALUE ...]``: the same as ``snn run [KEY=VALUE ...]``."""

import sys

from snn.run import main

# The threads of the process are set by now, which NumPy reads.
from snn import command  # isort: skip

if __name__ == "__main__":
    sys.exit(command.run(main))
