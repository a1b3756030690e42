"""What the workers of other systems import: one task that answers with what it was given."""

from __future__ import annotations

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


HUEY = huey_tasks(os.environ["BENCH_HUEY"]).huey if os.environ.get("BENCH_HUEY") else None
CELERY = celery_task(int(os.environ["BENCH_REDIS"]))[0] if os.environ.get("BENCH_REDIS") else None
