"""The server by its absolute path, with `-I -S`: what coding clients are configured to start, wherever they look for
programs and packages."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    sys.path.append(__file__.rpartition("/")[0].rpartition("/")[0].rpartition("/")[0])
    from tallystick._mcp import main

    sys.exit(main(sys.argv[1:]))
