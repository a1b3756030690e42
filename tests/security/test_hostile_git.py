"""Hostile repositories, references and paths: the numbered cases 28-39, 70 and 80."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import os
import subprocess
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from tallystick.core.errors import ErrorCode, Refused
from tallystick.edge.git import GitCommands
from tallystick.edge.git.names import check_path, check_revision, is_plain_entry

REPOSITORY = "rep_01JAZ000000000000000000001"
OTHER = "rep_01JAZ000000000000000000002"

PERSON = {
    "PATH": os.environ["PATH"],
    "HOME": os.devnull,
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_{what}": "ann@x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}


class Repo:
    """A repository that an attacker has prepared."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True)
        self("init", "-q", "-b", "main")
        self.write("a.txt", "one\ntwo\nthree\n")
        self.write("src/app.py", "pass\n")
        self.first = self.commit("first")

    def __call__(self, *arguments: str, stdin: bytes = b"", check: bool = True) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=self.root, env=PERSON, input=stdin, capture_output=True, check=check
        )
        return done.stdout.decode().strip()

    def write(self, path: str, content: str | bytes) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)

    def commit(self, message: str = "work") -> str:
        self("add", "-A")
        self("commit", "-q", "--allow-empty", "-m", message)
        return self("rev-parse", "HEAD")

    def tree(self, *entries: tuple[str, str, bytes]) -> str:
        """A tree written raw: git's own commands would refuse to."""
        raw = b"".join(mode.encode() + b" " + name + b"\0" + bytes.fromhex(item) for mode, item, name in entries)
        return self("hash-object", "-t", "tree", "-w", "--literally", "--stdin", stdin=raw)

    def blob(self, data: bytes) -> str:
        return self("hash-object", "-w", "--stdin", stdin=data)


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo(tmp_path / "user")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def git(home: Path) -> GitCommands:
    return GitCommands(home, environment={"PATH": os.environ["PATH"]})


async def code_of(call: Awaitable[object]) -> ErrorCode:
    """The code of the refusal that must come; its texts are whole sentences without anything unseen."""
    with pytest.raises(Refused) as caught:
        await call
    assert caught.value.message.endswith(".")
    assert caught.value.remedy.endswith(".")
    assert str(caught.value).isprintable()
    return caught.value.code


# --- 28: paths --------------------------------------------------------------------------------------------------

PATHS = {
    "up": "../x",
    "up-inside": "src/../../x",
    "absolute": "/etc/passwd",
    "empty-part": "a//b",
    "trailing": "a/",
    "dot": "./a",
    "dot-only": ".",
    "backslash": "a\\b",
    "drive": "C:a",
    "nul": "a\0b",
    "encoded": "%2e%2E/x",
    "nfd": "cafe\u0301.txt",
    "git": ".git/config",
    "git-case": "a/.GIT/config",
    "git-space": ".git /config",
    "git-dot": ".git./config",
    "git-short": "GIT~1/config",
    "git-stream": ".git::$INDEX_ALLOCATION/config",
    "git-unseen": ".g\u200cit/config",
    "control": "a\x1b[31m",
    "bidi": "a\u202etxt",
    "newline": "a\nb",
    "surrogate": "a\udce9",
    "long": "a/" * 3000 + "a",
}


@pytest.mark.parametrize("path", PATHS.values(), ids=[f"h28-{name}" for name in PATHS])
async def test_odd_paths_are_refused_before_git_sees_them(git, repo, path):
    commit = await git.fetch(REPOSITORY, repo.root, "HEAD")
    good = await git.refer(REPOSITORY, commit, "a.txt", None)
    silent = GitCommands(Path("/nonexistent"), git="no-such-git")
    for host in (git, silent):
        assert await code_of(host.refer(REPOSITORY, commit, path, None)) is ErrorCode.INVALID
        assert await code_of(host.read(msgspec.structs.replace(good, path=path))) is ErrorCode.INVALID
    assert await code_of(git.trace_line(repo.root, path, 1)) is ErrorCode.INVALID
    assert await code_of(
        git.check_out(REPOSITORY, commit, git._worktrees / "t", (path,), commit)
    ) is ErrorCode.INVALID  # fmt: skip


@pytest.mark.parametrize(
    "path", ["a.txt", "工作/文 件.py", "-x", ".gitignore", ".github/x", "a b", "..a", "git~x", "é"]
)
def test_h28_plain_paths_pass(path):
    assert check_path(path) == path
    assert is_plain_entry(path.encode())


REVISIONS = [
    "-x",
    "--upload-pack=x",
    "HEAD:a.txt",
    ":a.txt",
    ":/first",
    "HEAD^{/first}",
    "a..b",
    "^HEAD",
    "",
    "a b",
    "a\0b",
]
REVISIONS += ["a\nb", "x" * 300, "a\u202e", "$(x)", "`x`", "a*", "a\\b"]


@pytest.mark.parametrize("revision", REVISIONS, ids=[f"h35-{number}" for number in range(len(REVISIONS))])
async def test_what_is_no_plain_revision_is_refused_before_git_sees_it(repo, revision):
    silent = GitCommands(Path("/nonexistent"), git="no-such-git")
    assert await code_of(silent.fetch(REPOSITORY, repo.root, revision)) is ErrorCode.INVALID
    with pytest.raises(Refused):
        check_revision(revision)


@pytest.mark.parametrize("commit", ["HEAD", "main", "-x", "a" * 39, "A" * 40, "a" * 40 + "\n", "a" * 40 + ":a.txt"])
async def test_h35_only_full_ids_reach_the_mirror(git, repo, commit):
    await git.fetch(REPOSITORY, repo.root, "HEAD")
    for call in (
        git.has(REPOSITORY, commit),
        git.refer(REPOSITORY, commit, "a.txt", None),
        git.changes(REPOSITORY, commit, repo.first),
        git.changes(REPOSITORY, repo.first, commit),
        git.log_between(REPOSITORY, repo.first, commit),
        git.is_ancestor(REPOSITORY, commit, repo.first),
        git.trailers(REPOSITORY, [commit]),
        git.check_out(REPOSITORY, commit, git._worktrees / "t"),
    ):
        assert await code_of(call) is ErrorCode.INVALID


@pytest.mark.parametrize(
    "repository", ["../x", "rep_x", "", "tsk_01JAZ000000000000000000001", "rep_01JAZ000000000000000000001/.."]
)
async def test_h28_only_ids_name_a_mirror(git, repo, repository):
    assert await code_of(git.fetch(repository, repo.root, "HEAD")) is ErrorCode.INVALID


# --- 29, 80: links, pipes, devices ------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["link", "folder/x", "folder", "module"], ids=lambda name: f"h29-{name}")
async def test_links_directories_and_submodules_cannot_be_referred_to(git, repo, path):
    (repo.root / "link").symlink_to("/etc/passwd")
    (repo.root / "folder").symlink_to("src")
    repo("add", "-A")
    repo("update-index", "--add", "--cacheinfo", f"160000,{repo.first},module")
    repo("commit", "-qm", "links")
    commit = await git.fetch(REPOSITORY, repo.root, "HEAD")
    assert await code_of(git.refer(REPOSITORY, commit, path, None)) in {ErrorCode.INVALID, ErrorCode.NOT_FOUND}


async def test_h29_pipes_and_sockets_do_not_block_a_snapshot_and_are_named(git, repo):
    os.mkfifo(repo.root / "pipe")
    (repo.root / "a.txt").unlink()
    os.mkfifo(repo.root / "a.txt")
    async with asyncio.timeout(60):
        snapshot = await git.snapshot(REPOSITORY, repo.root)
        assert await code_of(git.trace_line(repo.root, "a.txt", 1)) is ErrorCode.NOT_FOUND
    assert snapshot.files == ()
    assert "a.txt" in snapshot.left_out


async def test_h80_a_link_in_a_work_tree_is_kept_as_a_link_and_never_followed(git, repo, tmp_path):
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("secret\n")
    (repo.root / "direct").symlink_to(secret / "key")
    (repo.root / "src" / "app.py").unlink()
    (repo.root / "src").rmdir()
    (repo.root / "src").symlink_to(secret)
    (repo.root / "hop").symlink_to("/proc/self")
    snapshot = await git.snapshot(REPOSITORY, repo.root)
    found = {change.path: change.status for change in await git.changes(REPOSITORY, repo.first, snapshot.commit)}
    assert found == {"direct": "A", "src/app.py": "D", "src": "A", "hop": "A"}
    for path in ("direct", "src/key", "hop/environ"):
        await code_of(git.refer(REPOSITORY, snapshot.commit, path, None))
        await code_of(git.trace_line(repo.root, path, 1))


async def test_h80_a_temporary_directory_that_is_a_link_works(repo, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "tmp").symlink_to(tmp_path / "real")
    git = GitCommands(tmp_path / "tmp" / "home", environment={"PATH": os.environ["PATH"]})
    commit = await git.fetch(REPOSITORY, repo.root, "HEAD")
    target = tmp_path / "tmp" / "home" / "worktrees" / "t"
    await git.check_out(REPOSITORY, commit, target)
    assert (target / "a.txt").exists()
    await git.remove(target)
    assert not target.exists()


async def test_h30_a_file_swapped_for_a_link_while_a_snapshot_is_taken_leaks_nothing(git, repo, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("the secret\n")
    await git.fetch(REPOSITORY, repo.root, "HEAD")
    stop = threading.Event()

    def swap() -> None:
        plain, link = repo.root / ".git" / "plain", repo.root / ".git" / "link"
        while not stop.is_set():
            plain.write_text("harmless\n")
            plain.replace(repo.root / "a.txt")
            link.symlink_to(secret)
            link.replace(repo.root / "a.txt")

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        for _ in range(10):
            try:
                snapshot = await git.snapshot(REPOSITORY, repo.root)
                read = await git.read(await git.refer(REPOSITORY, snapshot.commit, "a.txt", None))
            except Refused:
                continue
            assert b"secret" not in read
    finally:
        stop.set()
        swapper.join()


# --- 30, 31, 33, 34: digests and lines --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("sha256", "0" * 64),
        ("size", 1),
        ("size", -1),
        ("size", 1 << 60),
        ("object", "0" * 40),
        ("mode", "120000"),
        ("lines_sha256", "0" * 64),
        ("path", "src/app.py"),
    ],
    ids=lambda value: f"h30-{value}"[:20],
)
async def test_a_reference_that_does_not_match_is_refused(git, repo, field, value):
    commit = await git.fetch(REPOSITORY, repo.root, "HEAD")
    reference = await git.refer(REPOSITORY, commit, "a.txt", (1, 2))
    wrong = msgspec.structs.replace(reference, **{field: value})
    assert await code_of(git.read(wrong)) in {ErrorCode.CONFLICT, ErrorCode.INVALID}


async def test_h31_a_fork_with_the_same_root_is_another_repository(git, repo, tmp_path):
    repo("clone", "-q", ".", str(tmp_path / "fork"))
    commit = await git.fetch(REPOSITORY, repo.root, "HEAD")
    reference = await git.refer(REPOSITORY, commit, "a.txt", None)
    (tmp_path / "fork" / "b").write_text("b")
    await git.snapshot(OTHER, tmp_path / "fork")
    only_here = repo.commit("only here")
    await git.fetch(REPOSITORY, repo.root, only_here)
    moved = msgspec.structs.replace(reference, repository=OTHER, commit=only_here)
    assert await code_of(git.read(moved)) is ErrorCode.NOT_FOUND


async def test_h33_a_sha1_is_no_sha256(git, repo):
    commit = await git.fetch(REPOSITORY, repo.root, "HEAD")
    reference = await git.refer(REPOSITORY, commit, "a.txt", None)
    assert await code_of(git.read(msgspec.structs.replace(reference, sha256=reference.object))) is ErrorCode.INVALID


@pytest.mark.parametrize("lines", [(0, 1), (1, 4), (3, 2), (-1, 1), (4, 4), (True, 1)], ids=lambda pair: f"h34-{pair}")
async def test_lines_out_of_range_are_refused(git, repo, lines):
    commit = await git.fetch(REPOSITORY, repo.root, "HEAD")
    assert await code_of(git.refer(REPOSITORY, commit, "a.txt", lines)) is ErrorCode.INVALID


@pytest.mark.parametrize(
    ("data", "lines", "part"),
    [
        (b"a\r\nb\r\nc\r\n", (2, 2), b"b\r\n"),
        (b"a\rb\nc", (1, 1), b"a\rb\n"),
        (b"a\rb\nc", (2, 2), b"c"),
        ("a\u2028b\nc\x0c\n".encode(), (1, 1), "a\u2028b\n".encode()),
        (b"\n\n", (2, 2), b"\n"),
    ],
    ids=["h34-crlf", "h34-cr", "h34-no-end", "h34-other-separators", "h34-empty"],
)
async def test_lines_are_counted_by_bytes_and_never_shifted(git, repo, data, lines, part):
    repo.write("f", data)
    commit = repo.commit()
    await git.fetch(REPOSITORY, repo.root, commit)
    reference = await git.refer(REPOSITORY, commit, "f", lines)
    assert await git.read(reference) == part
    assert reference.lines_sha256 == hashlib.sha256(part).hexdigest()


async def test_h34_an_empty_file_has_no_lines(git, repo):
    repo.write("f", b"")
    commit = repo.commit()
    await git.fetch(REPOSITORY, repo.root, commit)
    assert await code_of(git.refer(REPOSITORY, commit, "f", (1, 1))) is ErrorCode.INVALID


async def test_h30_a_file_above_the_limit_is_refused(git, repo, monkeypatch):
    monkeypatch.setattr("tallystick.edge.git.references.LARGEST", 10)
    commit = await git.fetch(REPOSITORY, repo.root, "HEAD")
    assert await code_of(git.refer(REPOSITORY, commit, "a.txt", None)) is ErrorCode.INVALID


# --- 32: replaced, grafted, shallow, forged ---------------------------------------------------------------------


async def test_h32_replacements_and_grafts_are_not_followed(git, repo):
    repo.write("a.txt", "forged\n")
    forged = repo.commit("forged")
    repo.write("a.txt", "real\n")
    real = repo.commit("real")
    repo("replace", real, repo.first)
    repo("replace", f"{forged}:a.txt", repo.blob(b"other\n"), check=False)
    (repo.root / ".git" / "info").mkdir(exist_ok=True)
    (repo.root / ".git" / "info" / "grafts").write_text(f"{real} {repo.first}\n")
    assert await git.fetch(REPOSITORY, repo.root, "HEAD~1") == forged
    commit = await git.fetch(REPOSITORY, repo.root, "HEAD")
    assert commit == real
    assert await git.read(await git.refer(REPOSITORY, commit, "a.txt", None)) == b"real\n"
    assert await git.log_between(REPOSITORY, repo.first, real) == [forged, real]
    assert (await git.trace_line(repo.root, "a.txt", 1)).commit == real


async def test_h32_a_shallow_history_is_honest_and_can_be_deepened(git, repo, tmp_path):
    second, third = repo.commit("second"), repo.commit("third")
    repo("clone", "-q", "--depth", "1", f"file://{repo.root}", str(tmp_path / "shallow"))
    shallow = tmp_path / "shallow"
    assert await git.fetch(REPOSITORY, shallow, "HEAD") == third
    assert await git.read(await git.refer(REPOSITORY, third, "a.txt", None))
    for revision in ("HEAD~1", second):
        assert await code_of(git.fetch(REPOSITORY, shallow, revision)) is ErrorCode.NOT_FOUND
    assert not await git.has(REPOSITORY, second)
    assert await code_of(git.trace_line(shallow, "a.txt", 1)) is ErrorCode.NOT_FOUND
    (shallow / "a.txt").write_text("work\n")
    snapshot = await git.snapshot(REPOSITORY, shallow)
    assert snapshot.base == third
    await git.fetch(REPOSITORY, repo.root, repo.first)
    assert await code_of(git.is_ancestor(REPOSITORY, repo.first, snapshot.commit)) is ErrorCode.NOT_FOUND
    subprocess.run(["git", "fetch", "-q", "--unshallow"], cwd=shallow, env=PERSON, check=True)  # noqa: ASYNC221
    (shallow / "b").write_text("b\n")
    subprocess.run(["git", "add", "-A"], cwd=shallow, env=PERSON, check=True)  # noqa: ASYNC221
    subprocess.run(["git", "commit", "-qm", "deep"], cwd=shallow, env=PERSON, check=True)  # noqa: ASYNC221
    deep = await git.fetch(REPOSITORY, shallow, "HEAD")
    assert await git.is_ancestor(REPOSITORY, repo.first, deep)
    assert await git.is_ancestor(REPOSITORY, repo.first, snapshot.commit)


async def test_h32_a_missing_object_makes_the_commit_unresolvable_and_nothing_is_kept(git, repo):
    commit = repo.commit()
    blob = repo("rev-parse", "HEAD:a.txt")
    (repo.root / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    assert await code_of(git.fetch(REPOSITORY, repo.root, "HEAD")) is ErrorCode.NOT_FOUND
    assert not await git.has(REPOSITORY, commit)


async def test_h32_an_object_whose_bytes_do_not_match_its_id_is_not_let_in(git, repo):
    commit = repo.commit()
    good, bad = repo("rev-parse", "HEAD:a.txt"), repo.blob(b"forged\n")
    objects = repo.root / ".git" / "objects"
    place = objects / good[:2] / good[2:]
    place.chmod(0o644)
    place.write_bytes((objects / bad[:2] / bad[2:]).read_bytes())
    assert await code_of(git.fetch(REPOSITORY, repo.root, "HEAD")) in {ErrorCode.NOT_FOUND, ErrorCode.CONFLICT}
    assert not await git.has(REPOSITORY, commit)


async def test_h32_a_forged_commit_graph_is_not_believed(git, repo):
    second = repo.commit("second")
    third = repo.commit("third")
    repo("commit-graph", "write", "--reachable")
    graph = repo.root / ".git" / "objects" / "info" / "commit-graph"
    graph.chmod(0o644)
    graph.write_bytes(graph.read_bytes()[:-60] + b"\0" * 60)
    await git.fetch(REPOSITORY, repo.root, "HEAD")
    assert await git.log_between(REPOSITORY, repo.first, third) == [second, third]


# --- 36: trees that lead out ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", [b"..", b".", b".git", b".GIT", b"git~1", b"a/b", b".g\xe2\x80\x8cit"], ids=lambda name: f"h36-{name!r}"
)
async def test_a_tree_with_a_hostile_name_is_not_let_in(git, repo, home, name):
    inner = repo.tree(("100644", repo.blob(b"#!/bin/sh\n"), b"hooks"))
    tree = repo.tree(("40000", inner, name))
    commit = repo("commit-tree", "-m", "x", tree)
    assert await code_of(git.fetch(REPOSITORY, repo.root, commit)) is ErrorCode.CONFLICT
    assert not await git.has(REPOSITORY, commit)


async def test_h36_a_tree_with_a_link_and_a_directory_of_one_name_is_not_let_in(git, repo):
    inner = repo.tree(("100644", repo.blob(b"x"), b"x"))
    tree = repo.tree(("120000", repo.blob(b"/tmp"), b"a"), ("40000", inner, b"a"))
    commit = repo("commit-tree", "-m", "x", tree)
    assert await code_of(git.fetch(REPOSITORY, repo.root, commit)) is ErrorCode.CONFLICT


async def test_h36_links_of_a_tree_are_not_written_through(git, repo, home, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "test_a.py").write_text("untouched\n")
    repo.write("tests/test_a.py", "assert True\n")
    base = repo.commit()
    (repo.root / "tests" / "test_a.py").unlink()
    (repo.root / "tests").rmdir()
    (repo.root / "tests").symlink_to(outside)
    commit = repo.commit()
    await git.fetch(REPOSITORY, repo.root, commit)
    target = home / "worktrees" / "t"
    await git.check_out(REPOSITORY, commit, target, ("tests",), base)
    assert (target / "tests" / "test_a.py").read_text() == "assert True\n"
    assert (outside / "test_a.py").read_text() == "untouched\n"
    await git.remove(target)
    await git.check_out(REPOSITORY, commit, target)
    await git.remove(target)
    assert (outside / "test_a.py").read_text() == "untouched\n"


async def test_h36_old_but_harmless_histories_are_let_in(git, repo):
    raw = f"tree {repo('rev-parse', 'HEAD^{tree}')}\nauthor A 1 +0000\ncommitter A <a> 1 +51800\n\nold\n"
    commit = repo("hash-object", "-t", "commit", "-w", "--literally", "--stdin", stdin=raw.encode())
    assert await git.fetch(REPOSITORY, repo.root, commit) == commit


@pytest.mark.parametrize(
    "where", ["..", "../x", "", ".", "a/../../x", "/etc", "link/x"], ids=lambda name: f"h36-{name}"
)
async def test_work_trees_are_made_and_removed_only_in_their_place(git, repo, home, tmp_path, where):
    commit = await git.fetch(REPOSITORY, repo.root, "HEAD")
    (home / "worktrees").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "x").mkdir()
    (home / "worktrees" / "link").symlink_to(tmp_path / "out")
    target = home / "worktrees" / where
    assert await code_of(git.check_out(REPOSITORY, commit, target)) is ErrorCode.INVALID
    assert await code_of(git.remove(target)) is ErrorCode.INVALID
    assert (tmp_path / "out" / "x").is_dir()


async def test_h36_removing_a_link_follows_nothing(git, home, tmp_path):
    (tmp_path / "out").mkdir()
    (home / "worktrees").mkdir(parents=True)
    (home / "worktrees" / "link").symlink_to(tmp_path / "out")
    assert await code_of(git.remove(home / "worktrees" / "link")) is ErrorCode.CONFLICT
    assert (tmp_path / "out").is_dir()


# --- 38, 39: configuration that starts programs -----------------------------------------------------------------

Prepare = Callable[[Repo, str], None]


def config(**settings: str) -> Prepare:
    def prepare(repo: Repo, command: str) -> None:
        for key, value in settings.items():
            repo("config", key.replace("__", "."), value.replace("CMD", command))

    return prepare


def with_attributes(attributes: str, **settings: str) -> Prepare:
    def prepare(repo: Repo, command: str) -> None:
        repo.write(".gitattributes", attributes)
        (repo.root / ".git" / "info").mkdir(exist_ok=True)
        (repo.root / ".git" / "info" / "attributes").write_text(attributes)
        config(**settings)(repo, command)

    return prepare


def hooks(repo: Repo, command: str) -> None:
    folder = repo.root / ".git" / "hooks"
    folder.mkdir(exist_ok=True)
    for name in (
        "post-checkout",
        "post-index-change",
        "pre-commit",
        "reference-transaction",
        "post-commit",
        "fsmonitor-watchman",
    ):
        (folder / name).write_text(f"#!/bin/sh\n{command}\n")
        (folder / name).chmod(0o755)


def partial_clone(repo: Repo, command: str) -> None:
    config(
        core__repositoryformatversion="1",
        extensions__partialClone="origin",
        remote__origin__promisor="true",
        remote__origin__url=str(repo.root),
        remote__origin__uploadpack="CMD; git-upload-pack",
    )(repo, command)
    blob = repo("rev-parse", "HEAD:src/app.py")
    (repo.root / ".git" / "objects" / blob[:2] / blob[2:]).unlink()


TRAPS: dict[str, Prepare] = {
    "fsmonitor": config(core__fsmonitor="CMD #"),
    "fsmonitor-2": config(core__fsmonitor="CMD #", core__fsmonitorHookVersion="2", core__untrackedCache="true"),
    "clean": with_attributes("* filter=x\n", filter__x__clean="CMD; cat", filter__x__required="true"),
    "smudge": with_attributes("* filter=x\n", filter__x__smudge="CMD; cat", filter__x__required="true"),
    "process": with_attributes("* filter=x\n", filter__x__process="CMD #", filter__x__required="true"),
    "lfs": with_attributes("* filter=lfs\n", filter__lfs__clean="CMD; cat", filter__lfs__process="CMD #"),
    "textconv": with_attributes("* diff=x\n", diff__x__textconv="CMD; cat", diff__x__cachetextconv="true"),
    "diff-driver": with_attributes("* diff=x\n", diff__x__command="CMD #"),
    "merge-driver": with_attributes("* merge=x\n", merge__x__driver="CMD #"),
    "external-diff": config(diff__external="CMD #"),
    "ext-remote": config(remote__origin__url="ext::sh -c CMD", protocol__ext__allow="always", protocol__allow="always"),
    "partial-clone": partial_clone,
    "upload-pack-hook": config(uploadpack__packObjectsHook="CMD #"),
    "hooks": hooks,
    "hooks-path": lambda repo, command: (hooks(repo, command), config(core__hooksPath=".git/hooks")(repo, command))[1],
    "ssh": config(core__sshCommand="CMD #", remote__origin__url="ssh://localhost/x", core__gitProxy="CMD #"),
    "pager": config(core__pager="CMD #", pager__log="CMD #", pager__blame="CMD #", core__editor="CMD #"),
    "alias": config(**{f"alias__{name}": "!CMD" for name in ("log", "blame", "fetch", "status")}, alias__x="!CMD"),
    "credential": config(credential__helper="!CMD #", core__askPass="CMD #"),
    "alternate-refs": config(core__alternateRefsCommand="CMD #", core__alternateRefsPrefixes="refs/heads"),
    "signature": config(log__showSignature="true", gpg__program="CMD", gpg__ssh__program="CMD"),
    "trailer": config(trailer__x__key="Tally-Task", trailer__x__command="CMD #", trailer__x__cmd="CMD #"),
    "include": lambda repo, command: (
        repo.write(".git/more", f'[core]\n\tfsmonitor = {command} #\n[filter "x"]\n\tclean = {command}; cat\n'),
        with_attributes("* filter=x\n", include__path="more")(repo, command),
    )[1],
    "work-tree-config": lambda repo, command: (
        config(extensions__worktreeConfig="true")(repo, command),
        repo.write(".git/config.worktree", f"[core]\n\tfsmonitor = {command} #\n"),
    )[1],
}


async def every_method(git: GitCommands, repo: Repo, home: Path) -> None:
    """Call each method; a refusal is an answer too."""

    async def answer(call: Awaitable[object]) -> object:
        try:
            return await call
        except Refused:
            return None

    target = home / "worktrees" / "t"
    head = repo("rev-parse", "HEAD")
    await answer(git.find(repo.root / "src"))
    await answer(git.fetch(REPOSITORY, repo.root, "HEAD"))
    await answer(git.fetch(REPOSITORY, repo.root, "main~0"))
    await answer(git.fetch(REPOSITORY, repo.root, "f" * 40))
    snapshot = await answer(git.snapshot(REPOSITORY, repo.root))
    commit = getattr(snapshot, "commit", head)
    for path in ("a.txt", "src/app.py", ""):
        reference = await answer(git.refer(REPOSITORY, commit, path, None))
        if reference is not None:
            await answer(git.read(reference))  # type: ignore[arg-type]
    await answer(git.has(REPOSITORY, commit))
    await answer(git.changes(REPOSITORY, repo.first, commit))
    await answer(git.is_ancestor(REPOSITORY, repo.first, commit))
    await answer(git.log_between(REPOSITORY, repo.first, commit))
    await answer(git.trailers(REPOSITORY, [repo.first, commit]))
    await answer(git.check_out(REPOSITORY, commit, target, ("src",), repo.first))
    if target.exists():
        await answer(git.find(target))
        await answer(git.snapshot(REPOSITORY, target))
    await answer(git.remove(target))
    await answer(git.trace_line(repo.root, "a.txt", 2))
    await answer(git.trace_line(repo.root, "src/app.py", 1))
    await answer(git.version())


@pytest.mark.parametrize("trap", TRAPS, ids=[f"h38-{name}" for name in TRAPS])
async def test_no_command_of_a_repository_runs_in_any_method(git, repo, home, tmp_path, trap):
    marker = tmp_path / "marker"
    second = repo.commit("work\n\nTally-Task: tsk_01JAZ000000000000000000003")
    TRAPS[trap](repo, f"touch {marker}")
    repo.write("a.txt", "one\nchanged\nthree\n")
    repo.write("new.txt", "n\n")
    marker.unlink(missing_ok=True)
    await every_method(git, repo, home)
    ran = marker.exists()
    assert not ran
    if trap != "partial-clone":
        assert await git.has(REPOSITORY, second)


LIVE = {
    "fsmonitor": ["status"],
    "clean": ["add", "-A"],
    "textconv": ["show", "HEAD"],
    "hooks": ["checkout", "-q", "HEAD"],
}
LIVE |= {"external-diff": ["diff"], "partial-clone": ["cat-file", "-p", "HEAD:src/app.py"], "alias": ["x"]}


@pytest.mark.parametrize("trap", LIVE, ids=[f"h38-live-{name}" for name in LIVE])
def test_the_traps_do_go_off_for_a_plain_git(repo, tmp_path, trap):
    marker = tmp_path / "marker"
    TRAPS[trap](repo, f"touch {marker}")
    repo.write("a.txt", "changed\n")
    marker.unlink(missing_ok=True)
    repo(*LIVE[trap], check=False)
    assert marker.exists()


async def test_h38_a_work_tree_named_by_the_configuration_is_not_believed(git, repo, tmp_path):
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("secret\n")
    repo("config", "core.worktree", str(secret))
    assert (await git.find(repo.root)).root == str(repo.root)
    snapshot = await git.snapshot(REPOSITORY, repo.root)
    assert snapshot.files == ()


async def test_h38_a_git_file_cannot_claim_another_repository(git, repo, tmp_path):
    repo("worktree", "add", "-q", str(tmp_path / "linked"))
    claim = tmp_path / "claim"
    claim.mkdir()
    (claim / ".git").write_text((tmp_path / "linked" / ".git").read_text())
    assert await git.find(claim) is None


@pytest.mark.parametrize(
    "content",
    [b"", b"gitdir: /etc\n", b"gitdir: .\n", b"gitdir: \0\n", b"\xff" * 100],
    ids=lambda text: f"h38-{text[:9]!r}",
)
async def test_an_odd_git_file_is_no_repository(git, tmp_path, content):
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / ".git").write_bytes(content)
    assert await git.find(tmp_path / "odd") is None


async def test_h38_a_pipe_as_git_file_does_not_block(git, tmp_path):
    (tmp_path / "odd").mkdir()
    os.mkfifo(tmp_path / "odd" / ".git")
    async with asyncio.timeout(30):
        assert await git.find(tmp_path / "odd") is None


async def test_h38_an_index_that_names_paths_outside_reads_nothing_there(git, repo, tmp_path):
    (tmp_path / "secret").write_text("secret\n")
    index = repo.root / ".git" / "index"
    raw = index.read_bytes().replace(b"src/app.py", b"../secret\0")
    checked = raw[:-20]
    index.write_bytes(checked + hashlib.sha1(checked).digest())
    try:
        snapshot = await git.snapshot(REPOSITORY, repo.root)
    except Refused:
        return
    assert not any("secret" in path for path in snapshot.files)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a repository to somebody else")
async def test_h38_a_repository_of_another_user_works_and_runs_nothing(git, repo, home, tmp_path):
    marker = tmp_path / "marker"
    TRAPS["clean"](repo, f"touch {marker}")
    repo.write("a.txt", "changed\n")
    for path in (repo.root, *repo.root.rglob("*")):
        os.chown(path, 12345, 12345, follow_symlinks=False)
    assert (await git.find(repo.root)).root == str(repo.root)
    assert (await git.snapshot(REPOSITORY, repo.root)).files == (".gitattributes", "a.txt")
    assert (await git.trace_line(repo.root, "a.txt", 1)).uncommitted
    ran = marker.exists()
    assert not ran


@pytest.mark.parametrize("entry", [".", ""], ids=["h38-path-dot", "h38-path-empty"])
async def test_a_git_that_lies_in_the_repository_is_not_the_git_that_runs(repo, home, tmp_path, monkeypatch, entry):
    marker = tmp_path / "marker"
    repo.write("git", f"#!/bin/sh\ntouch {marker}\n")
    (repo.root / "git").chmod(0o755)
    monkeypatch.chdir(repo.root)
    git = GitCommands(home, environment={"PATH": f"{entry}:{os.environ['PATH']}"})
    assert (await git.snapshot(REPOSITORY, repo.root)).files == ("git",)
    ran = marker.exists()
    assert not ran


async def test_h39_submodules_are_not_fetched(git, repo, home, tmp_path):
    marker = tmp_path / "marker"
    repo.write(
        ".gitmodules", f'[submodule "x"]\n\tpath = x\n\turl = ext::sh -c "touch {marker}"\n\tupdate = !touch {marker}\n'
    )
    repo("add", "-A")
    repo("update-index", "--add", "--cacheinfo", f"160000,{repo.first},x")
    repo("commit", "-qm", "module")
    repo("config", "submodule.recurse", "true")
    await every_method(git, repo, home)
    commit = await git.fetch(REPOSITORY, repo.root, "HEAD")
    await git.check_out(REPOSITORY, commit, home / "worktrees" / "t")
    assert list((home / "worktrees" / "t" / "x").iterdir()) == []
    ran = marker.exists()
    assert not ran


# --- 35: limits -------------------------------------------------------------------------------------------------


async def test_h35_a_git_that_hangs_or_floods_is_ended(repo, home, tmp_path, monkeypatch):
    monkeypatch.setattr("tallystick.edge.git.source._LISTING_SECONDS", 0.2)
    monkeypatch.setattr("tallystick.edge.git.source._LISTING_BYTES", 1000)
    fake = tmp_path / "fake-git"
    for step in ("exec sleep 600", "exec yes"):
        fake.write_text(f'#!/bin/sh\nif [ "$1" = ls-files ]; then {step}; fi\nexec git "$@"\n')
        fake.chmod(0o755)
        git = GitCommands(home, git=str(fake))
        assert await code_of(git.snapshot(REPOSITORY, repo.root)) is ErrorCode.UNAVAILABLE
        gc.collect()  # a process that was not let go of would be reported here


async def test_h35_a_request_that_is_canceled_leaves_no_git_behind(repo, home, tmp_path):
    started, fake = tmp_path / "started", tmp_path / "fake-git"
    fake.write_text(
        f'#!/bin/sh\nif [ "$1" = ls-files ]; then echo $$ >> {started}; exec sleep 600; fi\nexec git "$@"\n'
    )
    fake.chmod(0o755)
    request = asyncio.create_task(GitCommands(home, git=str(fake)).snapshot(REPOSITORY, repo.root))
    async with asyncio.timeout(30):
        while not (started.exists() and started.read_text().endswith("\n")):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    gc.collect()
    for child in started.read_text().split():
        with pytest.raises(ProcessLookupError):
            os.kill(int(child), 0)


async def test_h35_a_git_that_dies_harms_no_other_request(git, repo):
    commit = await git.fetch(REPOSITORY, repo.root, "HEAD")
    calls = [git.refer(REPOSITORY, commit, path, None) for path in ("a.txt", "../x", "src/app.py", "absent", "a.txt")]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [isinstance(answer, Refused) for answer in answers] == [False, True, False, True, False]


async def test_h28_files_with_odd_names_are_in_a_snapshot_and_lead_nowhere(git, repo):
    names = [b"tab\there", b'quote"d', b"new\nline", b"back\\slash", b"caf\xe9", b" D a.txt", "́nfd".encode()]
    for name in names:
        repo.write(os.fsdecode(name), b"x\n")
    snapshot = await git.snapshot(REPOSITORY, repo.root)
    assert len(snapshot.files) == len(names)
    assert len(await git.changes(REPOSITORY, snapshot.base, snapshot.commit)) == len(names)
