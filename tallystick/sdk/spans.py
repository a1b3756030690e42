"""The one door to the library opentelemetry-api: loaded only where the program has loaded it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from opentelemetry import trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from tallystick import __version__

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
    with _tracer().start_as_current_span(f"sail {target}", kind=trace.SpanKind.CLIENT, attributes=told):
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
    name = f"handle {message.header.target_capability}"
    with _tracer().start_as_current_span(name, parent, kind=trace.SpanKind.SERVER, attributes=told):
        yield


def _tracer() -> trace.Tracer:
    return trace.get_tracer("tallystick.sdk", __version__)
