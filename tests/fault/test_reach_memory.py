"""What a host keeps in memory does not grow with the messages it has carried. Time is simulated, all else is real."""

from __future__ import annotations

from tests.support.traffic import Traffic, memory

WARM, MORE = 20_000, 80_000
MEGABYTES = 40


async def test_a_hundred_thousand_messages_leave_no_trace_in_memory(tmp_path):
    async with Traffic(tmp_path) as traffic:
        await traffic.messages(WARM)
        warm = memory()
        await traffic.messages(MORE)
        assert memory() - warm < MEGABYTES
        await traffic.until(lambda: traffic.left() == 0, "that nothing is left in hand")
        position, _ = await traffic.store.head()
        assert position > 4 * (WARM + MORE)
