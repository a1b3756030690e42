"""A real host whose `cli` does simple things on demand: `probe.py [BOUNDS-JSON]`, its home in TALLY_HOME."""

import asyncio
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tallystick import bootstrap  # noqa: E402
from tallystick.core.errors import ErrorCode, Refused  # noqa: E402
from tallystick.edge.api import ApiServer  # noqa: E402
from tallystick.edge.api.connection import Bounds  # noqa: E402

BOUNDS = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
SERVER = []


async def echo(call):
    return call.arguments


async def facts(call):
    f = call.facts
    return {"uid": f.uid, "pid": f.pid, "listener": f.listener, "ancestors": list(f.ancestors), "door": f.door}


async def boom(call):
    raise ValueError("secret detail")


async def refuse(call):
    raise Refused(ErrorCode(call.arguments["code"]), "It is so.", "Do otherwise.")


async def until_interrupted(call):
    await call.out("waiting\n")
    await call.interrupted()
    return 130


async def forever(call):
    while True:
        await call.out("x" * 10000 + "\n")


async def hang(call):
    await asyncio.Event().wait()


async def slow_write(call):
    await call.interrupted()
    (Path(bootstrap.wire.home()) / "written").touch()


async def listen(call):
    await SERVER[0].listen_session(call.arguments["session"], Path(call.arguments["path"]))
    return True


async def unlisten(call):
    await SERVER[0].close_session(call.arguments["session"])
    return True


async def tasks(call):
    return len(SERVER[0].tasks)


async def hook(call):
    asked = call.arguments["args"]
    if asked["event"] == "wait":
        return {"err": f"wake up ✓ {asked['raw'].strip()}\n", "exit": 2}
    return {"out": f"1 unseen for {call.arguments['client']} ✓ {asked['raw'].strip()}\n"}


async def cli(call):
    verb, *words = call.arguments["argv"]
    return await {
        "words": words_of,
        "ask": ask,
        "stdin": stdin,
        "flush": flush,
        "wait": lambda call, _: until_interrupted(call),
        "forever": lambda call, _: forever(call),
        "boom": lambda call, _: boom(call),
        "hang": lambda call, _: hang(call),
        "refuse": refused_cli,
        "facts": facts_of,
        "exit": leave,
        "status": lambda call, _: ok(call),
        "long": long,
        "surrogate": surrogate,
    }[verb](call, words)


async def words_of(call, words):
    await call.out(" ".join(words) + "\n")
    await call.err("to stderr ✓\n")
    return 0


async def ask(call, words):
    reply = await call.ask("Sure? ")
    await call.out(f"reply {reply!r}\n")
    return 0


async def stdin(call, words):
    data = await call.stdin()
    await call.out(f"{len(data)} bytes, sum {sum(data)}\n")
    return 0


async def flush(call, words):
    await call.out("before\n")
    await call.out(f"flushed {await call.flushed()}\n")
    return 0


async def refused_cli(call, words):
    raise Refused(ErrorCode.CONFLICT, " ".join(words) or "It is taken ✓.", "Take another.")


async def facts_of(call, words):
    f = call.facts
    shown = {
        "env": f.environment,
        "cwd": f.directory,
        "columns": f.terminal.columns,
        "tty": [f.terminal.stdin, f.terminal.stdout, f.terminal.stderr],
        "ancestors": list(f.ancestors),
    }
    await call.out(json.dumps(shown) + "\n")
    return 0


async def frames(call):
    """Every frame comes back, `many` times; holds the client for good after one that says so."""
    count = 0

    def take(frame):
        nonlocal count
        count += 1
        if frame == "hold":
            call.hold(True)
        asyncio.get_running_loop().create_task(answer(frame))

    async def answer(frame):
        for _ in range(frame.get("many", 1) if isinstance(frame, dict) else 1):
            try:
                await call.frame(frame)
            except ConnectionError:
                return

    call.listen(take)
    await call.interrupted()
    return count


async def last_words(call):
    """Three frames and the end, all in one turn of the loop."""
    for number in range(3):
        await call.frame(number)
    return 3


async def leave(call, words):
    return int(words[0])


async def ok(call):
    await call.out("from the host\n")
    return 0


async def long(call, words):
    await call.out("é" * int(words[0]) + "\n")
    return 0


async def surrogate(call, words):
    await call.out("a\udcffb\n")
    return 0


plain_build = bootstrap.build


def build(settings):
    host = plain_build(settings)
    server = next(service for service in host.services if isinstance(service, ApiServer))
    SERVER.append(server)
    server.bounds = Bounds(**BOUNDS)
    server.ops.update(
        echo=echo,
        frames=frames,
        last_words=last_words,
        facts=facts,
        boom=boom,
        refuse=refuse,
        until_interrupted=until_interrupted,
        forever=forever,
        hang=hang,
        cli=cli,
        listen=listen,
        unlisten=unlisten,
        slow_write=slow_write,
        tasks=tasks,
        hook=hook,
    )
    return host


bootstrap.build = build
sys.exit(bootstrap.main(["up"]))
