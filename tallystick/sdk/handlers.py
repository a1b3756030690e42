"""Calling a handler, whatever kind it is, and what comes of it."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeAlias

from tallystick.sdk.capability import Capability
from tallystick.sdk.current import IN_HAND, InHand
from tallystick.sdk.errors import ReachError
from tallystick.sdk.failure import Thrown, failure_of
from tallystick.sdk.message import ReachMessage
from tallystick.sdk.payload import plain
from tallystick.sdk.tables import Outcome
from tallystick.sdk.tracing import handling

log = logging.getLogger("tallystick.sdk")

Handler: TypeAlias = Callable[[ReachMessage], Awaitable[Any]] | Callable[[ReachMessage], Any]
"""What `handler_map` holds: a coroutine function, or a plain function, which runs in a thread."""


def is_coroutine(handler: Handler) -> bool:
    """Whether calling it runs on the loop; otherwise it gets a thread."""
    call = getattr(handler, "__call__", None)  # noqa: B004 - of an object whose class defines it as a coroutine
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(call)


async def outcome_of(
    handler: Handler, capability: Capability, message: ReachMessage, spoke_id: str, threads: ThreadPoolExecutor
) -> Outcome:
    """Run the handler to its end. Whatever it raises becomes an outcome: `sys.exit` ends this message and not the
    program, which is not the handler's. A cancellation from outside goes on, and so does KeyboardInterrupt: that is the
    person's."""
    IN_HAND.set(InHand(spoke_id, message.task_id, message.trace_id, message.header.traceparent))
    where = f"capability {capability.name}"
    try:
        with handling(message, spoke_id):
            found = await _called(handler, message, threads)
            payload = plain(found, f"result of {where}")
            capability.checks.check_result(payload, where)
    except ReachError as error:
        outcome = failure_of(error, message.msg_id)
        log.warning("The handler of %s refused message %s: %s", capability.name, message.msg_id, outcome.message)
        return outcome
    except Thrown as thrown:
        log.exception("The handler of %s failed on message %s", capability.name, message.msg_id, exc_info=thrown.cause)
        return failure_of(thrown.cause, message.msg_id)
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        if isinstance(error, asyncio.CancelledError) and _is_canceled():
            raise
        log.exception("The handler of %s failed on message %s", capability.name, message.msg_id)
        return failure_of(error, message.msg_id)
    return Outcome(payload=payload)


def _is_canceled() -> bool:
    """Whether somebody cancelled the task of this handler; else it raised that itself, or awaited what was."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _called(handler: Handler, message: ReachMessage, threads: ThreadPoolExecutor) -> Any:
    if is_coroutine(handler):
        return await handler(message)
    context = copy_context()
    found = await asyncio.get_running_loop().run_in_executor(threads, context.run, _returned, handler, message)
    if isinstance(found, Thrown):
        raise found.cause if isinstance(found.cause, ReachError) else found
    return await found if inspect.isawaitable(found) else found


def _returned(handler: Handler, message: ReachMessage) -> Any:
    """In the thread: nothing that is raised there passes through a future. A StopIteration would never arrive, and
    `sys.exit` would end the loop, which is not the handler's."""
    try:
        return handler(message)
    except BaseException as error:  # noqa: BLE001
        return Thrown(error)
