"""What the workers of other systems import: one task that answers with what it was given."""

from __future__ import annotations

import asyncio
import os
from typing import Any


def huey_tasks(path: str) -> Any:
    """The task on a huey whose every write is synced."""
    from huey import SqliteHuey

    made = SqliteHuey("bench", filename=path, fsync=True)

    @made.task(name="answer")
    def answer(body: str) -> str:
        return body

    return answer


def celery_task(port: int) -> tuple[Any, Any]:
    """The application and its task; a message is acknowledged after it was worked on."""
    from celery import Celery

    url = f"redis://127.0.0.1:{port}/0"
    app = Celery("bench", broker=url, backend=url)
    app.conf.update(task_acks_late=True, worker_prefetch_multiplier=1, broker_connection_retry_on_startup=True)

    @app.task(name="bench.answer")
    def answer(body: str) -> str:
        return body

    return app, answer


JOBS = 32
"""Jobs at once in one worker of procrastinate, and connections in its pool."""


def procrastinate_task(address: str, waiting: dict[int, asyncio.Future[str]]) -> tuple[Any, Any]:
    """The application and its task; the answer is a job too, and ends the sender's wait."""
    from procrastinate import App, PsycopgConnector

    app = App(connector=PsycopgConnector(conninfo=address, min_size=4, max_size=JOBS))

    @app.task(name="bench.answer", queue="answer")
    async def answer(number: int, body: str) -> None:
        waiting.pop(number).set_result(body)

    @app.task(name="bench.ask", queue="ask")
    async def ask(number: int, body: str) -> None:
        await answer.defer_async(number=number, body=body)

    return app, ask


HUEY = huey_tasks(os.environ["BENCH_HUEY"]).huey if os.environ.get("BENCH_HUEY") else None
CELERY = celery_task(int(os.environ["BENCH_REDIS"]))[0] if os.environ.get("BENCH_REDIS") else None
PROCRASTINATE = procrastinate_task(os.environ["BENCH_POSTGRES"], {})[0] if os.environ.get("BENCH_POSTGRES") else None
