"""Commands to parties and places."""

from __future__ import annotations

from tallystick.core.commands.asked import Asked
from tallystick.core.model import CheckSpec
from tallystick.core.offers import Offer


class StartHost(Asked, frozen=True, kw_only=True):
    """A host opened the log."""

    host_version: str
    boot_id: str
    recovered: bool


class SetHostMode(Asked, frozen=True, kw_only=True):
    """`stop`, `pause`, `resume` or `drain` everything."""

    mode: str


class JoinPerson(Asked, frozen=True, kw_only=True):
    """Make a person known to this host."""

    person_id: str
    alias: str
    owner: bool = False
    uid: int | None = None
    display_name: str = ""


class RegisterWorkspace(Asked, frozen=True, kw_only=True):
    """Make a directory a workspace."""

    workspace_id: str
    name: str
    root: str = ""
    repository: str = ""
    common_directory: str = ""
    evidence: str = ""


class ChooseCoordinator(Asked, frozen=True, kw_only=True):
    """Say who routes in a workspace."""

    workspace_id: str
    agent: str


class AllowProvider(Asked, frozen=True, kw_only=True):
    """Consent that this workspace's content goes to a provider."""

    workspace_id: str
    provider: str


class AddCheck(Asked, frozen=True, kw_only=True):
    """Register (or replace) a check by its name."""

    workspace_id: str
    check: CheckSpec


class RemoveCheck(Asked, frozen=True, kw_only=True):
    """No longer offer a check."""

    workspace_id: str
    name: str


class SetWorkspaceMode(Asked, frozen=True, kw_only=True):
    """`stop`, `pause`, `resume` or `drain` a workspace."""

    workspace_id: str
    mode: str


class PinCapability(Asked, frozen=True, kw_only=True):
    """Say which agent alone holds a capability in a workspace; an empty `agent` takes that back."""

    workspace_id: str
    capability: str
    domain: str = ""
    agent: str = ""


class MakeSpokeToken(Asked, frozen=True, kw_only=True):
    """Let a spoke on another machine come in by a token, for one workspace and these domains; an older one of that name
    opens nothing any more."""

    workspace_id: str
    token_id: str
    name: str
    domains: tuple[str, ...] = ()


class RemoveSpokeToken(Asked, frozen=True, kw_only=True):
    """The token of that spoke opens nothing any more. `detail`: why the host takes it back by itself."""

    workspace_id: str
    name: str
    detail: str = ""


class JoinAgent(Asked, frozen=True, kw_only=True):
    """Join an agent to a workspace, or change what is given of one that joined before."""

    agent_id: str
    alias: str
    workspace: str
    connection: str | None = None
    argv: tuple[str, ...] | None = None
    client: str | None = None
    strengths: str | None = None
    capabilities: tuple[str, ...] | None = None
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


class RenameAgent(Asked, frozen=True, kw_only=True):
    """Give an agent another name; the id stays."""

    agent_id: str
    alias: str


class LeaveAgent(Asked, frozen=True, kw_only=True):
    """Leave one workspace, or for good when `workspace` is empty."""

    agent_id: str
    workspace: str = ""


class SetAgentMode(Asked, frozen=True, kw_only=True):
    """`stop`, `pause`, `resume` or `drain` an agent."""

    agent_id: str
    mode: str


class OpenSession(Asked, frozen=True, kw_only=True):
    """An execution of an agent begins."""

    session_id: str
    agent: str
    workspace: str
    door: str
    parent: str = ""
    incarnation: str = ""


class SetSessionMode(Asked, frozen=True, kw_only=True):
    """`stop`, `pause`, `resume` or `drain` a session."""

    session_id: str
    mode: str


class EndSession(Asked, frozen=True, kw_only=True):
    """That execution is over."""

    session_id: str
    detail: str = ""


class LinkSession(Asked, frozen=True, kw_only=True):
    """A hook tells which conversation of its client a session is."""

    session_id: str
    history: str
    transcript: str = ""


class DescribeSession(Asked, frozen=True, kw_only=True):
    """Say what runs in a session that the host drives."""

    session_id: str
    client: str
    version: str = ""
    protocol: int = 0
    mode: str = ""
    model: str = ""
    directory: str = ""
    level: str = "E1"
    detail: str = ""
    forks: bool = False


class NotePresence(Asked, frozen=True, kw_only=True):
    """A session went live or lapsed."""

    session_id: str
    presence: str


class MarkSeen(Asked, frozen=True, kw_only=True):
    """A reader acknowledged inbox items: (task id, version) each."""

    party: str
    items: tuple[tuple[str, int], ...]


class NoteRefusal(Asked, frozen=True, kw_only=True):
    """Record that an authenticated actor was refused."""

    command: str
    code: str
    object: str
    message: str
    count: int = 1


PlaceCommands = (
    StartHost
    | SetHostMode
    | JoinPerson
    | RegisterWorkspace
    | ChooseCoordinator
    | AllowProvider
    | AddCheck
    | RemoveCheck
    | SetWorkspaceMode
    | PinCapability
    | MakeSpokeToken
    | RemoveSpokeToken
    | JoinAgent
    | RenameAgent
    | LeaveAgent
    | SetAgentMode
    | OpenSession
    | SetSessionMode
    | EndSession
    | LinkSession
    | DescribeSession
    | NotePresence
    | MarkSeen
    | NoteRefusal
)
