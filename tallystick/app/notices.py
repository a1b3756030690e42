"""Desktop notices: one for each decision, risk, result, or agent that must be opened; taken away once it is settled.

A notice is no delivery and no fact: that the system took it does not mean that anybody saw it. What is missed here
still stands in the inbox, so nothing of it is kept over a restart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tallystick.app.desk.diagnosis import Finding
from tallystick.app.diagnostics import Diagnostics
from tallystick.app.heads import Heads
from tallystick.app.ports import Notifier
from tallystick.core import events as ev
from tallystick.core.attention import Attention, Concern, Standing, standings
from tallystick.core.identity import short
from tallystick.core.rows import Row

_KEPT = 1000
"""How many notices are remembered, so that they can be taken away; older ones stay until the person closes them."""
_LENGTH = 200


class Notices:
    """A service: follows what is committed, and shows what a person is to be told, one after the other."""

    def __init__(self, heads: Heads, notifier: Notifier, diagnostics: Diagnostics) -> None:
        self._heads = heads
        self._notifier = notifier
        self._diagnostics = diagnostics
        self._due: asyncio.Queue[Standing] = asyncio.Queue()
        self._shown: dict[str, str] = {}
        """By subject: the key of the notice that is shown for it."""
        self._told: set[str] = set()
        """Subjects that were put in the queue and not taken away since."""
        self._opened: set[str] = set()
        self._task: asyncio.Task[None] | None = None
        self._taken = 0
        self.is_waited_for: Callable[[str], bool] = lambda _task_id: False
        """Whether a program of the person waits for the outcome of that task."""
        self.trouble = ""
        """Why the last notice could not be shown; empty where it could."""

    async def start(self) -> None:
        """Begin to show."""
        self._task = asyncio.create_task(self._run(), name="notices")

    async def stop(self) -> None:
        """Show nothing more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def committed(self, recorded: ev.Recorded, rows: tuple[Row, ...]) -> None:
        """Rows were committed: note what a person is to be told, or no longer."""
        for standing in standings(rows, self._heads.committed_directory, recorded.actor.id):
            wanted = standing.attention
            if wanted is not None and wanted.concern is Concern.RESULT and self.is_waited_for(wanted.task_id):
                continue  # whoever waits for it is told at once, and by what it waits with
            if wanted is not None or standing.subject in self._told:
                self._tell(standing)

    def _tell(self, standing: Standing) -> None:
        if standing.attention is None:
            self._told.discard(standing.subject)
        else:
            self._told.add(standing.subject)
        self._due.put_nowait(standing)

    def must_be_opened(self, agent: str, task_id: str, title: str) -> None:
        """An agent has work, and nothing can start it: its person is told once, until it was heard of again."""
        if agent in self._opened:
            return
        self._opened.add(agent)
        directory = self._heads.committed_directory
        attention = Attention(
            key=f"open/{agent}",
            concern=Concern.OPEN,
            person=directory.owner_of(agent),
            task_id=task_id,
            title=title,
            what=f"waits for {directory.alias_of(agent)}: open it, nothing else can",
        )
        self._tell(Standing(f"open/{agent}", attention))

    def was_heard(self, agent: str) -> None:
        """An agent is there again: what said that it must be opened goes."""
        if agent in self._opened:
            self._opened.discard(agent)
            self._tell(Standing(f"open/{agent}", None))

    async def examine(self, _workspace: str) -> list[Finding]:
        """For doctor: whether the desktop took the last notice. Whether anybody saw it cannot be known."""
        saw = self.trouble or (f"it took the last of {self._taken}" if self._taken else "nothing had to be shown yet")
        fix = "Log in to a desktop, or set desktop = false in config.toml; the inbox has it all." * bool(self.trouble)
        level = "warning" if self.trouble else "ok"
        did = "looked whether the desktop takes notices"
        return [Finding(check="desktop", ok=not self.trouble, level=level, did=did, saw=saw, fix=fix)]

    # --- one after the other ------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            standing = await self._due.get()
            try:
                await self._settle(standing)
            except Exception as error:  # noqa: BLE001 - a desktop that fails takes nothing else with it
                self._diagnostics.failure("notice", error)

    async def _settle(self, standing: Standing) -> None:
        before = self._shown.get(standing.subject)
        attention = standing.attention
        if attention is not None and before == attention.key:
            return
        if before is not None:
            del self._shown[standing.subject]
            await self._notifier.clear(before)
        if attention is not None and self._is_here(attention.person):
            await self._show(standing.subject, attention)

    def _is_here(self, person: str) -> bool:
        """This desktop is the owner's: other persons of the host have theirs elsewhere."""
        return person == self._heads.committed_directory.owner

    async def _show(self, subject: str, attention: Attention) -> None:
        number = f" ({short(attention.task_id)})" if attention.task_id else ""
        text = f"{attention.title} {attention.what}"[:_LENGTH] + number
        trouble = await self._notifier.show(attention.key, f"Tallystick: {attention.concern.value}", text)
        if trouble and trouble != self.trouble:
            self._diagnostics.record("notice not shown", detail=trouble)
        self.trouble = trouble
        if not trouble:
            self._taken += 1
            self._shown[subject] = attention.key
            if len(self._shown) > _KEPT:
                del self._shown[next(iter(self._shown))]
