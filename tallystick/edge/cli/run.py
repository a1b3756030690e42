"""One command being answered: what was typed, who asks, and the ways to answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from tallystick.app.calls import Call
from tallystick.app.desk.interface import Desk, Guest
from tallystick.core.errors import Refused
from tallystick.edge.cli.errors import encode, error_data, exit_code, show_error
from tallystick.edge.cli.page import Page, Paint, Sheet, page_for
from tallystick.edge.cli.parse import Parsed, Usage
from tallystick.edge.cli.spec import Verb
from tallystick.edge.cli.wait import closing, wait_for

F = TypeVar("F")
T = TypeVar("T")

Status = Callable[[], Awaitable[dict[str, Any]]]
Stop = Callable[[], Awaitable[None]]


class Host(msgspec.Struct, frozen=True):
    """What the command line needs of the process around it."""

    status: Status
    stop: Stop
    now: Callable[[], datetime]


class Run:
    """One command. Verbs get one of these and answer an exit code."""

    def __init__(self, desk: Desk, host: Host, verbs: Mapping[str, Verb], call: Call, parsed: Parsed) -> None:
        self.desk = desk
        self.host = host
        self.verbs = verbs
        self.call = call
        self.parsed = parsed
        self.json = parsed.json
        self.page: Page = page_for(call.facts, host.now(), parsed.as_name)
        self._stdin: str | None = None

    @property
    def interactive(self) -> bool:
        """Whether a person can be asked something on the way."""
        terminal = self.call.facts.terminal
        return terminal.stdin and terminal.stderr and not self.json

    async def guest(self, *, register: bool = False) -> Guest:
        """Who asks."""
        return await self.desk.guest(
            self.call.facts, as_name=self.parsed.as_name, workspace=self.parsed.workspace, register=register
        )

    async def give(self, form: F, render: Callable[[Sheet, F], None]) -> None:
        """The answer: the form as it stands for `--json`, else as `render` writes it."""
        await self.call.out(encode(form) if self.json else self._rendered(form, render))

    async def tell(self, form: F, render: Callable[[Sheet, F], None]) -> None:
        """Something on the way, for people only."""
        if not self.json:
            await self.call.out(self._rendered(form, render))

    def _rendered(self, form: F, render: Callable[[Sheet, F], None]) -> str:
        sheet = Sheet(self.page)
        render(sheet, form)
        return sheet.text()

    async def fail(self, error: Refused | Usage, about: str = "") -> int:
        """Show an error; its exit code."""
        if self.json:
            await self.call.out(encode(error_data(error)))
        else:
            await self.call.err(error_text(self.page, self.call, error, about))
        return exit_code(error)

    async def warn(self, message: str, *command: str) -> None:
        """Say on standard error what did not come about, and the command to go on with. People only."""
        if not self.json:
            sheet = Sheet(error_page(self.page, self.call))
            sheet.line("tally: ", message)
            if command:
                sheet.line("→ ", self.page.command(*command), indent=2)
            await self.call.err(sheet.text())

    async def text(self, name: str) -> str:
        """A text that was typed; `-` reads standard input."""
        value = self.parsed.text(name)
        return await self.stdin() if value == "-" else value

    async def stdin(self) -> str:
        """Standard input as text, without its last newline. Read once."""
        if self._stdin is None:
            try:
                self._stdin = (await self.call.stdin()).decode("utf-8")
            except UnicodeDecodeError as error:
                message = f"Standard input is not valid UTF-8 (at byte {error.start})."
                raise Usage(message, "Send text as UTF-8; hand over other files with --file.") from None
        return self._stdin.removesuffix("\n")

    async def confirm(self, *question: str | Paint) -> bool:
        """Ask yes or no where a person can be asked; elsewhere the desk decides alone."""
        if not self.interactive:
            return True
        sheet = Sheet(self.page)
        sheet.line(*question, " [y/N] ")
        answer = await self.call.ask("\n".join(sheet.lines))
        return (answer or "").strip().lower() in ("y", "yes")

    async def each(self, names: tuple[str, ...], act: Callable[[str], Awaitable[F]], render: Render[F]) -> list[F]:
        """The same for several tasks: a result of its own for each. Raises `SomeFailed` where one failed."""
        if len(names) == 1:
            form = await act(names[0])
            await self.give(form, render)
            return [form]
        return await self._several(names, act, render)

    async def _several(self, names: tuple[str, ...], act: Callable[[str], Awaitable[F]], render: Render[F]) -> list[F]:
        done: list[F] = []
        results: list[Any] = []
        worst = 0
        for name in names:
            try:
                form = await act(name)
            except Refused as error:
                worst = max(worst, exit_code(error))
                results.append({"task_id": name, **error_data(error)})
                if not self.json:
                    await self.fail(error, about=name)
                continue
            done.append(form)
            results.append(form)
            await self.tell(form, render)
        if self.json:
            await self.call.out(encode({"results": results}))
        if worst:
            raise SomeFailed(1, done)
        return done

    async def wait(self, work: Coroutine[Any, Any, T], seconds: float | None = None) -> T:
        """Wait while the client stays; see `wait_for`."""
        return await wait_for(self.call, work, seconds)

    async def stream(self, items: AsyncIterator[F], give: Callable[[F], Awaitable[None]]) -> None:
        """Hand on each item as it comes, until it ends or the client leaves."""

        async def pump() -> None:
            async with closing(items) as stream:
                async for item in stream:
                    await give(item)

        await self.wait(pump())


Render = Callable[[Sheet, F], None]


class SomeFailed(Exception):
    """Of several things asked at once not all were done; each was already answered."""

    def __init__(self, code: int, done: list[Any]) -> None:
        super().__init__()
        self.code = code
        self.done = done


def error_page(page: Page, call: Call) -> Page:
    """The page for standard error, which may be another terminal than standard output, or none."""
    terminal = call.facts.terminal
    if terminal.stderr == terminal.stdout:
        return page
    streams = msgspec.structs.replace(terminal, stdout=terminal.stderr)
    other = page_for(msgspec.structs.replace(call.facts, terminal=streams), page.now, "")
    return msgspec.structs.replace(other, tally=page.tally)


def error_text(page: Page, call: Call, error: Refused | Usage, about: str = "") -> str:
    """An error as people see it on standard error."""
    sheet = Sheet(error_page(page, call))
    show_error(sheet, error, about)
    return sheet.text()
