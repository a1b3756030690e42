"""Blobs: named by content, verified on reading, durable, private, erased down to a tombstone."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from tallystick.store.blobs import BlobStore, DamagedBlobError

CONTENT = b"some bytes" * 100
DIGEST = sha256(CONTENT).hexdigest()


@pytest.fixture
def blobs(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "blobs")


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_content_comes_back_under_its_digest(blobs: BlobStore) -> None:
    assert blobs.put(CONTENT) == DIGEST
    assert blobs.get(DIGEST) == CONTENT
    assert blobs.put(b"") == sha256(b"").hexdigest()
    assert blobs.get(sha256(b"").hexdigest()) == b""


def test_chunks_are_the_same_content(blobs: BlobStore) -> None:
    assert blobs.put(CONTENT[at : at + 7] for at in range(0, len(CONTENT), 7)) == DIGEST
    assert blobs.get(DIGEST) == CONTENT


def test_the_same_content_is_one_file(blobs: BlobStore, tmp_path: Path) -> None:
    blobs.put(CONTENT)
    blobs.put(CONTENT)
    assert len(files(tmp_path)) == 1


def test_what_is_not_there_is_none(blobs: BlobStore) -> None:
    assert blobs.get(DIGEST) is None
    assert not blobs.is_erased(DIGEST)
    assert blobs.erase(DIGEST) is False


def test_files_belong_to_the_owner_alone(blobs: BlobStore, tmp_path: Path) -> None:
    blobs.put(CONTENT)
    assert {stat.S_IMODE(path.stat().st_mode) for path in files(tmp_path)} == {0o600}
    folders = [path for path in (tmp_path / "blobs", *(tmp_path / "blobs").rglob("*")) if path.is_dir()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folders} == {0o700}


@pytest.mark.parametrize("damage", [CONTENT[:-1], CONTENT + b"x", b"X" + CONTENT[1:], b""])
def test_damaged_content_is_not_given_out(damage: bytes, blobs: BlobStore, tmp_path: Path) -> None:
    blobs.put(CONTENT)
    files(tmp_path)[0].write_bytes(damage)
    with pytest.raises(DamagedBlobError):
        blobs.get(DIGEST)


def test_erasing_leaves_a_tombstone_for_good(blobs: BlobStore, tmp_path: Path) -> None:
    blobs.put(CONTENT)
    assert blobs.erase(DIGEST) is True
    assert blobs.get(DIGEST) is None
    assert blobs.is_erased(DIGEST)
    assert [path.stat().st_size for path in files(tmp_path)] == [0]
    assert blobs.put(CONTENT) == DIGEST
    assert blobs.get(DIGEST) is None, "what was erased does not come back"


def test_discarding_leaves_nothing(blobs: BlobStore, tmp_path: Path) -> None:
    blobs.put(CONTENT)
    blobs.discard(DIGEST)
    blobs.discard(DIGEST)
    assert files(tmp_path) == []
    assert not blobs.is_erased(DIGEST)


def test_a_torn_file_is_gone_after_opening(blobs: BlobStore, tmp_path: Path) -> None:
    blobs.put(CONTENT)
    (tmp_path / "blobs" / "1-0.part").write_bytes(b"torn")
    assert BlobStore(tmp_path / "blobs").get(DIGEST) == CONTENT
    assert len(files(tmp_path)) == 1


def broken() -> Iterator[bytes]:
    yield CONTENT
    raise OSError("the source broke")


def test_a_source_that_breaks_leaves_nothing(blobs: BlobStore, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="the source broke"):
        blobs.put(broken())
    assert files(tmp_path) == []


@pytest.mark.parametrize("digest", ["", "..", "../" * 21 + "x", DIGEST.upper(), DIGEST[:-1], DIGEST + "\n", "/" * 64])
def test_only_digests_are_paths(digest: str, blobs: BlobStore) -> None:
    for work in (blobs.get, blobs.erase, blobs.discard, blobs.is_erased):
        with pytest.raises(ValueError, match="64 hexadecimal"):
            work(digest)


def test_content_is_synced_before_it_gets_its_name(blobs: BlobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    sync, replace = os.fsync, Path.replace

    def counted_sync(descriptor: int) -> None:
        steps.append("directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        sync(descriptor)

    def counted_replace(self: Path, target: Path) -> Path:
        steps.append("rename")
        return replace(self, target)

    blobs.put(b"so that the folder of the next one may be there")
    monkeypatch.setattr(os, "fsync", counted_sync)
    monkeypatch.setattr(Path, "replace", counted_replace)
    blobs.put(CONTENT)
    assert [step for step in steps if step != "directory"] == ["file", "rename"]
    assert steps[-1] == "directory"
