"""A client process that stays alive: reads a list of calls per line, makes them, tells how each went and when."""

import json
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from tallystick import wire

line = wire.connect(start=False, path=wire.socket_path(wire.home()), seconds=60)
print("ready", flush=True)
for words in sys.stdin:
    told = []
    for call in json.loads(words):
        begun = time.monotonic_ns()
        try:
            answer = {"result": line.call(call.pop("op"), **call)}
        except wire.WireError as error:
            answer = {"code": error.code, "message": error.message}
        told.append({**answer, "begun": begun, "ended": time.monotonic_ns()})
    print(json.dumps(told), flush=True)
