"""Spans of OpenTelemetry, where the program uses it (the extra `tallystick[otel]`).

Nothing is imported for it: a program that configures an exporter has imported `opentelemetry.trace` itself, and in all
others spans would go nowhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tallystick.sdk.current import IN_HAND

if TYPE_CHECKING:
    from tallystick.sdk.message import ReachMessage


def traceparent() -> str:
    """The W3C trace context to send along: that of the present span, else that of the message in hand."""
    if "opentelemetry.trace" in sys.modules:
        from tallystick.sdk import spans

        found = spans.traceparent()
        if found:
            return found
    hand = IN_HAND.get()
    return hand.traceparent if hand else ""


@contextmanager
def handling(message: ReachMessage, spoke_id: str) -> Iterator[None]:
    """A span around a handler, child of the one that the message carries."""
    if "opentelemetry.trace" not in sys.modules:
        yield
        return
    from tallystick.sdk import spans

    with spans.consumer(message, spoke_id):
        yield


@contextmanager
def sailing(target: str, **attributes: Any) -> Iterator[None]:
    """A span around a message that is sent, until its outcome is here."""
    if "opentelemetry.trace" not in sys.modules:
        yield
        return
    from tallystick.sdk import spans

    with spans.producer(target, attributes):
        yield
