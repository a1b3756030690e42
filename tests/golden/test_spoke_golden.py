"""Each frame of REACH-RPC 1 in both directions, byte for byte.

`GOLDEN=write pytest tests/golden` writes the file anew; the difference is then read in the commit.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tallystick.core.errors import ErrorCode, Refused
from tallystick.core.model import BlobReference, ExternalReference, GitReference
from tallystick.edge.spoke import frames as f
from tallystick.edge.spoke.errors import ERRORS, refusal
from tallystick.edge.spoke.fetching import referred
from tallystick.edge.spoke.reading import read

FILE = Path(__file__).parent / "spoke" / "frames.json"
MSG, OWN = "msg_01JA0000000000000000000001", "msg_01JA0000000000000000000002"
DLV, TASK, TRACE = "dlv_01JA0000000000000000000003", "tsk_01JA0000000000000000000004", "trc_01JA0000000000000000000005"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OFFER = f.Offered(name="FileSummarize", domain="data-team", concurrency=2, schema='{"type":"object"}', standing=True)
COMMIT, SHA256 = "5e" * 20, "ab" * 32
REFERRED = tuple(
    referred(found)
    for found in (
        GitReference("rep_1", COMMIT, "README.md", "6f" * 20, SHA256, 4),
        GitReference("rep_1", COMMIT, "README.md", "6f" * 20, SHA256, 400, lines=(10, 20), lines_sha256="cd" * 32),
        BlobReference(SHA256, 262153, "notes.md"),
        ExternalReference("https://example.org/x"),
    )
)
SPOKE = "agent-file-summary-01"


def to_host() -> dict[str, f.Frame]:
    """One of each kind that the host takes, with every field that means something there."""
    held = (f.Held(delivery=DLV, fence=1, state="done"),)
    anchor = f.Anchor(spoke_id=SPOKE, store="9f1c", incarnation="4711@99", capabilities=(OFFER,), held=held)
    from_spoke = {"source_spoke": SPOKE}
    context = {"goal": "a report", "references": ["notes.md", "HEAD:README.md"]}
    payload = {"file_path": "/etc/hostname"}
    sail = f.Sail(payload=payload, context=context, domain="data-team", group="g-1", ack_timeout_ms=500)
    return {
        "ANCHOR": f.frame("ANCHOR", OWN, anchor, **from_spoke),
        "HEARTBEAT": f.frame("HEARTBEAT", OWN, f.Heartbeat(load={"FileSummarize": f.Load(running=1)}), **from_spoke),
        "ACK": f.frame("ACK", MSG, f.Ack(of="SAIL", delivery=DLV), **from_spoke),
        "BEGIN": f.frame("BEGIN", MSG, f.Begin(delivery=DLV, fence=1), **from_spoke),
        "PROGRESS": f.frame(
            "PROGRESS", MSG, f.Progress(delivery=DLV, fence=1, text="half", fraction=0.5), **from_spoke
        ),
        "FETCH": f.frame("FETCH", OWN, f.Fetch(delivery=DLV, index=1, offset=262144), **from_spoke),
        "RESULT": f.frame("RESULT", MSG, f.Result(delivery=DLV, fence=1, payload={"n": 1}, digest="ab"), **from_spoke),
        "FAIL": f.frame("FAIL", MSG, f.Failure(delivery=DLV, fence=1, code="failed", message="No file.", began=True)),
        "DRAIN": f.frame("DRAIN", OWN, f.Nothing(), **from_spoke),
        "SAIL": f.frame(
            "SAIL",
            MSG,
            sail,
            target_capability="FileSummarize@1.0",
            reply_to="Report",
            dedup_key="summary-20241215-01",
            timeout_ms=15000,
            trace_id=TRACE,
            traceparent=PARENT,
        ),
        "RETREAT": f.frame("RETREAT", MSG, f.Nothing()),
        "SETTLE": f.frame("SETTLE", OWN, f.Nothing(), trace_id=TRACE),
    }


def from_host() -> dict[str, f.Frame]:
    """One of each kind that the host sends."""
    deliver = f.Deliver(
        delivery=DLV,
        task_id=TASK,
        fence=1,
        attempt=2,
        revision=1,
        changes="Name the host, too.",
        payload={"file_path": "/etc/hostname"},
        context={"goal": "a report"},
        references=REFERRED,
        deadline_at=1735689600.0,
        caller="@alice",
        workspace="wsp_01JA0000000000000000000008",
    )
    anchored = f.Ack(
        of="ANCHOR",
        agent="agt_01JA0000000000000000000006",
        session="ses_01JA0000000000000000000007",
        workspace="wsp_01JA0000000000000000000008",
        heartbeat_seconds=15.0,
        lease_seconds=120.0,
        resume=(f.Resume(delivery=DLV, do="resend"),),
    )
    sailed = f.Ack(of="SAIL", task_id=TASK, trace_id=TRACE, link="IDLE", promise="live")
    part = f.Ack(of="FETCH", delivery=DLV, bytes=b"the words", size=262153, sha256=SHA256, more=True)
    absent = Refused(ErrorCode.NO_ROUTE, "Nobody offers FileSummarize.", "Start a spoke that does.")
    return {
        "ACK of ANCHOR": f.frame("ACK", OWN, anchored),
        "ACK of BEGIN": f.frame("ACK", MSG, f.Ack(of="BEGIN", delivery=DLV)),
        "ACK of RESULT": f.frame("ACK", MSG, f.Ack(of="RESULT", delivery=DLV)),
        "ACK of FETCH": f.frame("ACK", OWN, part),
        "ACK of SAIL": f.frame("ACK", MSG, sailed),
        "ACK of RETREAT": f.frame("ACK", MSG, f.Ack(of="RETREAT", link="PROVISIONED")),
        "SAIL": f.frame(
            "SAIL",
            MSG,
            deliver,
            target_capability="FileSummarize@1.0",
            timeout_ms=15000,
            trace_id=TRACE,
            traceparent=PARENT,
        ),
        "RETREAT": f.frame("RETREAT", MSG, f.Retreat(delivery=DLV, why="canceled")),
        "DRAIN": f.frame("DRAIN", OWN, f.Nothing()),
        "BEGIN": f.frame("BEGIN", MSG, f.Begun(task_id=TASK)),
        "PROGRESS": f.frame("PROGRESS", MSG, f.Told(task_id=TASK, text="half", fraction=0.5)),
        "RESULT": f.frame("RESULT", MSG, f.Outcome(task_id=TASK, payload={"n": 1}, spoke=SPOKE), trace_id=TRACE),
        "FAIL": f.frame("FAIL", MSG, refusal(absent, "SAIL"), trace_id=TRACE),
    }


def found() -> dict[str, Any]:
    def shown(frames: dict[str, f.Frame]) -> dict[str, Any]:
        return {name: json.loads(msgspec.json.encode(frame)) for name, frame in frames.items()}

    codes = {c.value: json.loads(msgspec.json.encode(refusal(Refused(c, "It is so.", "Do so.")))) for c in ErrorCode}
    return {"to the host": shown(to_host()), "from the host": shown(from_host()), "FAIL by code": codes}


def test_frames_are_as_they_were() -> None:
    text = json.dumps(found(), indent=1, ensure_ascii=False) + "\n"
    if os.environ.get("GOLDEN") == "write":
        FILE.parent.mkdir(exist_ok=True)
        FILE.write_text(text, "utf-8")
    assert FILE.read_text("utf-8") == text


def test_every_kind_of_frame_stands_in_the_file() -> None:
    assert to_host().keys() == f.TO_HOST.keys()
    assert {name.partition(" ")[0] for name in from_host()} == f.FROM_HOST.keys()
    assert ERRORS.keys() == set(ErrorCode)


@pytest.mark.parametrize("kind", sorted(f.TO_HOST))
def test_what_the_file_has_is_read_as_it_was_written(kind: str) -> None:
    assert read(json.loads(FILE.read_text("utf-8"))["to the host"][kind]) == to_host()[kind]
