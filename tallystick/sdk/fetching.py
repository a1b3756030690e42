"""Reading a reference through the host: part by part, over as many links as it takes, verified at the end."""

from __future__ import annotations

import asyncio
import hashlib

import msgspec

from tallystick.sdk.channel import Channel, pauses
from tallystick.sdk.errors import ReachError, ReachRefused, reach_error
from tallystick.sdk.frames import frame
from tallystick.sdk.link import LinkLost
from tallystick.sdk.reference import Reference

PATIENCE_SECONDS = 120.0
"""How long one part may take, a host that is started again included."""
_ANSWER_SECONDS = 30.0


class _Part(msgspec.Struct, frozen=True):
    """What the ACK of FETCH says."""

    size: int = 0
    content: bytes = msgspec.field(default=b"", name="bytes")
    more: bool = False


async def fetched(channel: Channel, delivery: str, reference: Reference) -> bytes:
    """Its verified content. Raises `ReachRefused` as `Reference.resolve` says."""
    content = bytearray()
    while True:
        part = await _part(channel, delivery, reference, len(content))
        content += part.content
        wanted = part.size if reference.size is None else reference.size
        if part.size != wanted or len(content) > wanted or (part.more and not part.content):
            raise _differs(reference, f"it has not the {wanted} bytes")
        if not part.more:
            break
    if len(content) != wanted or hashlib.sha256(content).hexdigest() != reference.sha256:
        raise _differs(reference, "it has another size or digest than")
    return bytes(content)


async def _part(channel: Channel, delivery: str, reference: Reference, offset: int) -> _Part:
    asked = {"delivery": delivery, "index": reference.place, "offset": offset}
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            for pause in pauses():
                await channel.up()
                try:
                    answer = await channel.ask(frame("FETCH", asked), seconds=_ANSWER_SECONDS)
                except (LinkLost, TimeoutError):
                    await asyncio.sleep(pause)
                else:
                    return msgspec.convert(answer.body, _Part)
    except TimeoutError:
        pass
    except ReachError as error:  # of the frame that asked, which is no message: the handler may pass it on as its own
        raise reach_error(error.code, error.message, error.remedy) from None
    except msgspec.ValidationError as error:
        raise ReachRefused("invalid", f"What the host answered cannot be read: {error}.", "Use one version.") from None
    raise ReachRefused(
        "unavailable",
        f"The host did not hand over {reference} within {PATIENCE_SECONDS:g} s.",
        "Look at `tally status`, then try again.",
    )


def _differs(reference: Reference, how: str) -> ReachRefused:
    return ReachRefused(
        "conflict",
        f"The content of {reference} is not what was sent: {how} that the message names.",
        "Do not use it; ask the sender for it again.",
    )
