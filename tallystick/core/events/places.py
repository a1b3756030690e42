"""Events of parties and places."""

from __future__ import annotations

from tallystick.core.events.words import Happened
from tallystick.core.model import CheckSpec
from tallystick.core.offers import Offer


class HostStarted(Happened, frozen=True, kw_only=True):
    """A host opened this log."""

    host_version: str
    boot_id: str
    recovered: bool = False


class HostModeChanged(Happened, frozen=True, kw_only=True):
    """`stop`, `pause`, `resume` or `drain` of everything."""

    mode: str


class PersonJoined(Happened, frozen=True, kw_only=True):
    """A person is known to this host; the first one is its owner."""

    person_id: str
    alias: str
    owner: bool = False
    uid: int | None = None
    display_name: str = ""


class WorkspaceRegistered(Happened, frozen=True, kw_only=True):
    """A directory became a workspace."""

    workspace_id: str
    name: str
    root: str = ""
    repository: str = ""
    common_directory: str = ""
    evidence: str = ""


class CoordinatorChosen(Happened, frozen=True, kw_only=True):
    """Who routes what nobody was named for."""

    agent: str


class ProviderAllowed(Happened, frozen=True, kw_only=True):
    """A person consented that this workspace's content goes to that model provider."""

    provider: str


class CheckAdded(Happened, frozen=True, kw_only=True):
    """A person registered a check with the environment of their shell."""

    check: CheckSpec


class CheckRemoved(Happened, frozen=True, kw_only=True):
    """A check is no longer offered for new tasks."""

    name: str


class WorkspaceModeChanged(Happened, frozen=True, kw_only=True):
    """`stop`, `pause`, `resume` or `drain` of a workspace."""

    mode: str


class CapabilityPinned(Happened, frozen=True, kw_only=True):
    """A person said which agent alone holds a capability in a workspace; no agent: whoever offers it does again."""

    capability: str
    domain: str = ""
    agent: str = ""


class SpokeTokenMade(Happened, frozen=True, kw_only=True):
    """A person let a spoke on another machine come in by a token, for this workspace. What opens the door is not told:
    neither the secret nor its digest."""

    token_id: str
    """Its file has it too: a file of an older token of that name opens nothing."""
    name: str
    """The `spoke_id` that it is for."""
    domains: tuple[str, ...] = ()
    replaced: bool = False
    """There was an older one of that name, for this workspace or another."""


class SpokeTokenRemoved(Happened, frozen=True, kw_only=True):
    """The token of a spoke opens nothing any more."""

    name: str
    detail: str = ""
    """Why the host took it back by itself; empty where a person took it away."""


class AgentJoined(Happened, frozen=True, kw_only=True):
    """An agent joined a workspace, or joined again. None = not given: left as it was."""

    agent_id: str
    alias: str
    workspace: str
    owner: str
    connection: str | None = None
    """mailbox, command, client, drive, wake or spoke."""
    argv: tuple[str, ...] | None = None
    client: str | None = None
    strengths: str | None = None
    capabilities: tuple[str, ...] | None = None
    """Offers that are only a name."""
    offers: tuple[Offer, ...] | None = None
    domains: tuple[str, ...] | None = None
    provider: str | None = None
    inbound: str | None = None
    display_name: str | None = None
    concurrency: int | None = None
    seconds: int | None = None
    network: bool | None = None
    search_path: str | None = None
    virtual_env: str | None = None
    model: str | None = None
    required: str | None = None
    """The enforcement level below which no session of it is started: E2 or E3; empty for none."""
    allow_provider: bool = False


class AgentRenamed(Happened, frozen=True, kw_only=True):
    """Same id, other name; the old name is a tombstone."""

    alias: str


class AgentLeft(Happened, frozen=True, kw_only=True):
    """The agent left one workspace, or for good when `workspace` is empty."""

    workspace: str = ""


class AgentModeChanged(Happened, frozen=True, kw_only=True):
    """`stop`, `pause`, `resume` or `drain` of an agent."""

    mode: str


class SessionOpened(Happened, frozen=True, kw_only=True):
    """One execution of an agent began. `door` tells which connection it has."""

    session_id: str
    agent: str
    door: str
    parent: str = ""
    incarnation: str = ""


class SessionModeChanged(Happened, frozen=True, kw_only=True):
    """`stop`, `pause`, `resume` or `drain` of a session."""

    mode: str


class SessionEnded(Happened, frozen=True, kw_only=True):
    """That execution is over; its id is never used again."""

    detail: str = ""


class SessionLinked(Happened, frozen=True, kw_only=True):
    """Which conversation of its client a session is: the client's own id for it, and the file it keeps of it."""

    history: str
    transcript: str = ""


class SessionDescribed(Happened, frozen=True, kw_only=True):
    """What runs in a session that the host drives: programs with their versions, and how far their gate was proved."""

    client: str
    version: str = ""
    protocol: int = 0
    mode: str = ""
    """The client's own mode in which it asks before it acts."""
    model: str = ""
    directory: str = ""
    level: str = "E1"
    detail: str = ""
    """What the level rests on."""
    forks: bool = False
    """The client says that it can fork a conversation."""


class PresenceChanged(Happened, frozen=True, kw_only=True):
    """A session went live or its lease lapsed. Heartbeats themselves are not events."""

    presence: str


class InboxSeen(Happened, frozen=True, kw_only=True):
    """A reader acknowledged items after its own flush: (task id, version of the task) each."""

    party: str
    items: tuple[tuple[str, int], ...]


class CommandRefused(Happened, frozen=True, kw_only=True):
    """An authenticated actor was refused; at most one a minute per actor, object and trace."""

    command: str
    code: str
    object: str
    message: str
    count: int = 1


PlaceEvents = (
    HostStarted
    | HostModeChanged
    | PersonJoined
    | WorkspaceRegistered
    | CoordinatorChosen
    | ProviderAllowed
    | CheckAdded
    | CheckRemoved
    | WorkspaceModeChanged
    | CapabilityPinned
    | SpokeTokenMade
    | SpokeTokenRemoved
    | AgentJoined
    | AgentRenamed
    | AgentLeft
    | AgentModeChanged
    | SessionOpened
    | SessionModeChanged
    | SessionEnded
    | SessionLinked
    | SessionDescribed
    | PresenceChanged
    | InboxSeen
    | CommandRefused
)
