"""The verbs that move a task."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tallystick.app.desk import forms
from tallystick.app.desk.interface import Desk, Guest
from tallystick.core.errors import Refused
from tallystick.core.model import Reason, TaskState
from tallystick.edge.cli import render_task
from tallystick.edge.cli.asking import ask, submit
from tallystick.edge.cli.parse import Usage, nearest
from tallystick.edge.cli.run import Run, SomeFailed
from tallystick.edge.cli.spec import FENCE, ID, IDS, MAYBE_TEXT, REVISION, TEXT, Argument, Option, Verb

_TASKS = "Tasks"


async def take(run: Run) -> int:
    """`tally take`: what was printed and flushed counts as read."""
    guest = await run.guest()
    key = run.parsed.text("dedup-key")
    code = 0
    try:
        done = await run.each(
            run.parsed.many("id"), lambda task: run.desk.take(guest, task, key=key), render_task.taken
        )
    except SomeFailed as failed:
        done, code = failed.done, failed.code
    if done and await run.call.flushed():
        for form in done:
            await _acknowledge(run, run.desk.recorded(guest, form.task_id, form.delivery_id))
    return code


async def _acknowledge(run: Run, work: Awaitable[None]) -> None:
    """The verb itself is done and shown by now: a refusal of the acknowledgement is said, and changes nothing else."""
    try:
        await work
    except Refused as error:
        await run.warn(f"It was shown, but does not count as read: {error.message}")


Move = Callable[[Desk, Guest, str, str, Run], Awaitable[forms.Moved]]


def _mover(move: Move) -> Callable[[Run], Awaitable[int]]:
    """A verb that takes ID and TEXT and says where the task is then."""

    async def verb(run: Run) -> int:
        text = await run.text("text")
        guest = await run.guest()
        await run.give(await move(run.desk, guest, run.parsed.text("id"), text, run), render_task.moved)
        return 0

    return verb


def _several(move: Move) -> Callable[[Run], Awaitable[int]]:
    """The same for several ids, each with a result of its own."""

    async def verb(run: Run) -> int:
        text = await run.text("text")
        guest = await run.guest()
        await run.each(run.parsed.many("id"), lambda task: move(run.desk, guest, task, text, run), render_task.moved)
        return 0

    return verb


async def progress(run: Run) -> int:
    """`tally progress`."""
    text, p = await run.text("text"), run.parsed
    fraction = _fraction(p.text("fraction")) if p.has("fraction") else None
    guest = await run.guest()
    moved = await run.desk.progress(guest, p.text("id"), text, fraction=fraction, fence=p.number("fence"))
    await run.give(moved, render_task.moved)
    return 0


def _fraction(text: str) -> float:
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise Usage(f"--fraction is a part of 1, not `{text}`.", "Write it as 0.5 or 50%.")
    return value


async def correct(run: Run) -> int:
    """`tally correct ID STATE[/REASON] TEXT`."""
    state, _, reason = run.parsed.text("state").partition("/")
    _one_of("state", state, [item.value for item in TaskState])
    _one_of("reason", reason, [item.value for item in Reason])
    text = await run.text("text")
    guest = await run.guest()
    await run.give(await run.desk.correct(guest, run.parsed.text("id"), state, reason, text), render_task.moved)
    return 0


def _one_of(what: str, word: str, known: list[str]) -> None:
    if word not in known:
        words = f"Use one of: {', '.join(filter(None, known))}."
        raise Usage(f"`{word}` is no {what}.", f"{nearest(word, known)} {words}".strip())


async def settle(run: Run) -> int:
    """`tally settle`."""
    guest = await run.guest()
    await run.give(await run.desk.settle(guest, run.parsed.text("trace")), render_task.moved)
    return 0


_TEXT_OPTION = Option("text", "What to say about it; - reads standard input.", "T")

VERBS: tuple[Verb, ...] = (
    Verb(
        name="ask",
        group=_TASKS,
        summary="Ask an agent, a person or a capability for work, and get a receipt.",
        example='tally ask @reviewer "Review the parser" --input src/parser.py:10-80 --wait 10m',
        run=ask,
        arguments=(
            Argument("ADDRESS", "Who: @name, @name/SESSION, cap:Name, @coordinator, @human.", completes="agent"),
            Argument("TITLE", "What is asked, in a few words."),
        ),
        options=(
            Option("body", "All that needs saying; - reads standard input.", "T|-"),
            Option(
                "input", "What it is about: PATH, PATH:10-20, a git revision, REV:PATH, blob:SHA256, URL.", "REF", True
            ),
            Option("expect", "What is wanted.", "EXPECT", choices=("change", "finding", "answer")),
            Option(
                "done-when",
                "The check that decides, by name; or a command after --.",
                "CHECK",
                completes="check",
                argv=True,
            ),
            Option("review-by", "Who reviews the result.", "NAME", completes="agent"),
            Option("session", "Which session of a driven agent.", "WHICH", choices=("reuse", "fresh", "fork")),
            Option("budget", "What driven sessions may use: tokens=N,cents=N,seconds=N.", "B"),
            Option("deadline", "When it must be handed in: 90s, 2h, 3d from now, or an ISO time.", "D"),
            Option("dedup-key", "A key of your business: asked again, the first result comes back.", "K"),
            Option("parent", "The task this is a part of, or none.", "ID|none", completes="task"),
            Option("on-failure", "Who mends it where it fails.", "ADDRESS", completes="agent"),
            Option("retry-of", "The task that this tries anew.", "ID", completes="task"),
            Option("intent", "What it is for.", "T"),
            Option("context", "What one has to know.", "T"),
            Option("known-fact", "What is certain already.", "T", True),
            Option("open-question", "What is still open.", "T", True),
            Option("wake", "Wake the recipient if it sleeps."),
            Option("wait", "Wait for the result, at most D where given.", "D", optional=True, kind="duration"),
        ),
        notes="With --wait it exits 0 when done, 1 failed, 4 when a person must act, 5 unverified, 124 on time-out.",
    ),
    Verb(
        name="take",
        group=_TASKS,
        summary="Take a task that is yours to do: claims it and prints the whole brief.",
        example="tally take 7f3a9c",
        run=take,
        arguments=(IDS,),
        options=(Option("dedup-key", "The same key again answers the same take.", "K"),),
        also=("claim",),
    ),
    Verb(
        name="question",
        group=_TASKS,
        summary="Ask the requester something; the task waits for the answer.",
        example='tally question 7f3a9c "Which of the two parsers?"',
        run=_mover(lambda d, g, task, text, run: d.question(g, task, text, fence=run.parsed.number("fence"))),
        arguments=(ID, TEXT),
        options=(FENCE,),
    ),
    Verb(
        name="answer",
        group=_TASKS,
        summary="Answer a question.",
        example='tally answer 7f3a9c "The new one."',
        run=_mover(lambda d, g, task, text, _: d.answer(g, task, text)),
        arguments=(ID, TEXT),
    ),
    Verb(
        name="progress",
        group=_TASKS,
        summary="Say how far it got; keeps the task yours.",
        example='tally progress 7f3a9c "half of the files are read" --fraction 0.5',
        run=progress,
        arguments=(ID, TEXT),
        options=(Option("fraction", "How much is done: 0.5 or 50%.", "F"), FENCE),
    ),
    Verb(
        name="submit",
        group=_TASKS,
        summary="Hand in the result, or say that it failed; waits for the check.",
        example='tally submit 7f3a9c --commit HEAD --text "Parser rewritten, tests added."',
        run=submit,
        arguments=(ID,),
        options=(
            Option("text", "The result in words; - reads standard input.", "T"),
            Option("failed", "It failed, and why; - reads standard input.", "T"),
            Option("commit", "The commit that holds the work.", "REF"),
            Option("file", "What it rests on: PATH or PATH:10-20.", "PATH", True),
            Option("review", "Ask for a review."),
            Option("no-wait", "Do not wait for the check."),
            FENCE,
        ),
        notes="Exits 1 when the check refutes the result, 4 when it could not be run and a person decides.",
    ),
    Verb(
        name="approve",
        group=_TASKS,
        summary="Accept the result that was last shown to you.",
        example="tally approve 7f3a9c",
        run=_several(
            lambda d, g, task, text, run: d.approve(g, task, revision=run.parsed.number("revision"), text=text)
        ),
        arguments=(IDS,),
        options=(REVISION, _TEXT_OPTION),
    ),
    Verb(
        name="changes",
        group=_TASKS,
        summary="Send the result back with what is to be changed.",
        example='tally changes 7f3a9c "Keep the old name as an alias."',
        run=_mover(lambda d, g, task, text, run: d.changes(g, task, text, revision=run.parsed.number("revision"))),
        arguments=(ID, TEXT),
        options=(REVISION,),
    ),
    Verb(
        name="refuse",
        group=_TASKS,
        summary="Refuse the result for good.",
        example='tally refuse 7f3a9c "It solves another problem."',
        run=_mover(lambda d, g, task, text, run: d.refuse(g, task, text, revision=run.parsed.number("revision"))),
        arguments=(ID, TEXT),
        options=(REVISION,),
    ),
    Verb(
        name="decline",
        group=_TASKS,
        summary="Do not take a task on, and say why.",
        example='tally decline 7f3a9c "Not my area: ask @docs."',
        run=_mover(lambda d, g, task, text, _: d.decline(g, task, text)),
        arguments=(ID, TEXT),
    ),
    Verb(
        name="release",
        group=_TASKS,
        summary="Give a taken task back; also confirms a cancel.",
        example='tally release 7f3a9c "Out of context; the notes are in the progress."',
        run=_mover(lambda d, g, task, text, run: d.release(g, task, text, fence=run.parsed.number("fence"))),
        arguments=(ID, MAYBE_TEXT),
        options=(FENCE,),
    ),
    Verb(
        name="cancel",
        group=_TASKS,
        summary="Cancel tasks that you asked for, and their children.",
        example='tally cancel 7f3a9c --text "No longer needed."',
        run=_several(lambda d, g, task, text, _: d.cancel(g, task, text)),
        arguments=(IDS,),
        options=(_TEXT_OPTION,),
    ),
    Verb(
        name="reassign",
        group=_TASKS,
        summary="Give an open task to somebody else.",
        example="tally reassign 7f3a9c @tester",
        run=_mover(lambda d, g, task, text, run: d.reassign(g, task, run.parsed.text("address"), text)),
        arguments=(ID, Argument("ADDRESS", "Who does it from now on.", completes="agent"), MAYBE_TEXT),
    ),
    Verb(
        name="correct",
        group=_TASKS,
        summary="Set the state of a task by hand, with the reason on record (a person only).",
        example='tally correct 7f3a9c completed/approved "Merged by hand."',
        run=correct,
        arguments=(ID, Argument("STATE", "STATE or STATE/REASON, such as failed/error."), TEXT),
    ),
    Verb(
        name="settle",
        group=_TASKS,
        summary="Close a trace whose every part has ended.",
        example="tally settle trc_7f3a9c",
        run=settle,
        arguments=(Argument("TRACE", "A trace, or a task of it.", completes="task"),),
    ),
)
"""In the order of the overview."""
