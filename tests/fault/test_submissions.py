"""Ten thousand submissions while the host is killed with -9 again and again: what was acknowledged is there, once."""

from __future__ import annotations

import json
import random
import threading
from collections import Counter

import pytest

from tests.support.hosts import SECONDS, Raw, eventually
from tests.support.places import Place

SUBMISSIONS = 10_000
CLIENTS = 4
PIPELINE = 100
KILLS = 8


class Client(threading.Thread):
    """Submits its share in pipelined batches, and again with the same keys for whatever was not acknowledged."""

    def __init__(self, number, place, is_up):
        super().__init__(name=f"client {number}", daemon=True)
        self.place, self.is_up = place, is_up
        self.left = [f"{number}-{i}" for i in range(SUBMISSIONS // CLIENTS)]
        self.to = f"@worker{number}"
        self.acknowledged = {}
        self.refused = []

    def run(self):
        while self.left:
            assert self.is_up.wait(SECONDS)
            try:
                with Raw(self.place.socket) as line:
                    while self.left:
                        self.batch(line, self.left[:PIPELINE])
            except (OSError, ValueError, AssertionError):
                continue  # the host died: some of the batch may be recorded and some not

    def batch(self, line, keys):
        asked = dict(enumerate(keys, 1))
        lines = ({"id": i, "op": "ask", "args": {"address": self.to, "title": key, "key": key}}
                 for i, key in asked.items())
        line.bytes(b"".join(json.dumps(one).encode() + b"\n" for one in lines))
        while asked:
            answer = line.line()
            if answer is None:
                raise OSError("the host is gone")
            key = asked.pop(answer["id"])
            if "result" in answer:
                self.acknowledged[key] = answer["result"]["task_id"]
                self.left.remove(key)
            else:
                self.refused.append(answer["error"])


@pytest.mark.timeout(280)
def test_every_acknowledged_submission_is_there_once():
    dice = random.Random(20)
    with Place() as place:
        is_up = threading.Event()
        assert place.start()
        for number in range(CLIENTS):
            place.call("join", name=f"worker{number}")
        place.leave()
        clients = [Client(number, place, is_up) for number in range(CLIENTS)]
        is_up.set()
        for client in clients:
            client.start()
        for moment in sorted(dice.sample(range(SUBMISSIONS // 20, SUBMISSIONS * 9 // 10), KILLS)):
            eventually(lambda moment=moment: done(clients) >= moment, f"{moment} acknowledgements", 120)
            is_up.clear()
            place.kill()
            assert place.start()
            is_up.set()
        for client in clients:
            client.join(120)
        assert done(clients) == SUBMISSIONS
        place.stop()
        events, works = place.audit()
    assert [client.refused for client in clients] == [[]] * CLIENTS
    keys = Counter(work.task.key for work in works.values())
    assert set(keys.values()) == {1}
    by_key = {work.task.key: task for task, work in works.items()}
    assert {key: task for client in clients for key, task in client.acknowledged.items()} == by_key
    assert sum(type(e.event).__name__ == "TaskSubmitted" for e in events) == SUBMISSIONS


def done(clients):
    return sum(len(client.acknowledged) for client in clients)
