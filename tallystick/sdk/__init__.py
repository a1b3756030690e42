"""The SDK: what a builder of agents imports to offer capabilities, and to reach for them.

    from tallystick import Capability, ReachClient, ReachMessage, Spoke

A thin client of the host; nothing of the host is in it.
"""

from tallystick.sdk.capability import Capability
from tallystick.sdk.client import ReachClient
from tallystick.sdk.context import ContextSlice
from tallystick.sdk.errors import (
    ReachError,
    ReachNoRoute,
    ReachOffline,
    ReachRefused,
    ReachTimeout,
    ReachUnverified,
)
from tallystick.sdk.link import Link, LinkLost, MemoryLink
from tallystick.sdk.message import ReachMessage
from tallystick.sdk.reference import Reference
from tallystick.sdk.result import ReachHandle, ReachResult
from tallystick.sdk.schema import Schema
from tallystick.sdk.spoke import Spoke

__all__ = [
    "Capability",
    "ContextSlice",
    "Link",
    "LinkLost",
    "MemoryLink",
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
    "Reference",
    "Schema",
    "Spoke",
]
