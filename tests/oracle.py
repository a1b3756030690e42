"""The table of moves once more, written from the design's page on the model and not from the code that it judges."""

from __future__ import annotations

from fnmatch import fnmatchcase

LIVE = "submitted/* working working/* input_required/* auth_required/*"
ENDED = "completed/* failed/* canceled/* rejected/*"
BAD = "failed/error failed/refuted failed/exhausted submitted/compensating"
IN_HAND = "working working/answered"
WAITING = "submitted/new submitted/rework submitted/unassigned"

MOVES: dict[str, tuple[str, str, str]] = {
    # command: (who, from where, to where); "=" leaves it where it is
    "SubmitTask": ("anyone", "", "submitted/new submitted/unassigned auth_required/inbound rejected/by_policy"),
    "ClaimTask": ("assignee", "submitted/new submitted/rework", "working"),
    "ReportProgress": ("holder", IN_HAND, "="),
    "AskQuestion": ("holder", IN_HAND, "input_required/question"),
    "AnswerQuestion": (
        "requester person",
        "input_required/question input_required/frozen",
        "working/answered submitted/rework",
    ),
    "HandInResult": (
        "holder last_holder",
        f"{IN_HAND} submitted/rework input_required/unverified",  # there as a reconciler: a spoke that is back
        f"working/checking input_required/review completed/unreviewed {BAD}",
    ),
    "ReportCheck": ("host", "working/checking", f"working input_required/review completed/verified {BAD}"),
    "ApproveResult": ("reviewer", "input_required/review", "completed/approved"),
    "RequestChanges": ("reviewer", "input_required/review", "submitted/rework"),
    "RefuseResult": ("reviewer", "input_required/review", BAD),
    "DeclineTask": (
        "assignee holder",
        f"submitted/new submitted/rework {IN_HAND}",
        "rejected/by_agent rejected/by_person",
    ),
    "FailTask": (
        "holder host",
        f"{WAITING} {IN_HAND}",
        f"{BAD} failed/budget failed/no_route failed/offline",
    ),
    "AdmitTask": ("person", "auth_required/inbound", "submitted/new"),
    "TurnAwayTask": ("person host", "auth_required/inbound", "rejected/by_policy rejected/by_person"),
    "RequestPermission": (
        "holder host",
        f"submitted/new submitted/rework {IN_HAND} working/checking auth_required/permission",
        "auth_required/permission",
    ),
    "DecidePermission": (
        "person host",
        "auth_required/permission",
        "submitted/new submitted/rework working working/* auth_required/permission input_required/review",
    ),
    "CancelTask": ("requester person host", LIVE, "= canceled/by_requester canceled/by_person"),
    "ConfirmCancel": ("host", LIVE, "canceled/by_requester canceled/by_person"),
    "FinishCascade": ("host", f"{LIVE} {ENDED}", "="),
    "ForwardResult": ("host", "completed/*", "="),
    "ReassignTask": (
        "requester coordinator person host",
        LIVE,
        "submitted/new submitted/unassigned auth_required/inbound",
    ),
    "ReleaseTask": (
        "holder",
        f"{IN_HAND} input_required/question",
        "submitted/new canceled/by_requester canceled/by_person",
    ),
    "LapseLease": ("host", IN_HAND, "submitted/new canceled/by_requester canceled/by_person"),
    "RecoverLease": ("host", "submitted/new submitted/rework working working/* input_required/question", "="),
    "DoubtTask": ("host", "working working/* submitted/new submitted/rework", "input_required/unverified"),
    "SettleDoubt": (
        "person host",
        "input_required/unverified",
        f"submitted/rework completed/approved canceled/* {BAD}",
    ),
    "ExpireTask": (
        "host",
        f"{WAITING} {IN_HAND} input_required/question input_required/frozen input_required/unverified auth_required/*",
        "failed/expired input_required/unverified",
    ),
    "RestartTask": ("host", "submitted/compensating", "submitted/new submitted/compensating failed/exhausted"),
    "FreezeTask": ("host", LIVE, "input_required/frozen"),
    "CorrectTask": ("person", f"{LIVE} {ENDED}", f"{LIVE} {ENDED}"),
    "SettleTrace": ("requester person host", ENDED, "="),
    "EraseTexts": ("person host", f"{LIVE} {ENDED}", "="),
    "MoveTurn": ("host", LIVE, "="),
    "SetTaskMode": ("person requester", LIVE, "="),
    "RecordDelivery": ("assignee holder host", f"{LIVE} {ENDED}", "="),
    "LeaseDelivery": ("host", "submitted/new submitted/rework", "="),
    "BeginDelivery": ("host", "submitted/new submitted/rework", "working"),
    "ReturnDelivery": ("host", "submitted/new submitted/rework working", f"= submitted/new failed/offline {BAD}"),
    "DoubtDelivery": ("host", LIVE, "="),
    "StartTurn": ("host", f"submitted/new submitted/rework {IN_HAND}", "="),
    "NoteTurn": ("host", f"{LIVE} {ENDED}", "="),
    "EndTurn": ("host", f"{LIVE} {ENDED}", "="),
}

PERSONS_ALONE: dict[str, str] = {
    "ReassignTask": "input_required/unverified input_required/frozen",
    "AnswerQuestion": "input_required/frozen",
}
"""Where, of those who otherwise may, a person alone may."""

TURN: dict[str, str] = {
    "submitted/new": "assignee",
    "submitted/rework": "assignee",
    "submitted/unassigned": "coordinator",
    "submitted/compensating": "compensator",
    "working": "assignee",
    "working/answered": "assignee",
    "working/checking": "assignee",
    "input_required/question": "requester",
    "input_required/review": "reviewer",
    "input_required/frozen": "person",
    "input_required/unverified": "person",
    "auth_required/permission": "person",
    "auth_required/grant": "person",
    "auth_required/inbound": "person",
}

WITNESSES: dict[str, str] = {
    "accepted": "host",
    "persisted": "host",
    "claimed": "connection",
    "admitted": "policy",
    "recorded": "connection",
    "working": "connection",
    "submitted": "recipient",
}
"""Who may say a fact, and (by its order) after which others."""


def matches(place: str, patterns: str) -> bool:
    return any(fnmatchcase(place, pattern) for pattern in patterns.split())


def may_lead(command: str, before: str, after: str) -> bool:
    """Whether the page lets this command lead from `before` ("" for none) to `after`."""
    _, sources, targets = MOVES[command]
    if before and not matches(before, sources):
        return False
    return matches(after, targets) or (before == after and "=" in targets.split())


def is_open(place: str) -> bool:
    return matches(place, LIVE)


LINKS: dict[str, str] = {
    "IDLE": "PROVISIONED CONFIRMED SUNSET",
    "PROVISIONED": "REACHED IDLE CONFIRMED SUNSET",
    "REACHED": "CONFIRMED PROVISIONED IDLE SUNSET",
    "CONFIRMED": "SUNSET REACHED PROVISIONED IDLE",
    "SUNSET": "",
}
"""Which link may come after which, unless a person corrects by hand."""


def link(place: str, assignee: str, facts: list[str], settled: bool, interrupted: str) -> str:
    """The five names from the design's sentence about them. `facts` of the newest handing over of the work itself,
    `interrupted`: where a permission stopped it."""
    if not is_open(place):
        return "CONFIRMED" if place.startswith("completed/") and not settled else "SUNSET"
    if place in ("input_required/review", "working/checking"):
        return "CONFIRMED"
    if place == "auth_required/permission" and interrupted == "working/checking":
        return "CONFIRMED"
    held = "IDLE" if assignee == "" or assignee.startswith("cap:") else "PROVISIONED"
    if place.startswith("working"):
        return "REACHED"
    if place == "submitted/compensating" or held == "IDLE":
        return held
    return "REACHED" if "recorded" in facts or "working" in facts else held
