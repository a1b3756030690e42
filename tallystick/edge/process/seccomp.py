"""The system call filter of the sandbox, as the plain cBPF bytes that bubblewrap takes.

What namespaces do not cover: sockets of families that leave the machine, io_uring (which goes round such filters),
reading other processes, keys of the user's session, and metadata writes where nothing may be written.
"""

from __future__ import annotations

import struct
from typing import Final

_LOAD_WORD, _JUMP_EQUAL, _JUMP_NOT_BELOW, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_EPERM, _EACCES = 1, 13
_X32 = 0x40000000

_FAMILIES: Final = (2, 10, 16, 17, 40, 44)
"""AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_VSOCK, AF_XDP."""
_BEYOND: Final = (17, 40, 44)
"""Those that no program needs on a loopback of its own. AF_VSOCK leaves the machine whatever the namespace."""
_IO_URING: Final = (425, 426, 427)
_NEW_METADATA: Final = (452, 463, 466, 469)
"""fchmodat2, setxattrat, removexattrat, file_setattr: the same number everywhere."""

_MACHINES: Final = {
    # machine: (audit number, socket, always refused, metadata writes)
    "x86_64": (
        0xC000003E,
        41,
        (101, 248, 249, 250, 310, 311),  # ptrace, add_key, request_key, keyctl, process_vm_readv, process_vm_writev
        # chmod fchmod chown fchown lchown utime *setxattr *removexattr utimes fchownat futimesat fchmodat utimensat
        (90, 91, 92, 93, 94, 132, 188, 189, 190, 197, 198, 199, 235, 260, 261, 268, 280),
    ),
    "aarch64": (
        0xC00000B7,
        198,
        (117, 217, 218, 219, 270, 271),
        # *setxattr *removexattr fchmod fchmodat fchownat fchown utimensat
        (5, 6, 7, 14, 15, 16, 52, 53, 54, 55, 88),
    ),
}


def filter_for(machine: str, *, network: bool, metadata: bool, loopback: bool = False) -> bytes:
    """The filter for `platform.machine()`, or b"" where there is none.

    `network` lets sockets of all families through, `loopback` those that a network of its own keeps inside;
    `metadata` lets chmod, chown, utime and extended attributes through.
    """
    known = _MACHINES.get(machine)
    if known is None:
        return b""
    audit, socket, refused, changes = known
    program = [
        _instruction(_LOAD_WORD, _ARCHITECTURE),
        _instruction(_JUMP_EQUAL, audit, 1, 0),
        _instruction(_RETURN, _KILL),
        _instruction(_LOAD_WORD, _NUMBER),
    ]
    if machine == "x86_64":
        program += [_instruction(_JUMP_NOT_BELOW, _X32, 0, 1), _instruction(_RETURN, _ERRNO | _EPERM)]
    for number in (*_IO_URING, *refused, *(() if metadata else (*changes, *_NEW_METADATA))):
        program += [_instruction(_JUMP_EQUAL, number, 0, 1), _instruction(_RETURN, _ERRNO | _EPERM)]
    if not network:
        program += _without(socket, _BEYOND if loopback else _FAMILIES)
    return b"".join([*program, _instruction(_RETURN, _ALLOW)])


def _without(socket: int, families: tuple[int, ...]) -> list[bytes]:
    program = [_instruction(_JUMP_EQUAL, socket, 0, 1 + 2 * len(families)), _instruction(_LOAD_WORD, _FIRST_ARGUMENT)]
    for family in families:
        program += [_instruction(_JUMP_EQUAL, family, 0, 1), _instruction(_RETURN, _ERRNO | _EACCES)]
    return program


def _instruction(code: int, value: int, true: int = 0, false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, true, false, value)
