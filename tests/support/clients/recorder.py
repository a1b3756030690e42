"""A hook that writes down what it is told: `recorder.py FOLDER EVENT`.

The standard input of the n-th call is FOLDER/EVENT-n.json. If FOLDER has `EVENT.reply`, that is printed. With a third
word, the path of a FIFO, it waits for a text from there, writes it to the standard error and exits with 2: what wakes.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main(folder: Path, event: str, fifo: str = "") -> int:
    """The exit code."""
    said = sys.stdin.read()
    number = len([*folder.glob(f"{event}-*.json")]) + 1
    part = folder / f".{event}-{os.getpid()}"
    part.write_text(said, encoding="utf-8")
    part.rename(folder / f"{event}-{number}.json")
    if fifo:
        text = Path(fifo).read_text(encoding="utf-8")
        print(text, file=sys.stderr)
        return 2 if text else 0
    reply = folder / f"{event}.reply"
    if reply.exists():
        print(reply.read_text(encoding="utf-8"))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
