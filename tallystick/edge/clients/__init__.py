"""Coding clients that people run: what is ours in their files, how their hooks speak. One folder each, one shape."""

from tallystick.edge.clients.hook import hook_op
from tallystick.edge.clients.installer import ClientInstaller
from tallystick.edge.clients.shape import Program
from tallystick.edge.clients.table import CLIENTS
from tallystick.edge.clients.waiting import Waiter
from tallystick.edge.clients.wakers import HISTORIES, wakers_of

__all__ = ["CLIENTS", "HISTORIES", "ClientInstaller", "Program", "Waiter", "hook_op", "wakers_of"]
