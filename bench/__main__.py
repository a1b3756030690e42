"""`python -m bench [--quick] [--only NAME…] [--bare] [--sync-ms N] [--json FILE]`: prints a table, writes JSON.

Exit code 1 where a number is below half of its target.
"""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from bench import slow_sync
from bench.machine import Machine
from bench.table import Row, Skip

GROUPS = ("sync", "cli", "mcp", "acp", "submit", "cycle", "reach", "size", "disk")
LONG = ("million",)
"""Run only where they are named."""
BARE = ("submit", "cycle")
"""What the bare host can do."""
RESULTS = Path(__file__).parent / "results"


def main() -> int:
    """Run the groups in turn; what is not there is skipped and said so."""
    given = _arguments()
    if given.sync_ms:
        slow_sync.restart(given.sync_ms)
    rows: list[Row] = []
    skipped: list[str] = []
    with Machine(is_bare=given.bare) as machine:
        for name in given.only or (BARE if given.bare else GROUPS):
            begun = time.monotonic()
            try:
                found = importlib.import_module(f"bench.group_{name}").measure(machine, given.quick)
            except Skip as missing:
                skipped.append(f"{name}: {missing}")
                print(f"SKIPPED {skipped[-1]}", flush=True)
                continue
            for row in found:
                print(row.line(), flush=True)
            rows += found
            print(f"        ({name}: {time.monotonic() - begun:.0f} s)", flush=True)
    _write(given.json or RESULTS / f"{datetime.now(UTC):%Y%m%d-%H%M%S}.json", rows, skipped)
    below = [row.name for row in rows if row.verdict == "below half"]
    if below:
        print(f"Below half of the target: {', '.join(below)}")
    return 1 if below else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measures Tallystick on this machine.")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, and a log of 100,000 events")
    parser.add_argument("--only", nargs="+", choices=(*GROUPS, *LONG), metavar="NAME", help=_CHOICE)
    parser.add_argument(
        "--bare", action="store_true", help=f"a host without rules in the place of ours: {' '.join(BARE)}"
    )
    parser.add_argument(
        "--sync-ms", type=float, metavar="N", help="each sync takes at least this long, for all that is compared"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the result goes (default: bench/results/)")
    given = parser.parse_args()
    if given.bare and not set(given.only or BARE) <= set(BARE):
        parser.error(f"--bare measures {' and '.join(BARE)} only")
    return given


_CHOICE = f"some of {', '.join(GROUPS)}; only where they are named: {', '.join(LONG)}"


def _write(path: Path, rows: list[Row], skipped: list[str]) -> None:
    about = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "bare": "--bare" in sys.argv,
        "sync_us": int(os.environ.get(slow_sync.VARIABLE, "0")),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    result = {**about, "skipped": skipped, "rows": [row.told() for row in rows]}
    path.write_bytes(msgspec.json.format(msgspec.json.encode(result)))
    print(f"Written: {path}")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
