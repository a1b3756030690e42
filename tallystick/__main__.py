"""`python -m tallystick`, and what `wire` starts by its path."""

import os
import sys

if not __package__:
    # Started by path in isolated mode: the package's own place is the one to import from.
    place = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if place not in sys.path:
        sys.path.insert(0, place)

from tallystick.bootstrap import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
