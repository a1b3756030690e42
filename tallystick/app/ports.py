"""What the shell needs of the world, as protocols. `bootstrap` injects the real ones, tests inject their own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Protocol

import msgspec

from tallystick.core.directory import Agent, SessionState
from tallystick.core.events import Text
from tallystick.core.identity import Prefix
from tallystick.core.model import NO_OUTPUT, Artifact, CheckRun, GitReference, Output
from tallystick.core.offers import Offer
from tallystick.core.state import Work
from tallystick.core.wake import Wake


class Clock(Protocol):
    """Time, in the two ways the host needs it."""

    def now(self) -> float:
        """UTC seconds since 1970 by the wall clock."""
        ...

    def boot(self) -> float:
        """Seconds on the boot-time clock: goes on while the machine sleeps, never steps back."""
        ...

    def boot_id(self) -> str:
        """Names this boot of the machine; another value means every lease of before is over."""
        ...


class NewId(Protocol):
    """Makes a new id: a prefix and a ULID that never sorts before an earlier one."""

    def __call__(self, prefix: Prefix) -> str: ...


# --- running things ---------------------------------------------------------------------------------------------


class WayOut(msgspec.Struct, frozen=True):
    """The one way out of a sandbox whose network is its own: a Unix socket of the host, where an HTTP proxy answers."""

    socket: str
    doors: tuple[tuple[str, int], ...] = ()
    """(host, port) of this machine's loopback that the proxy leads to: inside, the same lead there."""


class Sandbox(msgspec.Struct, frozen=True):
    """What a child process may see and do. Paths are absolute; masks are applied before the binds."""

    read_only: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    network: bool = False
    way_out: WayOut | None = None
    """With no `network`: what it reaches nevertheless. It is never started without a sandbox then."""
    required: bool = False
    """Refuse to start rather than run without a sandbox."""
    nests: bool = False
    """What runs in it starts sandboxes of its own. See `Runner.nests`."""


class Job(msgspec.Struct, frozen=True):
    """One child process group to be run to its end. The command of a `gated` one begins once it is let go."""

    job_id: str
    argv: tuple[str, ...]
    directory: str
    environment: dict[str, str]
    stdin: bytes = b""
    seconds: float = 600.0
    output_bytes: int = 10 * 1024 * 1024
    grace_seconds: float = 5.0
    sandbox: Sandbox | None = None
    """None: run without one, after a person's yes."""
    label: str = ""
    """What it is for (a task id), kept with the job so that a later host can tell."""
    log: str = ""
    """Where its errors go, for one that is spoken with."""
    gated: bool = False


class JobResult(msgspec.Struct, frozen=True):
    """How a job ended; with nothing but its id, one that never began. UTC seconds; output up to the job's limit."""

    job_id: str
    exit_code: int | None = None
    signal: int | None = None
    started_at: float = 0.0
    ended_at: float = 0.0
    stdout: bytes = b""
    stderr: bytes = b""
    stdout_info: Output = NO_OUTPUT
    stderr_info: Output = NO_OUTPUT
    level: str = "none"
    """`E3` with an operating-system sandbox, `none` without."""
    seconds: float = 0.0
    """The time limit that it had."""
    timed_out: bool = False
    canceled: bool = False
    not_started: str = ""
    """Why it could not be started; then everything else is empty."""


class Pipes(msgspec.Struct, frozen=True):
    """A running job that the host speaks with. What comes and goes are bytes; its errors go to the log it was given."""

    pid: int
    level: str
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class RunningJob(msgspec.Struct, frozen=True):
    """A job of an earlier host that was found again."""

    job_id: str
    label: str
    pid: int
    started_at: float
    finished: bool


class Runner(Protocol):
    """Runs child processes in groups of their own, with limits, in a sandbox where there is one."""

    async def run(self, job: Job) -> JobResult:
        """Run to the end. Cancelling the awaiting task does NOT end the job: use `end`."""
        ...

    async def started(self, job_id: str) -> int:
        """Wait until the command of a job runs, or its keeper may let it: that process, 0 where it came not so far."""
        ...

    def let_go(self, job_id: str) -> None:
        """The command of a gated job begins; nothing where it has."""
        ...

    async def open(self, job: Job) -> Pipes:
        """Start a job that the host speaks with, and that ends with it. Refused where it cannot be started."""
        ...

    async def adopt(self, job_id: str) -> JobResult:
        """Wait for a job that an earlier host started, and collect its result."""
        ...

    def found(self) -> list[RunningJob]:
        """The jobs of earlier hosts that still run or ended uncollected."""
        ...

    async def end(self, job_id: str) -> bool:
        """End its whole process tree (request, grace, kill). True when no process of it is left."""
        ...

    def forget(self, job_id: str) -> None:
        """Remove what was kept of a collected job."""
        ...

    def explain(self) -> str:
        """The level in words: what works here, or why there is none."""
        ...

    def nests(self) -> bool:
        """Whether a job in a sandbox can start one of its own here, found by really doing it once."""
        ...

    def level(self) -> str:
        """The sandbox level jobs get here: `E3` or `none`, found by really starting one."""
        ...


# --- git --------------------------------------------------------------------------------------------------------


class Repository(msgspec.Struct, frozen=True):
    """A git repository as found from a directory. All paths resolved."""

    root: str
    """Top level of the work tree that the directory is in."""
    common_directory: str
    """The git directory shared by all its work trees."""
    main_root: str
    """Top level of the main work tree (the same as `root` unless that is a linked one)."""
    evidence: str
    """Digest over root commits and object format: tells forks from strangers. "" without commits, or where shallow."""


class Located(msgspec.Struct, frozen=True):
    """Where a work tree is, found by paths alone: no git was asked, nothing in it is trusted yet. Paths resolved."""

    root: str
    common_directory: str


class Change(msgspec.Struct, frozen=True):
    """One path that differs between two commits."""

    path: str
    status: str
    """Git's letter: A M D R T."""
    size: int
    blank: bool
    """The file is empty or white space only."""


class Snapshot(msgspec.Struct, frozen=True):
    """Uncommitted work as a commit in the host's mirror."""

    commit: str
    base: str
    files: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    """What is there and cannot be part of it: pipes, devices, nested repositories, unreadable or very large files."""


class WorkState(msgspec.Struct, frozen=True):
    """Where a work tree stands."""

    commit: str
    changed: tuple[str, ...]
    """Some of the paths that differ from the commit, or may; empty: none does."""


class Line(msgspec.Struct, frozen=True):
    """Where a line of a file comes from."""

    commit: str
    original_path: str
    original_line: int
    text: str
    uncommitted: bool


class Git(Protocol):
    """Every git call of the host, hardened, in one place. `repository` is the host's id (`rep_…`) for its own bare
    mirror; `root` is a path of the user's work tree. Nothing is ever written to the user's `.git`."""

    async def locate(self, directory: Path) -> Located | None:
        """The work tree that a directory is in, at the cost of a few file look-ups."""
        ...

    async def find(self, directory: Path) -> Repository | None:
        """The repository a directory is in, or None."""
        ...

    async def fetch(self, repository: str, root: Path, revision: str) -> str:
        """Bring the commit that `revision` names in `root` into the mirror; its full id. Refused if there is none."""
        ...

    async def refer(self, repository: str, commit: str, path: str, lines: tuple[int, int] | None) -> GitReference:
        """A reference to a path (or "" for the whole tree) at a commit in the mirror."""
        ...

    async def read(self, reference: GitReference) -> bytes:
        """The bytes, read once, whose digest matches. Refused otherwise."""
        ...

    async def snapshot(self, repository: str, root: Path) -> Snapshot:
        """Uncommitted work of a work tree, untracked files included, as a commit in the mirror."""
        ...

    async def state(self, directory: Path) -> WorkState | None:
        """Which commit a work tree stands at, and whether there is work beyond it; None outside of any."""
        ...

    async def tip(self, directory: Path, revision: str) -> str:
        """The commit that a name stands for in the repository around a directory; empty where it names none now."""
        ...

    async def has(self, repository: str, commit: str) -> bool:
        """Whether the mirror holds the commit."""
        ...

    async def changes(self, repository: str, base: str, commit: str) -> list[Change]:
        """What differs from `base` to `commit`."""
        ...

    async def is_ancestor(self, repository: str, ancestor: str, commit: str) -> bool:
        """Whether `commit` descends from `ancestor` (or is it)."""
        ...

    async def check_out(
        self, repository: str, commit: str, target: Path, protect: tuple[str, ...] = (), base: str = ""
    ) -> None:
        """A clean work tree of `commit` at `target` (a plain directory with a `.git` of its own that names the mirror);
        paths under `protect` are taken from `base` instead. No filter or hook of the repository runs."""
        ...

    async def remove(self, target: Path) -> None:
        """Remove a work tree made by `check_out`."""
        ...

    async def trace_line(self, root: Path, path: str, line: int) -> Line:
        """Where a line of a file in a work tree comes from (blame)."""
        ...

    async def log_between(self, repository: str, base: str, commit: str) -> list[str]:
        """The commits reachable from `commit` and not from `base`, oldest first."""
        ...

    async def trailers(self, repository: str, commits: Iterable[str]) -> dict[str, str]:
        """The task id that each commit claims in a `Tally-Task:` trailer of its message; others are left out."""
        ...

    async def version(self) -> str:
        """The version of git."""
        ...


# --- waking -----------------------------------------------------------------------------------------------------


class Summons(msgspec.Struct, frozen=True, kw_only=True):
    """What an entry is given to wake a session with, and is asked about later."""

    wake: Wake
    agent: Agent
    session: SessionState | None
    """The session that sleeps; None where a command starts a new one."""
    text: str
    """What it is told: to look again, at which ids. The id of the wake stands in it."""
    items: tuple[str, ...] = ()
    """Ids of what it is about."""
    directory: str = ""
    """Where to start something new: the root of the workspace; empty for none."""


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a wake now: an outcome of `core.wake.WAKES`."""

    outcome: str
    turn: str = ""
    """The client's own id of the turn."""
    detail: str = ""
    """What was seen, for people; one line."""


class Waker(Protocol):
    """A formal entry by which a sleeping session of one client can be told to look again. Never puts anything into a
    turn that runs, never types, never answers what the client asks its person."""

    async def reachable(self, agent: Agent, session: SessionState | None) -> bool:
        """Whether the entry would take a wake now. Cheap, and never starts anything."""
        ...

    async def wake(self, summons: Summons) -> Admission:
        """Hand it over, once. The answer claims no more than the entry said."""
        ...

    async def outcome(self, summons: Summons) -> Admission:
        """What comes after `summons.wake.outcome`: waits until there is something to say. After a restart of the host
        it is asked about what an earlier one intended: `unverified` where nothing shows."""
        ...

    async def end(self, summons: Summons) -> bool:
        """A person stopped the agent: end what runs only because of this wake, and take back what has not begun. False
        where nothing was ended; a turn in a session of a person is theirs."""
        ...


class History(Protocol):
    """A client's own record of a conversation, as proof of what entered it."""

    def proof(self, transcript: str, history: str, words: tuple[str, ...]) -> str:
        """Where the newest record stands (file and record) by which one of the words entered that conversation from
        outside; empty where none does. Reads a bounded part of one file of that client, and nothing else."""
        ...


# --- bodies and effects -----------------------------------------------------------------------------------------


class Blobs(Protocol):
    """Content-addressed bytes: outputs of checks, artifacts, large bodies."""

    def put(self, data: bytes) -> str:
        """Keep the bytes durably; their sha256."""
        ...

    def get(self, sha256: str) -> bytes:
        """The bytes, verified on read. Raises `Refused` where they are absent, erased or damaged."""
        ...

    def has(self, sha256: str) -> bool:
        """Whether they are here."""
        ...


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """What a transport is given to hand over: everything the recipient may see."""

    delivery_id: str
    task_id: str
    intent_id: str
    """Passed outward as idempotency key."""
    session: str
    fence: int
    agent: Agent
    work: Work
    text: Text
    """The words of the assignment."""
    offer: Offer | None = None
    """What of the agent's serves it (see `core.route`): by its schemas it is judged. None where nothing of it does."""
    caller: str = ""
    """Who asks, as people call it: `@name`."""
    note: str = ""
    """Changes that were asked for, or an answer, when this is not the first time."""
    purpose: str = ""
    """Why a session that holds it is prompted once more: answer, refuted or resumed; empty for the work itself."""
    adopted: bool = False
    """An earlier host dispatched it; take it back rather than begin again."""


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """How a push ended."""

    outcome: str
    """`submitted`, `failed`, `returned` (never begun), `unverified` (lost), `ended` (by us), `told` (by it)."""
    detail: str = ""
    code: str = ""
    """Why it failed, in one word of the recipient, where it gave one."""
    text: str = ""
    commit: str = ""
    run: CheckRun | None = None
    artifacts: tuple[Artifact, ...] = ()
    changed: tuple[str, ...] = ()


class Plan(msgspec.Struct, frozen=True):
    """Where a delivery would go now, and for how long it is leased."""

    session: str
    lease_seconds: float


Began = Callable[[str, str], Awaitable[bool]]
"""Records that a recipient has begun: witness, evidence. False where the task has moved on: it must not begin then."""


class Transport(Protocol):
    """An outward door for one kind of connection."""

    reconciles: bool
    """It finds out by itself what became of deliveries that an earlier host dispatched: `send` with `adopted`."""

    async def plan(self, agent: Agent, work: Work) -> Plan | None:
        """The session that would get this; None while none is free."""
        ...

    def unplanned(self, plan: Plan) -> None:
        """A plan that came to nothing."""
        ...

    async def send(self, envelope: Envelope, began: Began) -> Receipt:
        """Hand it over and stay until it ended. `began(witness, evidence)` is called once the recipient has it."""
        ...

    async def end(self, delivery_id: str) -> bool:
        """End it, also if it is only about to begin. True when nothing of it runs any more."""
        ...

    async def settled(self, delivery_id: str) -> None:
        """Its outcome is recorded: whatever was kept to report it again may go."""
        ...

    def found(self) -> list[str]:
        """Deliveries dispatched by an earlier host that still run or ended uncollected."""
        ...


class Drive(msgspec.Struct, frozen=True):
    """A client that the host can drive: its name, its command line where the table has none, whose model it uses."""

    client: str
    argv: tuple[str, ...] | None
    provider: str


class Drives(Protocol):
    """Knows which clients can be driven."""

    def check(self, named: str) -> Drive:
        """The client that a person names. Refused where there is none, or what drives it is not installed."""
        ...


class Notifier(Protocol):
    """Shows something on a person's desktop. That the system took it does not mean that anybody saw it."""

    async def show(self, key: str, title: str, text: str) -> str:
        """Hand a notice to the system; empty where it took it, else why it could not."""
        ...

    async def clear(self, key: str) -> None:
        """Take one away again; nothing where it is gone already."""
