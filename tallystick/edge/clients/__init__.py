"""Coding clients that people run: what is ours in their files, how their hooks speak. One folder each, one shape."""

from tallystick.edge.clients.hook import hook_op
from tallystick.edge.clients.installer import ClientInstaller
from tallystick.edge.clients.shape import Program
from tallystick.edge.clients.table import CLIENTS

__all__ = ["CLIENTS", "ClientInstaller", "Program", "hook_op"]
