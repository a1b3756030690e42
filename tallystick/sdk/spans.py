"""The one door to the library opentelemetry-api: loaded only where the program has loaded it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from tallystick import __version__
from tallystick.sdk.failure import said, text_of

if TYPE_CHECKING:
    from tallystick.sdk.message import ReachMessage

_PROPAGATOR = TraceContextTextMapPropagator()


def traceparent() -> str:
    """That of the present span; empty where none is recorded."""
    carrier: dict[str, str] = {}
    _PROPAGATOR.inject(carrier)
    return carrier.get("traceparent", "")


@contextmanager
def producer(target: str, attributes: Mapping[str, Any]) -> Iterator[None]:
    """`sail NAME`, of the kind client."""
    told: dict[str, Any] = {
        "tallystick.capability": target,
        **{f"tallystick.{key}": value for key, value in attributes.items() if value},
    }
    with _span(f"sail {target}", None, trace.SpanKind.CLIENT, told):
        yield


@contextmanager
def consumer(message: ReachMessage, spoke_id: str) -> Iterator[None]:
    """`handle NAME`, of the kind server, under the span whose context the message carries."""
    parent = _PROPAGATOR.extract({"traceparent": message.header.traceparent})
    told: dict[str, Any] = {
        "tallystick.capability": message.header.target_capability,
        "tallystick.msg_id": message.msg_id,
        "tallystick.task_id": message.task_id,
        "tallystick.trace_id": message.trace_id,
        "tallystick.attempt": message.attempt,
        "tallystick.spoke": spoke_id,
    }
    with _span(f"handle {message.header.target_capability}", parent, trace.SpanKind.SERVER, told):
        yield


@contextmanager
def _span(name: str, parent: Context | None, kind: trace.SpanKind, told: dict[str, Any]) -> Iterator[None]:
    """A span, with what is raised inside of it. The library would do the same, but an exception that cannot say what it
    is would be replaced by the one that it raises then."""
    tracer = trace.get_tracer("tallystick.sdk", __version__)
    with tracer.start_as_current_span(
        name, parent, kind=kind, attributes=told, record_exception=False, set_status_on_exception=False
    ) as span:
        try:
            yield
        except Exception as error:
            what = f"{type(error).__name__}: {said(error)}".removesuffix(": ")
            span.set_status(trace.StatusCode.ERROR, text_of(what))
            with suppress(Exception):
                span.record_exception(error)
            raise
