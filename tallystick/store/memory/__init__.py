"""The store in memory: the reference for the others, and the model of the property tests."""

from tallystick.store.memory.store import MemoryStore

__all__ = ["MemoryStore"]
