"""Git as the host uses it, on real repositories: find, fetch, refer, read, snapshot, compare, check out, trace."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tallystick.app.ports import Git
from tallystick.core.errors import ErrorCode, Refused
from tallystick.edge.git import GitCommands

REPOSITORY = "rep_01JAZ000000000000000000001"
OTHER = "rep_01JAZ000000000000000000002"
TASK = "tsk_01JAZ000000000000000000003"


@pytest.fixture
def private_umask():
    """The umask of a host: children of the host inherit it."""
    before = os.umask(0o077)
    yield
    os.umask(before)


def run_git(directory: Path, *arguments: str) -> str:
    """git as a person runs it, apart from any configuration of the machine."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": os.devnull,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        **{f"GIT_{who}_NAME": "Ann" for who in ("AUTHOR", "COMMITTER")},
        **{f"GIT_{who}_EMAIL": "ann@example.org" for who in ("AUTHOR", "COMMITTER")},
        **{f"GIT_{who}_DATE": "1700000000 +0000" for who in ("AUTHOR", "COMMITTER")},
    }
    command = ["git", *arguments]
    return subprocess.run(
        command, cwd=directory, env=environment, text=True, capture_output=True, check=True
    ).stdout.strip()


class Repo:
    """A user's repository."""

    def __init__(self, root: Path, *init: str) -> None:
        self.root = root
        root.mkdir(parents=True)
        self("init", "-q", "-b", "main", *init)

    def __call__(self, *arguments: str) -> str:
        return run_git(self.root, *arguments)

    def write(self, path: str, content: str | bytes) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return file

    def commit(self, message: str = "work") -> str:
        self("add", "-A")
        self("commit", "-q", "--allow-empty", "-m", message)
        return self("rev-parse", "HEAD")


def listing(folder: Path) -> dict[str, tuple[int, int, str]]:
    """Every entry below a directory with mode, mtime and digest."""
    found = {}
    for path in sorted(folder.rglob("*")):
        state = path.lstat()
        plain = path.is_file() and not path.is_symlink()
        digest = hashlib.sha256(path.read_bytes()).hexdigest() if plain else ""
        found[str(path.relative_to(folder))] = (state.st_mode, state.st_mtime_ns, digest)
    return found


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    made = Repo(tmp_path / "user")
    made.write("a.txt", "one\ntwo\nthree\n")
    made.write("src/app.py", "print('hello')\n")
    made.commit("first")
    return made


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def git(home: Path) -> GitCommands:
    return GitCommands(home, environment={"PATH": os.environ["PATH"]})


def refused(caught: pytest.ExceptionInfo[Refused]) -> ErrorCode:
    assert caught.value.message
    assert caught.value.remedy
    return caught.value.code


# --- find -------------------------------------------------------------------------------------------------------


async def test_a_directory_inside_a_repository_finds_its_top_level(git, repo):
    found = await git.find(repo.root / "src")
    assert (found.root, found.main_root) == (str(repo.root), str(repo.root))
    assert found.common_directory == str(repo.root / ".git")
    assert len(found.evidence) == 64


async def test_a_directory_outside_any_repository_finds_none(git, tmp_path):
    (tmp_path / "plain").mkdir()
    assert await git.find(tmp_path / "plain") is None
    assert await git.find(tmp_path / "absent") is None


async def test_bare_repositories_and_git_directories_find_none(git, repo, tmp_path):
    Repo(tmp_path / "bare", "--bare")
    Repo(repo.root / "sub" / "embedded", "--bare")
    assert await git.find(tmp_path / "bare") is None
    assert await git.find(repo.root / "sub" / "embedded") is None
    assert await git.find(repo.root / ".git" / "refs") is None


async def test_a_linked_work_tree_finds_its_main_one(git, repo, tmp_path):
    repo("worktree", "add", "-q", str(tmp_path / "linked"))
    found = await git.find(tmp_path / "linked")
    assert found.root == str(tmp_path / "linked")
    assert found.main_root == str(repo.root)
    assert found.common_directory == str(repo.root / ".git")
    assert found.evidence == (await git.find(repo.root)).evidence


@pytest.mark.parametrize("name", ["工作 区_a", "with space", "ünïcode", "c:x", '"quoted"', "-dash"])
async def test_odd_directory_names_work_from_find_to_check_out(git, home, tmp_path, name):
    repo = Repo(tmp_path / name / "仓库")
    repo.write("文件 a.txt", "x\n")
    repo.commit()
    found = await git.find(repo.root)
    assert found.root == str(repo.root)
    commit = await git.fetch(REPOSITORY, Path(found.root), "HEAD")
    reference = await git.refer(REPOSITORY, commit, "文件 a.txt", None)
    assert await git.read(reference) == b"x\n"
    repo.write("新.txt", "y\n")
    assert (await git.snapshot(REPOSITORY, repo.root)).files == ("新.txt",)
    await git.check_out(REPOSITORY, commit, home / "worktrees" / name)
    assert (home / "worktrees" / name / "文件 a.txt").read_bytes() == b"x\n"


async def test_a_home_with_an_odd_name_works(repo, tmp_path):
    home = tmp_path / 'my "home" : 家'
    git = GitCommands(home, environment={"PATH": os.environ["PATH"]})
    commit = await git.fetch(REPOSITORY, repo.root, "HEAD")
    await git.check_out(REPOSITORY, commit, home / "worktrees" / "t")
    assert "first" in run_git(home / "worktrees" / "t", "log", "--oneline")


async def test_a_link_to_a_repository_is_the_repository(git, repo, tmp_path):
    (tmp_path / "link").symlink_to(repo.root)
    assert await git.find(tmp_path / "link" / "src") == await git.find(repo.root)


async def test_evidence_is_shared_by_forks_and_not_by_strangers(git, repo, tmp_path):
    repo("clone", "-q", ".", str(tmp_path / "fork"))
    stranger = Repo(tmp_path / "stranger")
    stranger.write("b", "b")
    stranger.commit()
    mine = (await git.find(repo.root)).evidence
    assert (await git.find(tmp_path / "fork")).evidence == mine
    assert (await git.find(stranger.root)).evidence != mine


async def test_evidence_is_empty_where_it_cannot_be_told(git, repo, tmp_path):
    repo.commit("second")
    repo("clone", "-q", "--depth", "1", f"file://{repo.root}", str(tmp_path / "shallow"))
    empty = Repo(tmp_path / "empty")
    assert (await git.find(tmp_path / "shallow")).evidence == ""
    assert (await git.find(empty.root)).evidence == ""


# --- fetch ------------------------------------------------------------------------------------------------------


async def test_a_revision_is_fetched_with_its_history(git, repo):
    first = repo("rev-parse", "HEAD")
    second = repo.commit("second")
    assert await git.fetch(REPOSITORY, repo.root, "main") == second
    assert await git.has(REPOSITORY, first)
    assert await git.log_between(REPOSITORY, first, second) == [second]


@pytest.mark.parametrize("revision", ["HEAD~1", "main^", "v1", "refs/heads/main", "HEAD@{0}", "分支"])
async def test_revisions_are_resolved_as_git_does(git, repo, revision):
    repo.commit("second")
    repo("tag", "-a", "-m", "tag", "v1")
    repo("branch", "分支")
    assert await git.fetch(REPOSITORY, repo.root, revision) == repo("rev-parse", f"{revision}^{{commit}}")


async def test_a_revision_that_does_not_resolve_is_not_found(git, repo):
    for revision in ("absent", "f" * 40, "HEAD~7"):
        with pytest.raises(Refused) as caught:
            await git.fetch(REPOSITORY, repo.root, revision)
        assert refused(caught) is ErrorCode.NOT_FOUND
        assert "cannot be resolved" in caught.value.message


async def test_a_repository_without_commits_is_refused_clearly(git, tmp_path):
    empty = Repo(tmp_path / "empty")
    for call in (git.fetch(REPOSITORY, empty.root, "HEAD"), git.snapshot(REPOSITORY, empty.root)):
        with pytest.raises(Refused, match="no commits yet") as caught:
            await call
        assert refused(caught) is ErrorCode.NOT_FOUND


async def test_head_is_followed_however_it_moves(git, repo):
    async def head():
        return await git.fetch(REPOSITORY, repo.root, "HEAD")

    first = repo("rev-parse", "HEAD")
    assert await head() == await head() == first
    second = repo.commit("second")
    assert await head() == second
    repo("checkout", "-q", "--detach", "HEAD~1")
    assert await head() == first
    repo("checkout", "-q", "-b", "other/branch", "main")
    repo("pack-refs", "--all")
    assert await head() == repo("rev-parse", "main")
    third = repo.commit("third")
    assert await head() == third
    repo("reset", "-q", "--hard", "main")
    assert await head() == repo("rev-parse", "main")


async def test_a_fetched_commit_outlives_the_users_history(git, repo, home):
    commit = await git.fetch(REPOSITORY, repo.root, "HEAD")
    shutil.rmtree(repo.root)
    mirror = home / "mirrors" / f"{REPOSITORY}.git"
    run_git(mirror, "gc", "--prune=now", "-q")
    assert (await git.read(await git.refer(REPOSITORY, commit, "a.txt", None))) == b"one\ntwo\nthree\n"


async def test_the_mirror_is_private(git, repo, home, private_umask):
    await git.fetch(REPOSITORY, repo.root, "HEAD")
    for folder in (home / "mirrors", home / "mirrors" / f"{REPOSITORY}.git"):
        assert folder.stat().st_mode & 0o777 == 0o700
    assert not [
        path for path in (home / "mirrors").rglob("*") if path.lstat().st_mode & 0o077 and not path.is_symlink()
    ]


async def test_sha256_repositories_work(git, home, tmp_path):
    repo = Repo(tmp_path / "big", "--object-format=sha256")
    repo.write("a", "one\n")
    first = repo.commit()
    repo.write("a", "two\n")
    snapshot = await git.snapshot(REPOSITORY, repo.root)
    assert (len(snapshot.commit), snapshot.base) == (64, first)
    assert await git.read(await git.refer(REPOSITORY, snapshot.commit, "a", None)) == b"two\n"
    assert (await git.trace_line(repo.root, "a", 1)).uncommitted
    await git.check_out(REPOSITORY, snapshot.commit, home / "worktrees" / "t")
    assert (home / "worktrees" / "t" / "a").read_text() == "two\n"


async def test_another_object_format_under_the_same_id_is_a_conflict(git, repo, tmp_path):
    other = Repo(tmp_path / "big", "--object-format=sha256")
    other.commit()
    await git.fetch(REPOSITORY, repo.root, "HEAD")
    with pytest.raises(Refused) as caught:
        await git.fetch(REPOSITORY, other.root, "HEAD")
    assert refused(caught) is ErrorCode.CONFLICT


async def test_fetches_at_the_same_time_all_succeed(git, repo):
    commits = [repo.commit(f"c{number}") for number in range(6)]
    fetched = await asyncio.gather(*(git.fetch(REPOSITORY, repo.root, commit) for commit in commits * 2))
    assert fetched == commits * 2


async def test_what_a_killed_writer_left_is_cleared(git, repo, home):
    await git.fetch(REPOSITORY, repo.root, "HEAD")
    mirror = home / "mirrors" / f"{REPOSITORY}.git"
    second = repo.commit("second")
    left = [
        mirror / "packed-refs.lock",
        mirror / "refs" / "tally" / f"{second}.lock",
        mirror / "objects/pack/tmp_pack_x",
    ]
    for file in left:
        file.touch()
    (mirror / "incoming-x").mkdir()
    assert await git.fetch(REPOSITORY, repo.root, "HEAD") == second
    assert not [file for file in [*left, mirror / "incoming-x"] if file.exists()]


def kill_a_host_at(step: str, home: Path, repo: Repo) -> None:
    """A host whose git hangs at a step is killed, then the git that it left behind."""
    reached, stopping = home / "reached", home / "stopping-git"
    stopping.parent.mkdir(exist_ok=True)
    real = shutil.which("git")
    hang = f'if [ "$1" = {step} ]; then echo $$ > {reached}.new; mv {reached}.new {reached}; exec sleep 600; fi'
    stopping.write_text(f'#!/bin/sh\n{hang}\nexec {real} "$@"\n')
    stopping.chmod(0o755)
    program = (
        "import asyncio; from pathlib import Path; from tallystick.edge.git import GitCommands\n"
        f"git = GitCommands(Path({str(home)!r}), git={str(stopping)!r})\n"
        f"asyncio.run(git.snapshot({REPOSITORY!r}, Path({str(repo.root)!r})))\n"
    )
    with subprocess.Popen([sys.executable, "-c", program]) as host:
        while not reached.exists() and host.poll() is None:
            pass
        host.kill()
    os.kill(int(reached.read_text()), signal.SIGKILL)


@pytest.mark.parametrize("step", ["init", "pack-objects", "index-pack", "fast-import", "update-ref"])
async def test_a_host_killed_in_the_middle_leaves_a_usable_mirror(git, repo, home, step):
    repo.write("new.txt", "n\n")
    await asyncio.to_thread(kill_a_host_at, step, home, repo)
    async with asyncio.timeout(60):
        snapshot = await git.snapshot(REPOSITORY, repo.root)
    assert snapshot.files == ("new.txt",)
    assert await git.has(REPOSITORY, snapshot.base)


async def test_many_fetches_keep_the_mirror_small(git, repo, home, monkeypatch):
    monkeypatch.setattr("tallystick.edge.git.mirror._PACKS", 4)
    monkeypatch.setattr("tallystick.edge.git.mirror._LOOSE_PINS", 4)
    commits = []
    for number in range(8):
        commits.append(repo.commit(f"c{number}"))
        await git.fetch(REPOSITORY, repo.root, "HEAD")
    mirror = home / "mirrors" / f"{REPOSITORY}.git"
    assert len(list(mirror.glob("objects/pack/*.pack"))) < 8
    assert (mirror / "packed-refs").exists()
    assert all([await git.has(REPOSITORY, commit) for commit in commits])
    assert await git.fetch(REPOSITORY, repo.root, commits[0]) == commits[0]


# --- nothing is written to the user's repository ----------------------------------------------------------------


async def test_no_operation_changes_the_users_git_directory_or_files(git, repo, home):
    base = repo("rev-parse", "HEAD")
    repo.write("a.txt", "one\nTWO\nthree\n")
    repo.write("staged.txt", "s\n")
    repo("add", "staged.txt")
    repo.write("untracked.txt", "u\n")
    target = home / "worktrees" / "t"
    before = listing(repo.root)

    async def unchanged(call):
        result = await call
        assert listing(repo.root) == before
        return result

    await unchanged(git.find(repo.root))
    await unchanged(git.fetch(REPOSITORY, repo.root, "HEAD"))
    snapshot = await unchanged(git.snapshot(REPOSITORY, repo.root))
    reference = await unchanged(git.refer(REPOSITORY, snapshot.commit, "a.txt", (2, 2)))
    await unchanged(git.read(reference))
    await unchanged(git.changes(REPOSITORY, base, snapshot.commit))
    await unchanged(git.is_ancestor(REPOSITORY, base, snapshot.commit))
    await unchanged(git.check_out(REPOSITORY, snapshot.commit, target, ("src",), base))
    await unchanged(git.remove(target))
    await unchanged(git.trace_line(repo.root, "a.txt", 1))
    await unchanged(git.log_between(REPOSITORY, base, snapshot.commit))
    await unchanged(git.trailers(REPOSITORY, [base]))
    await unchanged(git.has(REPOSITORY, base))


# --- references -------------------------------------------------------------------------------------------------


async def test_a_reference_reads_back_the_bytes(git, repo):
    commit = await git.fetch(REPOSITORY, repo.root, "HEAD")
    reference = await git.refer(REPOSITORY, commit, "src/app.py", None)
    assert reference.sha256 == hashlib.sha256(b"print('hello')\n").hexdigest()
    assert (reference.size, reference.mode, reference.object) == (15, "100644", repo("rev-parse", "HEAD:src/app.py"))
    assert await git.read(reference) == b"print('hello')\n"


async def test_a_whole_tree_is_referred_to_by_its_listing(git, repo):
    commit = await git.fetch(REPOSITORY, repo.root, "HEAD")
    reference = await git.refer(REPOSITORY, commit, "", None)
    data = await git.read(reference)
    assert reference.object == repo("rev-parse", "HEAD^{tree}")
    assert reference.sha256 == hashlib.sha256(data).hexdigest()
    assert b"\tsrc/app.py\0" in data


async def test_a_reference_to_lines_reads_only_them(git, repo):
    commit = await git.fetch(REPOSITORY, repo.root, "HEAD")
    reference = await git.refer(REPOSITORY, commit, "a.txt", (2, 3))
    assert await git.read(reference) == b"two\nthree\n"
    assert reference.lines_sha256 == hashlib.sha256(b"two\nthree\n").hexdigest()


async def test_a_reference_into_a_snapshot_names_its_base(git, repo):
    repo.write("new.txt", "n\n")
    snapshot = await git.snapshot(REPOSITORY, repo.root)
    assert (await git.refer(REPOSITORY, snapshot.commit, "new.txt", None)).snapshot_of == snapshot.base
    assert (await git.refer(REPOSITORY, snapshot.base, "a.txt", None)).snapshot_of == ""


# --- snapshots --------------------------------------------------------------------------------------------------


async def test_a_snapshot_has_changed_staged_new_and_deleted_files_but_no_ignored_ones(git, repo):
    repo.write(".gitignore", "*.log\n")
    repo.write("gone.txt", "g\n")
    repo.write("turned", "file\n")
    base = repo.commit()
    repo.write("a.txt", "changed\n")
    repo.write("staged.txt", "s\n")
    repo("add", "staged.txt")
    repo.write("new 文.txt", "n\n")
    repo.write("noise.log", "secret\n")
    (repo.root / "gone.txt").unlink()
    (repo.root / "turned").unlink()
    repo.write("turned/inside", "i\n")
    repo.write("tool", "#!/bin/sh\n").chmod(0o755)
    (repo.root / "link").symlink_to("/etc/passwd")
    snapshot = await git.snapshot(REPOSITORY, repo.root)
    assert snapshot.base == base
    changes = {change.path: change.status for change in await git.changes(REPOSITORY, base, snapshot.commit)}
    assert changes == {
        "a.txt": "M", "staged.txt": "A", "new 文.txt": "A", "gone.txt": "D", "turned": "D", "turned/inside": "A",
        "tool": "A", "link": "A",
    }  # fmt: skip
    assert snapshot.files == tuple(sorted(changes))
    assert (await git.refer(REPOSITORY, snapshot.commit, "tool", None)).mode == "100755"


async def test_a_directory_that_became_a_file_is_in_the_snapshot(git, repo):
    base = repo("rev-parse", "HEAD")
    shutil.rmtree(repo.root / "src")
    repo.write("src", "now a file\n")
    snapshot = await git.snapshot(REPOSITORY, repo.root)
    changes = {change.path: change.status for change in await git.changes(REPOSITORY, base, snapshot.commit)}
    assert changes == {"src": "A", "src/app.py": "D"}


async def test_the_same_work_gives_the_same_snapshot_by_the_host(git, repo, home):
    repo.write("a.txt", "changed\n")
    first = await git.snapshot(REPOSITORY, repo.root)
    assert await git.snapshot(REPOSITORY, repo.root) == first
    mirror = home / "mirrors" / f"{REPOSITORY}.git"
    said = run_git(mirror, "log", "-1", "--format=%an|%cn|%s", first.commit)
    assert said == "Tallystick host|Tallystick host|snapshot of uncommitted work"


async def test_without_uncommitted_work_the_snapshot_is_the_last_commit(git, repo):
    head = repo("rev-parse", "HEAD")
    snapshot = await git.snapshot(REPOSITORY, repo.root)
    assert (snapshot.commit, snapshot.base, snapshot.files) == (head, head, ())


async def test_a_snapshot_equals_what_git_itself_would_commit(git, repo):
    repo.write(".gitattributes", "*.bat text eol=crlf\n*.txt text=auto\n")
    repo.write("run.bat", "a\r\nb\r\n")
    repo.commit()
    repo.write("run.bat", "a\r\nchanged\r\n")
    repo.write("new.txt", "x\r\ny\r\n")
    repo.write("raw.bin", b"\0\r\n")
    snapshot = await git.snapshot(REPOSITORY, repo.root)
    tree = (await git.refer(REPOSITORY, snapshot.commit, "", None)).object
    repo.commit()
    assert tree == repo("rev-parse", "HEAD^{tree}")


async def test_unchanged_crlf_files_are_no_change(git, repo):
    repo.write(".gitattributes", "*.bat text eol=crlf\n")
    repo.write("run.bat", "a\r\n")
    repo.commit()
    assert (await git.snapshot(REPOSITORY, repo.root)).files == ()


async def test_files_of_git_lfs_become_their_pointers(git, repo):
    repo.write(".gitattributes", "*.bin filter=lfs -text\n")
    data = b"\0large\r\n"
    pointer = (
        f"version https://git-lfs.github.com/spec/v1\noid sha256:{hashlib.sha256(data).hexdigest()}\nsize {len(data)}\n"
    )
    repo.write("x.bin", pointer)
    repo.commit()
    repo.write("x.bin", data)
    assert (await git.snapshot(REPOSITORY, repo.root)).files == ()


async def test_what_a_person_ignores_everywhere_stays_out(repo, home, tmp_path):
    config = tmp_path / "config"
    (config / "git").mkdir(parents=True)
    (config / "git" / "ignore").write_text(".env\n")
    git = GitCommands(home, environment={"PATH": os.environ["PATH"], "XDG_CONFIG_HOME": str(config)})
    repo.write(".env", "TOKEN=1\n")
    assert (await git.snapshot(REPOSITORY, repo.root)).files == ()


async def test_a_sparse_checkout_deletes_nothing(git, repo):
    repo("sparse-checkout", "set", "--no-cone", "/a.txt")
    assert not (repo.root / "src").exists()
    assert (await git.snapshot(REPOSITORY, repo.root)).files == ()


async def test_a_linked_work_tree_has_its_own_snapshot(git, repo, tmp_path):
    repo("worktree", "add", "-q", "-b", "side", str(tmp_path / "linked"))
    (tmp_path / "linked" / "a.txt").write_text("linked\n")
    snapshot = await git.snapshot(REPOSITORY, tmp_path / "linked")
    assert snapshot.files == ("a.txt",)
    assert (await git.snapshot(REPOSITORY, repo.root)).files == ()


async def test_submodules_stay_as_they_are_and_nested_repositories_are_named(git, repo, tmp_path):
    inner = Repo(tmp_path / "inner")
    inner.commit()
    repo("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner.root), "module")
    repo.commit()
    nested = Repo(repo.root / "nested")
    nested.write("x", "x")
    nested.commit()
    repo.write("module/extra", "e")
    snapshot = await git.snapshot(REPOSITORY, repo.root)
    assert (snapshot.files, snapshot.left_out) == ((), ("nested/",))


async def test_file_modes_do_not_count_where_git_is_told_so(git, repo):
    repo("config", "core.fileMode", "false")
    (repo.root / "a.txt").chmod(0o755)
    assert (await git.snapshot(REPOSITORY, repo.root)).files == ()


# --- history ----------------------------------------------------------------------------------------------------


async def test_changes_tell_status_size_and_blankness(git, repo):
    base = await git.fetch(REPOSITORY, repo.root, "HEAD")
    repo.write("a.txt", "")
    repo.write("white", " \n\t\n")
    repo.write("real", "x")
    repo("mv", "src/app.py", "src/moved.py")
    commit = repo.commit()
    await git.fetch(REPOSITORY, repo.root, commit)
    changes = {c.path: (c.status, c.size, c.blank) for c in await git.changes(REPOSITORY, base, commit)}
    assert changes == {
        "a.txt": ("M", 0, True),
        "white": ("A", 4, True),
        "real": ("A", 1, False),
        "src/app.py": ("D", 0, False),
        "src/moved.py": ("A", 15, False),
    }


async def test_a_file_that_became_a_link_is_a_change_of_type(git, repo):
    base = await git.fetch(REPOSITORY, repo.root, "HEAD")
    (repo.root / "a.txt").unlink()
    (repo.root / "a.txt").symlink_to("src/app.py")
    commit = repo.commit()
    await git.fetch(REPOSITORY, repo.root, commit)
    assert [c.status for c in await git.changes(REPOSITORY, base, commit)] == ["T"]


async def test_ancestry_is_told_both_ways(git, repo):
    first = await git.fetch(REPOSITORY, repo.root, "HEAD")
    second = repo.commit()
    await git.fetch(REPOSITORY, repo.root, "HEAD")
    assert await git.is_ancestor(REPOSITORY, first, second)
    assert await git.is_ancestor(REPOSITORY, first, first)
    assert not await git.is_ancestor(REPOSITORY, second, first)


async def test_commits_of_an_unknown_repository_are_not_found(git, repo):
    commit = repo("rev-parse", "HEAD")
    assert not await git.has(OTHER, commit)
    for call in (
        git.refer(OTHER, commit, "a.txt", None),
        git.changes(OTHER, commit, commit),
        git.is_ancestor(OTHER, commit, commit),
        git.log_between(OTHER, commit, commit),
    ):
        with pytest.raises(Refused) as caught:
            await call
        assert refused(caught) is ErrorCode.NOT_FOUND


async def test_trailers_lead_from_commits_to_tasks(git, repo):
    named = repo.commit(f"work\n\nTally-Task: {TASK}\n")
    forged = repo.commit("work\n\nTally-Task: not an id\n")
    plain = repo.commit(f"mentions Tally-Task: {TASK} only in passing\n\nmore text")
    await git.fetch(REPOSITORY, repo.root, "HEAD")
    assert await git.trailers(REPOSITORY, [named, forged, plain, "f" * 40]) == {named: TASK}
    assert await git.trailers(REPOSITORY, []) == {}


async def test_a_line_is_traced_to_its_commit(git, repo):
    first = repo("rev-parse", "HEAD")
    repo("mv", "a.txt", "b.txt")
    repo.commit("renamed")
    repo.write("b.txt", "zero\none\ntwo\nthree\n")
    repo.write("fresh.txt", "f\n")
    two = await git.trace_line(repo.root, "b.txt", 3)
    assert (two.commit, two.original_path, two.original_line, two.text) == (first, "a.txt", 2, "two")
    assert not two.uncommitted
    assert (await git.trace_line(repo.root, "b.txt", 1)).uncommitted
    assert (await git.trace_line(repo.root, "fresh.txt", 1)).uncommitted


async def test_a_line_that_is_not_there_is_refused(git, repo):
    for path, line in (("a.txt", 4), ("a.txt", 0), ("absent", 1)):
        with pytest.raises(Refused) as caught:
            await git.trace_line(repo.root, path, line)
        refused(caught)


# --- work trees -------------------------------------------------------------------------------------------------


async def test_a_work_tree_is_clean_and_git_works_inside(git, repo, home):
    repo.write("tool", "#!/bin/sh\n").chmod(0o755)
    (repo.root / "link").symlink_to("a.txt")
    commit = repo.commit()
    await git.fetch(REPOSITORY, repo.root, "HEAD")
    target = home / "worktrees" / "check" / "one"
    await git.check_out(REPOSITORY, commit, target)

    assert run_git(target, "rev-parse", "HEAD") == commit
    assert run_git(target, "status", "--porcelain") == ""
    assert run_git(target, "diff", "HEAD") == ""
    assert len(run_git(target, "log", "--format=%H").split()) == 2
    assert run_git(target, "fsck", "--connectivity-only") == ""
    assert os.access(target / "tool", os.X_OK)
    assert (target / "link").readlink() == Path("a.txt")
    assert (await git.find(target)).root == str(target)


async def test_work_done_in_a_work_tree_comes_back(git, repo, home):
    base = await git.fetch(REPOSITORY, repo.root, "HEAD")
    target = home / "worktrees" / "t"
    await git.check_out(REPOSITORY, base, target)
    (target / "new.py").write_text("x = 1\n")
    snapshot = await git.snapshot(REPOSITORY, target)
    assert (snapshot.base, snapshot.files) == (base, ("new.py",))
    run_git(target, "add", "-A")
    run_git(target, "commit", "-qm", "agent")
    commit = await git.fetch(REPOSITORY, target, "HEAD")
    await git.remove(target)
    assert [change.path for change in await git.changes(REPOSITORY, base, commit)] == ["new.py"]


async def test_protected_paths_are_taken_from_the_base(git, repo, home):
    repo.write("tests/test_a.py", "assert True\n")
    repo.write("tests/deep/test_b.py", "assert 1\n")
    repo.write("check.sh", "exit 1\n")
    base = repo.commit()
    repo.write("tests/test_a.py", "pass\n")
    repo.write("tests/test_new.py", "assert 2\n")
    repo.write("check.sh", "exit 0\n")
    repo.write("a.txt", "work\n")
    shutil.rmtree(repo.root / "tests" / "deep")
    (repo.root / "tests" / "deep").symlink_to("/etc")
    commit = repo.commit()
    await git.fetch(REPOSITORY, repo.root, "HEAD")
    target = home / "worktrees" / "t"
    await git.check_out(REPOSITORY, commit, target, ("tests", "check.sh", "absent"), base)
    assert (target / "tests/test_a.py").read_text() == "assert True\n"
    assert (target / "tests/deep/test_b.py").read_text() == "assert 1\n"
    assert (target / "check.sh").read_text() == "exit 1\n"
    assert (target / "tests/test_new.py").read_text() == "assert 2\n"
    assert (target / "a.txt").read_text() == "work\n"


async def test_a_place_that_is_taken_is_refused_and_left_alone(git, repo, home):
    commit = await git.fetch(REPOSITORY, repo.root, "HEAD")
    target = home / "worktrees" / "t"
    target.mkdir(parents=True)
    (target / "mine").touch()
    with pytest.raises(Refused) as caught:
        await git.check_out(REPOSITORY, commit, target)
    assert refused(caught) is ErrorCode.CONFLICT
    assert [path.name for path in target.iterdir()] == ["mine"]


async def test_removing_takes_the_tree_whatever_was_left_in_it(git, repo, home, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "keep").touch()
    commit = await git.fetch(REPOSITORY, repo.root, "HEAD")
    target = home / "worktrees" / "t"
    await git.check_out(REPOSITORY, commit, target)
    (target / "out").symlink_to(outside)
    (target / "locked").mkdir()
    (target / "locked" / "x").touch()
    (target / "locked").chmod(0)
    await git.remove(target)
    await git.remove(target)
    assert not target.exists()
    assert (outside / "keep").exists()


async def test_the_version_of_git_is_told(git):
    assert (await git.version())[0].isdigit()


async def test_a_machine_without_git_is_told_so(home, repo):
    with pytest.raises(Refused) as caught:
        await GitCommands(home, git="no-such-git").version()
    assert refused(caught) is ErrorCode.UNSUPPORTED


async def test_a_home_that_cannot_be_written_is_a_refusal(repo, tmp_path):
    (tmp_path / "home").write_text("a file\n")
    git = GitCommands(tmp_path / "home", environment={"PATH": os.environ["PATH"]})
    with pytest.raises(Refused) as caught:
        await git.fetch(REPOSITORY, repo.root, "HEAD")
    assert refused(caught) is ErrorCode.UNAVAILABLE


async def test_the_edge_is_what_the_port_asks_for():
    public = {name for name in vars(Git) if not name.startswith("_")}
    for name in public:
        asked, given = inspect.signature(getattr(Git, name)), inspect.signature(getattr(GitCommands, name))
        assert given.parameters == asked.parameters
        assert given.return_annotation == asked.return_annotation
        assert getattr(GitCommands, name).__doc__
