"""Whose turn it is: exactly one party for an open task, nobody for a closed one."""

from __future__ import annotations

from tallystick.core.directory import Agent, Directory
from tallystick.core.identity import CAPABILITY_PREFIX
from tallystick.core.model import Reason as R
from tallystick.core.model import TaskState as S
from tallystick.core.state import Task


def turn_of(task: Task, directory: Directory) -> str:
    """The party that has to act next, as an id or `cap:Name`; empty for a closed task."""
    if not task.open:
        return ""
    if task.state is S.SUBMITTED:
        return _submitted(task, directory)
    if task.state is S.WORKING:
        return _able(task.holder or task.assignee, task, directory, commands=True)
    if task.reason is R.QUESTION:
        return _able(task.requester, task, directory)
    if task.reason is R.REVIEW:
        return reviewer_of(task, directory)
    return _person(task, directory)


def reviewer_of(task: Task, directory: Directory) -> str:
    """Who reviews: whoever was named, else the requester; never the one who did the work."""
    for party in (task.reviewer, task.requester, task.subject, directory.owner):
        if party and party != task.assignee and can_take_turn(party, directory, task.workspace):
            return party
    return directory.owner


def can_take_turn(party: str, directory: Directory, workspace: str) -> bool:
    """Whether a party can be asked to judge: a person, or an agent that is still a member and is not a command."""
    if party in directory.persons:
        return True
    agent = directory.agents.get(party)
    return agent is not None and agent.judges_in(workspace)


def _submitted(task: Task, directory: Directory) -> str:
    if task.reason is R.UNASSIGNED:
        place = directory.workspaces.get(task.workspace)
        coordinator = place.coordinator if place else ""
        return coordinator if can_take_turn(coordinator, directory, task.workspace) else _person(task, directory)
    if task.reason is R.COMPENSATING:
        return _able(task.on_failure, task, directory, commands=True)
    return _able(task.assignee, task, directory, commands=True)


def _able(party: str, task: Task, directory: Directory, *, commands: bool = False) -> str:
    """The party itself while it can act, else the requester, else the subject."""
    if party.startswith(CAPABILITY_PREFIX) or can_take_turn(party, directory, task.workspace):
        return party
    agent = directory.agents.get(party)
    if commands and agent is not None and (task.workspace in agent.workspaces or _serves(agent, task)):
        return party
    if task.requester != party and can_take_turn(task.requester, directory, task.workspace):
        return task.requester
    return _person(task, directory)


def _serves(agent: Agent, task: Task) -> bool:
    """Whether it is here for a capability alone, which may be offered in the default workspace."""
    return bool(task.capability) and not agent.deleted


def _person(task: Task, directory: Directory) -> str:
    return task.subject if task.subject in directory.persons else directory.owner
