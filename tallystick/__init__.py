"""Tallystick: a local-first collaboration host for coding agents.

The names below are those of the SDK (`tallystick.sdk`), for programs that offer capabilities or ask for them. They are
loaded when first used: the command, the hook and the MCP server import this package for its version alone.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tallystick.sdk import (
        Capability,
        ReachClient,
        ReachError,
        ReachHandle,
        ReachMessage,
        ReachNoRoute,
        ReachOffline,
        ReachRefused,
        ReachResult,
        ReachTimeout,
        ReachUnverified,
        Spoke,
    )

__version__ = "0.1.0"

__all__ = [
    "Capability",
    "ReachClient",
    "ReachError",
    "ReachHandle",
    "ReachMessage",
    "ReachNoRoute",
    "ReachOffline",
    "ReachRefused",
    "ReachResult",
    "ReachTimeout",
    "ReachUnverified",
    "Spoke",
]


def __getattr__(name: str) -> object:
    """A name of the SDK, when it is first asked for."""
    if name not in __all__:
        raise AttributeError(f"module 'tallystick' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module("tallystick.sdk"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
