"""The network between a spoke and its host is cut, in a network namespace of the test's own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from tests.support.harbour import Harbour, open_gate
from tests.support.hosts import eventually

LISTEN = "127.0.0.1:8765"
HOUR = 3600.0
UP = 'ip link set lo up && exec "$@"'


def lacks():
    """What the machine has not; empty where all is there."""
    missing = [program for program in ("unshare", "nsenter", "ip") if shutil.which(program) is None]
    if missing:
        return f"install {' and '.join(missing)} (util-linux, iproute2)"
    if os.geteuid():
        return "run as root"
    tried = subprocess.run(["unshare", "-n", "ip", "link", "set", "lo", "up"], capture_output=True, check=False)
    return "allow network namespaces here" if tried.returncode else ""


LACKS = lacks() if sys.platform == "linux" else "use Linux"
pytestmark = pytest.mark.skipif(bool(LACKS), reason=f"THE NETWORK WAS NOT CUT. To have it tested: {LACKS}")


class Island(Harbour):
    """Host and spoke in a network of their own, joined by nothing but its loopback; callers come by the socket."""

    def __init__(self, **limits):
        super().__init__(**limits)
        config = self.path / "config.toml"
        config.write_text(f'listen = "{LISTEN}"\n' + config.read_text())
        self.prefix = ("unshare", "-n", "sh", "-c", UP, "sh")
        self.wishes = {"clock": True}
        self.offer["hub_url"] = f"http://{LISTEN}"

    def inside(self, strait):
        return () if strait == "caller" else ("nsenter", "-t", str(self.host.pid), "-n")

    def cut(self):
        subprocess.run([*self.inside("spoke"), "ip", "link", "set", "lo", "down"], check=True)

    def mend(self):
        subprocess.run([*self.inside("spoke"), "ip", "link", "set", "lo", "up"], check=True)


@pytest.fixture
def island():
    with Island(retry_seconds=[0.1] * 5) as made:
        made.revive()
        yield made


def test_a_result_that_a_cut_holds_up_arrives_when_it_is_mended(island):
    gate = island.gate("held")
    call = island.ask("held", gate=gate)
    eventually(lambda: island.done("held"), "the handler")
    island.cut()
    open_gate(gate)
    island.mend()
    assert (island.answer(call)["payload"], island.done("held")) == ("held", 1)


def test_what_is_asked_during_a_cut_is_done_once_when_it_is_mended(island):
    island.cut()
    call = island.ask("during")
    eventually(lambda: any(task["title"] for task in island.call("board")["tasks"]), "that it is stored")
    island.mend()
    assert (island.answer(call)["payload"], island.done("during")) == ("during", 1)


def test_a_cut_longer_than_every_lease_leaves_it_unverified_until_the_spoke_is_back(island):
    gate = island.gate("long")
    island.ask("long", gate=gate)
    eventually(lambda: island.done("long"), "the handler")
    (task,) = [row["task_id"] for row in island.call("board")["tasks"]]
    island.cut()
    island.shift("asleep", HOUR)
    island.until(task, "input_required/unverified")
    open_gate(gate)
    island.mend()
    island.until(task, "completed")
    assert island.done("long") == 1
