"""The conversations that clients keep, read as proof: real samples, hostile paths, torn and endless files."""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path

import pytest

from tallystick.edge.clients import HISTORIES
from tallystick.edge.clients.claude.history import LAYOUT, trail
from tallystick.edge.clients.codex.history import trail as codex_trail
from tallystick.edge.clients.records import Layout, Transcript, is_own, lines

SAMPLES = Path(__file__).resolve().parents[1] / "support" / "samples"
HISTORY = "e9d024ab-a3ab-4238-8c6e-4f51ba2be58d"
PLACES = {
    "claude": f".claude/projects/-home-alice/{HISTORY}.jsonl",
    "codex": f".codex/sessions/2026/11/30/rollout-2026-11-30T22-35-16-{HISTORY}.jsonl",
    "pi": f".pi/agent/sessions/--home--/2026_{HISTORY}.jsonl",
    "gemini": ".gemini/tmp/work/chats/session-2026-11-30T22-35-e9d024ab.jsonl",
}


@pytest.fixture
def kept(tmp_path: Path):
    """A copy of a client's sample where that client would keep it."""

    def keep(client: str) -> str:
        path = tmp_path / PLACES[client]
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(SAMPLES / client / "transcript.jsonl", path)
        return str(path)

    return keep


@pytest.mark.parametrize("client", sorted(HISTORIES))
def test_what_a_tool_answered_is_proof_that_it_entered_the_conversation(kept, client: str) -> None:
    proof = HISTORIES[client].proof(kept(client), HISTORY, ("tsk_1",))
    assert Path(PLACES[client]).name in proof
    assert " at byte " in proof


@pytest.mark.parametrize("client", sorted(HISTORIES))
def test_what_only_the_model_wrote_proves_nothing(kept, client: str) -> None:
    path = kept(client)
    assert HISTORIES[client].proof(path, HISTORY, ("It gave tsk_1.",)) == ""
    assert HISTORIES[client].proof(path, HISTORY, ("nowhere to be found", "")) == ""


def test_an_idle_wake_and_one_inside_of_a_turn_are_seen_in_the_transcript_of_claude(kept) -> None:
    path = kept("claude")
    idle, busy = (trail(path, HISTORY, f"look at your inbox ({how})") for how in ("idle", "busy"))
    assert idle.started.startswith("user at byte")
    assert idle.ended
    assert busy.started.startswith("queued_command at byte")
    assert busy.ended
    assert busy.queued
    assert not idle.interrupted
    assert trail(path, HISTORY, "wak_never") == trail("/etc/passwd", HISTORY, "root")


def test_a_turn_that_somebody_interrupted_is_seen(kept) -> None:
    path = Path(kept("claude"))
    whole = path.read_text().splitlines(keepends=True)
    begun = next(n for n, line in enumerate(whole) if "(idle)" in line and json.loads(line)["type"] == "user")
    stopped = json.dumps({"type": "user", "message": {"content": [{"text": "[Request interrupted by user]"}]}})
    path.write_text("".join(whole[: begun + 1]) + stopped + "\n")
    assert trail(str(path), HISTORY, "(idle)").interrupted


def test_a_turn_with_our_message_and_its_end_are_seen_in_the_rollout_of_codex(kept) -> None:
    seen = codex_trail(kept("codex"), HISTORY, "msg-1")
    assert seen.started.startswith("UserMessage at byte")
    assert seen.ended
    assert seen.turn


def test_only_the_clients_own_place_with_the_conversations_name_is_opened(tmp_path: Path) -> None:
    good = f"/home/a/.claude/projects/x/{HISTORY}.jsonl"
    assert is_own(good, HISTORY, LAYOUT)
    for path, history in [
        (good, ""),
        (good, "another"),
        (f"/home/a/.claude/../.claude/projects/x/{HISTORY}.jsonl", HISTORY),
        (f"home/a/.claude/projects/x/{HISTORY}.jsonl", HISTORY),
        (f"/home/a/.claude/other/x/{HISTORY}.jsonl", HISTORY),
        (f"/home/a/projects/x/{HISTORY}.jsonl", HISTORY),
        (f"/home/a/.claude/projects/{HISTORY}.jsonl", HISTORY),
        ("/etc/shadow", "shadow"),
        ("", HISTORY),
    ]:
        assert not is_own(path, history, LAYOUT), path


def hostile(tmp_path: Path) -> Path:
    folder = tmp_path / ".claude" / "projects" / "x"
    folder.mkdir(parents=True)
    return folder / f"{HISTORY}.jsonl"


def said(path: Path) -> str:
    return HISTORIES["claude"].proof(str(path), HISTORY, ("wak_1",))


def test_no_link_leads_out_and_no_pipe_or_folder_is_opened(tmp_path: Path) -> None:
    secret = tmp_path / "secret.jsonl"
    secret.write_text('{"type": "user", "x": "wak_1"}\n')
    path = hostile(tmp_path)
    path.symlink_to(secret)
    assert said(path) == ""
    path.unlink()
    os.mkfifo(path)
    assert said(path) == ""
    path.unlink()
    path.mkdir()
    assert said(path) == ""
    path.rmdir()
    (path.parent / "real.jsonl").write_text(secret.read_text())
    path.symlink_to(path.parent / "real.jsonl")
    assert said(path)


def test_torn_strange_and_endless_lines_are_passed_over(tmp_path: Path) -> None:
    path = hostile(tmp_path)
    good = b'{"type": "user", "uuid": "u1", "x": "wak_1"}\n'
    strange = [b"[" * 100_000, b'["wak_1"]', b'"wak_1"', b"wak_1 \xff\xfe", b'{"type": "user", "x": "wak_1"']
    path.write_bytes(good + b"\n".join(strange) + b"\n" + b"x" * (9 * 1024 * 1024) + b"\n" + b'{"type": "us')
    assert said(path) == f"{HISTORY}.jsonl at byte 0: user u1"


def test_of_a_huge_file_only_the_end_is_read(tmp_path: Path) -> None:
    path = hostile(tmp_path)
    with path.open("wb") as file:
        file.write(b'{"type": "user", "x": "wak_1"}\n')
        file.truncate(64 * 1024 * 1024 * 1024)  # sparse
        file.seek(0, os.SEEK_END)
        file.write(b'\n{"type": "user", "x": "wak_2"}\n')
    assert said(path) == ""
    assert HISTORIES["claude"].proof(str(path), HISTORY, ("wak_2",))


def test_lines_from_the_end_are_the_lines_from_the_beginning(tmp_path: Path) -> None:
    roll = random.Random(7)
    path = tmp_path / "f"
    for _ in range(60):
        parts = [b"x" * roll.choice((0, 1, 5, 70_000, 300_000)) for _ in range(roll.randrange(12))]
        data = b"\n".join(parts) + b"\n" * roll.randrange(2)
        path.write_bytes(data)
        expected, offset = [], 0
        for line in data.split(b"\n"):
            if line:
                expected.append((offset, line))
            offset += len(line) + 1
        descriptor = os.open(path, os.O_RDONLY)
        try:
            assert list(lines(descriptor, 10**9)) == expected[::-1]
        finally:
            os.close(descriptor)


def test_a_variable_moves_the_place_of_a_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = Layout((".claude",), "CLAUDE_CONFIG_DIR", ("projects", "*"))
    path = tmp_path / "elsewhere" / "projects" / "x" / f"{HISTORY}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text('{"type": "user", "x": "wak_1"}\n')
    history = Transcript(layout, lambda data: str(data.get("type")))
    assert history.proof(str(path), HISTORY, ("wak_1",)) == ""
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "elsewhere"))
    assert history.proof(str(path), HISTORY, ("wak_1",))
