"""How a body stands in its row or file.

In a row: one byte that tells the form, then the body, deflated from 2 KiB on where that makes it smaller (text shrinks
to about half). Empty: it is in a file, named by its digest. NULL: there is none, or it was erased.
"""

from __future__ import annotations

import zlib
from typing import Final

from tallystick.store.blobs import BlobStore

IN_FILE_BYTES: Final = 64 * 1024
"""Bodies above this size become files."""

IN_FILE: Final = b""
"""What stands in the row then."""

_PLAIN, _DEFLATED = b"\0", b"\1"
_SMALLEST, _LARGEST = 2 * 1024, 16 * 1024  # deflating less than that costs more than writing it; packs shrink it later
_LEVEL, _WINDOW, _MEMORY = 3, -12, 6  # a small window: setting up the usual one costs four times the deflating


def squeeze(body: bytes) -> bytes:
    """The form of a body in a row. Large ones stay plain: they would hold up the event loop."""
    if _SMALLEST <= len(body) <= _LARGEST:
        deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW, _MEMORY)
        small = deflate.compress(body) + deflate.flush()
        if len(small) < len(body):
            return _DEFLATED + small
    return plain(body)


def plain(body: bytes) -> bytes:
    """The form of a body that is deflated together with others."""
    return _PLAIN + body


def restore(form: bytes) -> bytes:
    """The body of a form. Raises zlib.error for a damaged one."""
    return zlib.decompress(form[1:], _WINDOW) if form[:1] == _DEFLATED else form[1:]


def read_body(form: bytes | None, digest: bytes, files: BlobStore) -> bytes | None:
    """The body of a row with its salt; None where there is none or it was erased."""
    if form is None:
        return None
    return files.get(digest.hex()) if form == IN_FILE else restore(form)
