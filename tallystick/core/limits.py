"""The settings: one table of limits and times, with their defaults. Docs are generated from it.

A person may set any of them in `TALLY_HOME/config.toml` under `[limits]`. May live here: numbers and what they mean.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

Meaning = msgspec.Meta


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Every limit of the host. Durations are in seconds, sizes in bytes."""

    brief_bytes: Annotated[int, Meaning(ge=256, description="a task's brief in all")] = 8 * 1024
    message_bytes: Annotated[int, Meaning(ge=1024, description="one message body")] = 1024 * 1024
    title_characters: Annotated[int, Meaning(ge=16, description="a task's title")] = 200
    name_characters: Annotated[int, Meaning(ge=8, description="a key, provider, capability or display name")] = 200
    strengths_characters: Annotated[int, Meaning(ge=16, description="what an agent is good at")] = 2000
    suspect_seconds: Annotated[float, Meaning(gt=0, description="silence after which it is shown as suspect")] = 45.0
    presence_seconds: Annotated[float, Meaning(gt=0, description="silence after which presence lapses")] = 120.0
    pull_lease_seconds: Annotated[float, Meaning(gt=0, description="lease of a take by CLI or MCP")] = 30 * 60.0
    command_lease_margin_seconds: Annotated[
        float, Meaning(ge=0, description="added to a command agent's time limit for its lease")
    ] = 60.0
    key_retention_seconds: Annotated[float, Meaning(gt=0, description="how long dedup keys are kept")] = 7 * 86400.0
    body_retention_seconds: Annotated[float, Meaning(gt=0, description="how long bodies are kept")] = 90 * 86400.0
    settle_after_seconds: Annotated[
        float, Meaning(gt=0, description="from the end of a trace's last part to its settling")
    ] = 24 * 3600.0
    retry_seconds: Annotated[tuple[float, ...], Meaning(description="waits between attempts to dispatch")] = (
        2.0,
        4.0,
        8.0,
        16.0,
        32.0,
    )
    compensation_rounds: Annotated[int, Meaning(ge=0, description="rounds of compensation before giving up")] = 2
    mailbox_queue: Annotated[int, Meaning(ge=1, description="open deliveries to one recipient")] = 10_000
    push_queue: Annotated[
        int, Meaning(ge=1, description="open deliveries of one sender to one recipient that is pushed to")
    ] = 100
    heartbeat_seconds: Annotated[float, Meaning(gt=0, description="between two heartbeats of a spoke")] = 15.0
    reach_bytes: Annotated[int, Meaning(ge=256, description="payload of a message to a capability")] = 256 * 1024
    reference_bytes: Annotated[
        int, Meaning(ge=1024, description="one reference of a message that its holder reads through the host")
    ] = 16 * 1024 * 1024
    reach_seconds: Annotated[
        float, Meaning(gt=0, description="how long the sender of a message to a capability waits, unless it says so")
    ] = 30.0
    anchor_queue: Annotated[int, Meaning(ge=1, description="messages that wait for one capability")] = 1000
    anchor_seconds: Annotated[
        float, Meaning(gt=0, description="how long a message without a deadline waits for a capability")
    ] = 7 * 86400.0
    dispatch_parts: Annotated[int, Meaning(ge=1, description="parts of one dispatch; together they are one child")] = 64
    rounds: Annotated[int, Meaning(ge=1, description="messages of a task without artifact, check or human input")] = 6
    depth: Annotated[int, Meaning(ge=0, description="how deep tasks may delegate")] = 3
    open_children: Annotated[int, Meaning(ge=1, description="open children of one task")] = 4
    question_reminder_seconds: Annotated[
        float, Meaning(gt=0, description="age of a question or review when it is shown as overdue")
    ] = 30 * 60.0
    permission_seconds: Annotated[float, Meaning(gt=0, description="a permission's time-out, then denied")] = 15 * 60.0
    wait_seconds: Annotated[float, Meaning(gt=0, description="the longest single wait of a client call")] = 45.0
    check_seconds: Annotated[float, Meaning(gt=0, description="a check's time limit")] = 10 * 60.0
    check_output_bytes: Annotated[int, Meaning(ge=1024, description="kept of a check's streams")] = 10 * 1024 * 1024
    command_seconds: Annotated[float, Meaning(gt=0, description="a command agent's time limit")] = 30 * 60.0
    command_output_bytes: Annotated[int, Meaning(ge=1024, description="kept of each stream of a command agent")] = (
        10 * 1024 * 1024
    )
    session_start_seconds: Annotated[
        float, Meaning(gt=0, description="how long a driven client may take to begin a session")
    ] = 120.0
    session_lease_seconds: Annotated[
        float, Meaning(gt=0, description="lease of a driven session, renewed while its process lives")
    ] = 60.0
    session_idle_seconds: Annotated[
        float, Meaning(gt=0, description="after which the process of an idle driven session ends; it is loaded again")
    ] = 10 * 60.0
    turn_note_seconds: Annotated[
        float, Meaning(gt=0, description="the shortest time between two notes of what a turn says")
    ] = 2.0
    wake_batch_seconds: Annotated[
        float, Meaning(ge=0, description="what comes meanwhile is one wake; an ask with --wake does not wait")
    ] = 2.0
    wake_busy_seconds: Annotated[float, Meaning(gt=0, description="wait after a busy client; costs no attempt")] = 30.0
    wake_retry_seconds: Annotated[
        tuple[float, ...], Meaning(description="waits between attempts to wake for the same items")
    ] = (5.0, 30.0, 120.0, 600.0)
    wake_proof_seconds: Annotated[
        float, Meaning(gt=0, description="how long a client may take to show in its history that it was woken")
    ] = 60.0
    wake_turn_seconds: Annotated[
        float, Meaning(gt=0, description="the longest turn that is waited for; then the wake is unverified")
    ] = 2 * 3600.0
    watches: Annotated[int, Meaning(ge=0, description="watched sources of one agent")] = 16
    watch_seconds: Annotated[float, Meaning(gt=0, description="between two looks at what is watched")] = 2.0
    sessions_seconds: Annotated[float, Meaning(gt=0, description="between two looks at clients that run")] = 5.0
    diagnostics_files: Annotated[int, Meaning(ge=1, description="rotated files of diagnostics")] = 5
    diagnostics_bytes: Annotated[int, Meaning(ge=1024, description="size of one such file")] = 10 * 1024 * 1024
    clock_skew_seconds: Annotated[float, Meaning(gt=0, description="clock skew that doctor warns of")] = 60.0
