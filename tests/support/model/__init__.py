"""A scripted model on loopback, for real coding clients: see `server` for use, `script` for what it answers."""

from tests.support.model.conversation import Conversation, Item
from tests.support.model.dialects import tokens_written
from tests.support.model.script import Rule, script
from tests.support.model.server import Model, Request, tokens_read

__all__ = ["Conversation", "Item", "Model", "Request", "Rule", "script", "tokens_read", "tokens_written"]
