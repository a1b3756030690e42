"""Records survive sealing; old schema versions are brought up; different records never have the same canonical form."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallystick.core.events import ERASED, Recorded, TaskProgressed, Text
from tallystick.core.identity import Actor, ActorKind
from tallystick.core.model import TaskState
from tallystick.store.codec import GENESIS, Codec, Sealed, canonical, digest_of, link
from tallystick.store.contract.samples import record, said

SALT = b"0123456789abcdef"
words = st.text(st.characters(exclude_categories=["Cs"]))

sealed_records = st.builds(
    Sealed,
    stream=words,
    version=st.integers(1, 9),
    workspace=words,
    type=words,
    schema=st.integers(1, 3),
    at=st.floats(0, 2e9),
    actor=words,
    subject=words,
    trace=words,
    cause=st.integers(0, 9),
    key=words,
    data=words,
    digest=st.binary(max_size=3),
)


@given(sealed_records, sealed_records)
def test_only_equal_records_have_equal_canonical_forms(one: Sealed, other: Sealed) -> None:
    assert (canonical(one) == canonical(other)) == (one == other)


@pytest.mark.parametrize("field", Sealed.__struct_fields__)
def test_every_field_is_covered_by_the_hash(field: str) -> None:
    sealed, _ = Codec().seal(record("tsk_1", 1, said("x")), SALT)
    value = getattr(sealed, field)
    changed = msgspec.structs.replace(sealed, **{field: value + (b"x" if isinstance(value, bytes) else type(value)(1))})
    assert canonical(changed) != canonical(sealed)


def test_a_mark_that_moves_from_one_field_to_the_next_changes_the_hash() -> None:
    sealed, _ = Codec().seal(record("tsk_1", 1), SALT)
    one = msgspec.structs.replace(sealed, subject='a","b', trace="c")
    other = msgspec.structs.replace(sealed, subject="a", trace='b","c')
    assert canonical(one) != canonical(other)


def test_the_hash_depends_on_position_and_the_one_before() -> None:
    hashes = {link(previous, position, b"x") for previous in (GENESIS, b"1" * 32) for position in (1, 2)}
    assert len(hashes) == 4


@given(words, words, st.floats(0, 1), words)
def test_a_record_comes_back_as_it_was(title: str, body: str, fraction: float, subject: str) -> None:
    event = TaskProgressed(state=TaskState.WORKING, turn="agt_1", fraction=fraction, text=Text(title=title, body=body))
    actor = Actor(id="agt_1", kind=ActorKind.AGENT, session="ses_1")
    before = record("tsk_1", 1, event, subject=subject, actor=actor, key="k", cause=3)
    codec = Codec()
    sealed, content = codec.seal(before, SALT)
    assert content is not None
    assert digest_of(content) == sealed.digest
    after = codec.open(7, sealed, content, b"\1" * 32)
    assert after == msgspec.structs.replace(before, position=7, hash="01" * 32)
    assert title not in sealed.data or len(title) < 20


def test_words_leave_no_trace_in_the_record() -> None:
    sealed, _ = Codec().seal(record("tsk_1", 1, said("CANARY", "CANARY")), SALT)
    assert b"CANARY" not in canonical(sealed)


def test_a_missing_body_reads_as_erased_and_no_words_as_none() -> None:
    codec = Codec()
    sealed, _ = codec.seal(record("tsk_1", 1, said("x")), SALT)
    assert codec.open(1, sealed, None, GENESIS).event.text == ERASED
    sealed, content = codec.seal(record("tsk_1", 1), SALT)
    assert (content, sealed.digest) == (None, b"")
    assert codec.open(1, sealed, None, GENESIS).event.text is None


def test_the_salt_hides_equal_words() -> None:
    one, other = (Codec().seal(record("tsk_1", 1, said("x")), salt)[0] for salt in (SALT, SALT[::-1]))
    assert one.digest != other.digest


def old_record() -> Sealed:
    sealed, _ = Codec().seal(record("tsk_1", 1), SALT)
    return msgspec.structs.replace(sealed, type="Progress", data='{"type":"Progress","status":"working"}')


def renamed(raw: dict[str, object]) -> dict[str, object]:
    return {**raw, "type": "TaskProgressed"}


def restated(raw: dict[str, object]) -> dict[str, object]:
    return {"type": raw["type"], "state": raw["status"], "turn": "agt_1"}


def test_old_data_climbs_through_every_upcaster() -> None:
    codec = Codec({"TaskProgressed": 3}, {("Progress", 1): renamed, ("TaskProgressed", 2): restated})
    assert codec.open(1, old_record(), None, GENESIS).event == TaskProgressed(state=TaskState.WORKING, turn="agt_1")


def test_new_data_is_written_in_the_present_version_and_read_as_it_is() -> None:
    codec = Codec({"TaskProgressed": 3}, {("TaskProgressed", 2): restated})
    before = record("tsk_1", 1)
    sealed, _ = codec.seal(before, SALT)
    assert sealed.schema == 3
    assert codec.open(1, sealed, None, GENESIS).event == before.event


def test_data_without_an_upcaster_is_an_error() -> None:
    with pytest.raises(msgspec.ValidationError):
        Codec().open(1, old_record(), None, GENESIS)


def test_a_time_given_as_an_int_has_the_form_it_comes_back_in() -> None:
    whole: Recorded = record("tsk_1", 1, at=5)
    assert canonical(Codec().seal(whole, SALT)[0]) == canonical(Codec().seal(record("tsk_1", 1, at=5.0), SALT)[0])
