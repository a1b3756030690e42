"""A caller for tests: `caller.py REQUEST-JSON` (arguments of `sail`). Prints one line: the result, or the error."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tallystick import ReachClient, ReachError


async def main(request: dict[str, Any]) -> dict[str, Any]:
    """Ask once."""
    try:
        found = await ReachClient().sail(**request)
    except ReachError as error:
        return {"error": error.code, "message": error.message, "task_id": error.task_id, "link": error.link}
    return {"payload": found.payload, "duplicate": found.duplicate, "task_id": found.task_id}


if __name__ == "__main__":
    answer = asyncio.run(main(json.loads(sys.argv[1])))
    os.write(1, json.dumps(answer).encode() + b"\n")
