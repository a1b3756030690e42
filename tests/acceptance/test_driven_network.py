"""Sessions of real coding clients whose network is limited to their model: they work, and nothing else is reached."""

from __future__ import annotations

import json
import shutil

import pytest

from tests.acceptance.test_driven_clients import ESCALATED, SUBMIT, TAKE, canary
from tests.support import tls
from tests.support.driven import DONE, DRIVEN_BY_CHOICE, RealStage, Stage
from tests.support.driven import TAKE as TAKE_IT
from tests.support.hosts import eventually
from tests.support.model import Model, script

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="NO SANDBOX WAS TESTED: install bubblewrap")
SECONDS = 90
PROBE = "curl -sS -m 5 http://127.0.0.1:{port}/ 2>&1 || true; curl -sS -m 5 http://example.org/ 2>&1 || true"


@pytest.fixture(scope="module", params=["codex", "claude"])
def stage(request):
    with Model(canary(request.param)) as model, RealStage(request.param, model, turn_note_seconds=0.2) as stage:
        assert stage.start()
        port = model.url.rpartition(":")[2]
        stage.join(more=f'[network]\nallow = ["127.0.0.1:{port}"]\n', required="E3")
        yield stage


def driven(stage):
    """The session that is looked at."""
    return next(a for a in stage.call("agents")["agents"] if a["name"] == "@reviewer")["driven"][0]


def ask(stage, *steps):
    return stage.call("ask", address="@reviewer", title="Look", body=script(*steps))["task_id"]


def test_its_model_answers_and_it_asks_before_it_acts(stage: RealStage) -> None:
    task = ask(stage, TAKE, SUBMIT, {"text": "Done."})
    shown = stage.until(task, "completed", "input_required/question", seconds=SECONDS)
    assert shown["result"] == "I looked: all is well.", shown["history"]
    found = driven(stage)
    assert found["level"] == "E3"
    assert f"network: only {stage.model.url.removeprefix('http://')};" in found["rests_on"]
    assert "asked for, denied and not carried out" in found["rests_on"]


def test_what_its_commands_ask_for_elsewhere_is_not_reached(stage: RealStage) -> None:
    with Model() as elsewhere:
        probe = PROBE.format(port=elsewhere.url.rpartition(":")[2])
        step = {"shell": f"({probe}) > seen.txt", "args": ESCALATED[stage.client_name]}
        task = ask(stage, TAKE, step, SUBMIT, {"text": "Done."})
        asked = stage.permission(task)
        code, _, err = stage.tally("permission", "allow", asked["permission_id"])
        assert code == 0, err
        shown = stage.until(task, "completed", "input_required/question", seconds=SECONDS)
        assert elsewhere.requests == []
    session = shown["attempts"][0]["session"]
    seen = (stage.path / "worktrees" / session / "seen.txt").read_text()
    assert "Failed to connect to 127.0.0.1" in seen
    assert "example.org:80 is refused" in seen


def test_codex_runs_plain_commands_in_its_own_sandbox_inside_of_ours(stage: RealStage) -> None:
    if stage.client_name != "codex":
        pytest.skip("the other has no sandbox of its own")
    task = ask(stage, TAKE, {"shell": "echo written > plain.txt; touch $HOME/outside.txt"}, SUBMIT, {"text": "Done."})
    shown = stage.until(task, "completed", "input_required/question", seconds=SECONDS)
    tree = stage.path / "worktrees" / shown["attempts"][0]["session"]
    assert (tree / "plain.txt").read_text() == "written\n", json.dumps(shown["history"])
    assert not shown["permissions"]
    assert not (stage.person / "home" / "outside.txt").exists()


@pytest.mark.parametrize("client", ["codex", "claude", *DRIVEN_BY_CHOICE])
def test_a_client_goes_by_the_proxy_to_a_model_that_it_knows_by_name(client: str) -> None:
    with Model() as model, RealStage(client, model, host="model.example") as stage:
        assert stage.start()
        port = model.url.rpartition(":")[2]
        lists = f'canary = false\n[network]\nallow = ["model.example:{port}", "127.0.0.1:{port}"]\n'
        stage.join(more=lists, required="E3")
        task = ask(stage, TAKE, SUBMIT, {"text": "Done."})
        shown = stage.until(task, "completed", "input_required/question", seconds=SECONDS)
        assert shown["result"] == "I looked: all is well.", (shown["history"], stage.said())
        stage.stop()
        log = [json.loads(line) for line in (stage.path / "log" / "host.jsonl").read_text().splitlines()]
        used = next(line["endpoints"] for line in log if line["kind"] == "network used")
        assert list(used) == [f"model.example:{port}"]


def test_where_no_sandbox_starts_inside_of_another_codex_keeps_its_own_unless_its_network_is_limited() -> None:
    with Model(canary("codex")) as model, RealStage("codex", model) as stage:
        assert stage.start(nests=False)
        stage.join(required="E3")
        task = ask(stage, TAKE, SUBMIT, {"text": "Done."})
        said = eventually(
            lambda: next((x["error"] for x in stage.show(task)["history"] if x["what"] == "did not begin"), None)
        )
        assert "does not start inside of ours" in said
        stage.call("cancel", task=task, text="")
        port = model.url.rpartition(":")[2]
        (stage.person / "home" / ".codex" / "config.toml").unlink()
        (stage.person / "home" / ".codex").rmdir()
        stage.join(more=f'[network]\nallow = ["127.0.0.1:{port}"]\n', required="E3")
        stage.until(ask(stage, TAKE, SUBMIT, {"text": "Done."}), "completed", seconds=SECONDS)
        assert "its client's own sandbox does not start in there" in driven(stage)["rests_on"]


def test_a_program_in_a_limited_session_speaks_tls_with_what_is_listed_and_with_nothing_else(tmp_path) -> None:
    files = tls.certificate(tmp_path, "model.example")
    with tls.site(files) as model, tls.site(files) as other, Stage() as stage:
        assert stage.start(names={"model.example": "127.0.0.1", "other.example": "127.0.0.1"})
        port, elsewhere = model.server_address[1], other.server_address[1]
        stage.plan()
        limit = f'[network]\nallow = ["model.example:{port}", "127.0.0.1:{port}"]\n'
        stage.driven(more=f"canary = false\n{limit}", required="E3")
        (stage.folder / "ca.pem").write_bytes(files[0].read_bytes())
        curl = f"curl -sS -m 10 --cacert {stage.folder / 'ca.pem'}"
        urls = [f"{place}:{port}" for place in ("model.example", "other.example")]
        urls += [f"{place}:{elsewhere}" for place in ("model.example", "127.0.0.1")]
        runs = [{"run": f"{curl} https://{url}/{n} >> seen.txt 2>&1; true"} for n, url in enumerate(urls)]
        task = stage.ask(TAKE_IT, *runs, DONE)
        session = stage.until(task, "completed", seconds=SECONDS)["attempts"][0]["session"]
        seen = (stage.path / "worktrees" / session / "seen.txt").read_text()
        assert seen.count("over TLS") == 1, seen
        assert model.asked == ["/0"]
        assert other.asked == []

        def told():
            words = " ".join(line["text"] for line in stage.show(task)["history"])
            return all(f"network: {url} was refused" in words for url in urls[1:3])

        eventually(told, "what was refused, as lines of the turn")
