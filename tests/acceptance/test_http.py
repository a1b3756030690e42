"""The host API over HTTP and WebSocket: a real host that listens, and two agents at work through it."""

import copy
import json
import os
import signal
import ssl
import stat
import subprocess
from contextlib import contextmanager

import httpx
import jsonschema
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tallystick import bootstrap
from tallystick.edge.api.verbs import VERBS
from tests.support.hosts import SECONDS, eventually
from tests.support.web import Site, done, stream, verb


@pytest.fixture(scope="module")
def served():
    with Site() as site:
        site.up()
        yield site


@pytest.fixture
def site():
    with Site() as site:
        yield site


@pytest.fixture
def client(served):
    with served.client() as client:
        yield client


def names(prefix="x", count=[0]):  # noqa: B006 - tests share a host, so each has agents of its own
    count[0] += 1
    return f"{prefix}-{count[0]}"


@pytest.fixture
def pair(client):
    """Two mailbox agents in `default`."""
    found = names("alice"), names("bob")
    for name in found:
        done(client, "join", {"name": name})
    return found


def ask(client, sender, to, title="Look at it", **more):
    return done(client, "ask", {"address": f"@{to}", "title": title, "expect": "answer", **more}, as_=sender)["task_id"]


def finish(client, name, task):
    fence = done(client, "take", {"task": task}, as_=name)["fence"]
    return done(client, "submit", {"task": task, "text": "It is so.", "fence": fence}, as_=name)


# --- the main job ------------------------------------------------------------------------------------------------


def test_two_agents_go_from_ask_to_result(client, pair):
    alice, bob = pair
    task = ask(client, alice, bob, "How many?", body="Count the files.")
    turns = done(client, "inbox", as_=bob)["turns"]
    assert [(turn["task_id"], turn["from"], turn["kind"]) for turn in turns] == [(task, f"@{alice}", "take")]
    taken = done(client, "take", {"task": task}, as_=bob)
    assert taken["title"] == "How many?"
    status, answer = verb(client, "submit", {"task": task, "text": "Seven."}, as_=bob)
    assert (status, answer["error"]["code"]) == (400, "invalid")  # the fence is missing
    moved = done(client, "submit", {"task": task, "text": "Seven.", "fence": taken["fence"]}, as_=bob)
    assert moved["state"] == "completed"
    shown = done(client, "show", {"task": task}, as_=alice)
    assert shown["state"] == "completed"
    assert "Seven." in json.dumps(shown)
    assert [line["task_id"] for line in shown["history"]] == [task] * len(shown["history"])


def test_the_same_key_asks_once(client, pair):
    alice, bob = pair
    form = {"address": f"@{bob}", "title": "Once", "expect": "answer", "key": "k1"}
    first, second = (done(client, "ask", form, as_=alice) for _ in range(2))
    assert first["task_id"] == second["task_id"]
    assert second["duplicate"]


def test_a_person_comes_by_token_and_is_asserted(served, client):
    me = done(client, "whoami")
    assert (me["kind"], me["assertion"], me["read_only"]) == ("person", "asserted", False)
    task = done(client, "ask", {"address": "@human", "title": "For me", "expect": "answer"})["task_id"]
    assert done(client, "trace", {"task": task})["events"][0]["asserted"]


def test_verbs_of_a_person_are_refused_over_http(client, pair):
    task = done(client, "ask", {"address": f"@{pair[0]}", "title": "Mine", "expect": "answer"})["task_id"]
    fence = done(client, "take", {"task": task}, as_=pair[0])["fence"]
    done(client, "submit", {"task": task, "text": "So.", "fence": fence, "review": True}, as_=pair[0])
    for name, args in (("approve", {"task": task}), ("join", {"name": names(), "run": ["true"]})):
        status, answer = verb(client, name, args)
        assert (status, answer["error"]["code"]) == (403, "denied"), answer
        assert "terminal" in answer["error"]["message"]


def test_with_the_setting_uid_a_token_is_the_person(site):
    site.up(settings='person_verbs = "uid"\n')
    with site.client() as client:
        done(client, "join", {"name": "tester", "run": ["true"]})


def test_what_a_caller_says_of_its_environment_is_not_taken(client):
    for field in ("env", "cwd", "tty", "id", "op"):
        response = client.post("/v1/whoami", json={field: {}})
        assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid")


# --- the events --------------------------------------------------------------------------------------------------


def take(events, task, count):
    """What comes until so many events of a task were among it."""
    found = []
    while sum(event["task_id"] == task for _, event in found) < count:
        found.append(next(events))
    return found


def test_a_stream_goes_on_after_a_reconnect_without_loss_or_doubling(client, pair):
    alice, bob = pair
    with stream(client, **{"as": alice}) as (_, events):
        first = ask(client, alice, bob)
        seen = take(events, first, 1)
    finish(client, bob, first)  # while nobody listens
    second = ask(client, alice, bob)
    for how in ("last", "after"):
        with stream(client, **{"as": alice, how: seen[-1][0]}) as (begin, events):
            assert begin == seen[-1][0]
            if how == "last":
                finish(client, bob, second)  # while somebody does
            after = take(events, second, 3)
        told = [event for _, event in [*seen, *after]]
        mine = [event for event in told if event["task_id"] in (first, second)]
        lines = [line for task in (first, second) for line in done(client, "trace", {"task": task})["events"]]
        assert [facts(e) for e in mine] == [facts(e) for e in sorted(lines, key=lambda e: e["position"])]
        assert len({cursor for cursor, _ in [*seen, *after]}) == len(told)


def facts(line):
    """What a line says by itself; where it came from is known to whoever reads a whole history."""
    return {key: value for key, value in line.items() if key not in ("position", "before", "seconds")}


def test_a_stream_may_be_resumed_from_its_very_beginning(client, pair):
    with stream(client, **{"as": pair[0]}) as (begin, _):
        pass
    task = ask(client, *pair)
    with stream(client, **{"as": pair[0], "after": begin}) as (_, events):
        while next(events)[1]["task_id"] != task:
            pass


def test_a_cursor_outlives_the_host(site):
    site.up()
    with site.client() as client:
        done(client, "join", {"name": "alice"})
        with stream(client) as (begin, _):
            pass
        task = done(client, "ask", {"address": "@alice", "title": "T", "expect": "answer"})["task_id"]
    assert site.tally("down")[0] == 0
    site.child.wait(SECONDS)
    site.up()
    with site.client() as client, stream(client, after=begin) as (_, events):
        while next(events)[1]["task_id"] != task:
            pass


@pytest.fixture
def repository(tmp_path):
    for words in (
        ["init", "-q"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-mx"],
    ):
        subprocess.run(["git", "-C", tmp_path, *words], check=True)
    return tmp_path


def test_a_reader_sees_its_own_workspaces_alone_and_its_cursor_is_for_nobody_else(served, client, pair, repository):
    name = names("carol")
    assert served.tally("join", name, cwd=repository)[0] == 0
    with stream(client, **{"as": name, "workspace": str(repository)}) as (cursor, events):
        ask(client, *pair)  # elsewhere
        own = done(
            client,
            "ask",
            {"address": f"@{name}", "title": "Here", "expect": "answer"},
            workspace=str(repository),
        )["task_id"]
        seen = []
        while not seen or seen[-1]["task_id"] != own:
            seen.append(next(events)[1])
        place = seen[-1]["workspace"]
        assert {event["workspace"] for event in seen} == {place}
        assert all("position" not in event for event in seen)
    response = client.get("/v1/events", params={"as": pair[0], "after": cursor})
    assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid")


def test_what_an_agent_has_left_it_sees_no_more(served, client, pair, repository):
    name = names("carol")
    done(client, "join", {"name": name})
    assert served.tally("join", name, cwd=repository)[0] == 0
    with stream(client, **{"as": name, "workspace": str(repository)}) as (_, events):
        assert served.tally("leave", name, "--workspace", "default")[0] == 0
        unseen = ask(client, *pair)
        form = {"address": f"@{name}", "title": "Here", "expect": "answer"}
        seen = done(client, "ask", form, workspace=str(repository))["task_id"]
        told = []
        while seen not in told:
            told.append(next(events)[1]["task_id"])
        assert unseen not in told


def test_streams_end_when_the_host_stops(site):
    site.up()
    with site.client() as client, stream(client) as (_, events), connect_ws(site) as ws:
        assert site.tally("down")[0] == 0
        assert list(events) == []
        assert json.loads(ws.recv(SECONDS))["error"]["code"] == "unavailable"
        with pytest.raises(ConnectionClosed):
            ws.recv(SECONDS)
    assert site.child.wait(SECONDS) == 0


# --- WebSocket ---------------------------------------------------------------------------------------------------

HELLO = {"hello": {"protocol": [1, 1], "client": "test", "version": "0"}}


@contextmanager
def connect_ws(site, hello=None, **options):
    options.setdefault("additional_headers", {"authorization": f"Bearer {site.token}"})
    address = site.url.replace("http", "ws") + "/v1/socket"
    with connect(address, proxy=None, open_timeout=SECONDS, **options) as ws:
        ws.send(json.dumps(hello or HELLO))
        welcome = json.loads(ws.recv(SECONDS))
        assert "welcome" in welcome, welcome
        yield ws


def call(ws, number, op, **fields):
    ws.send(json.dumps({"id": number, "op": op, **fields}))
    return json.loads(ws.recv(SECONDS))


def test_a_websocket_carries_the_lines_of_the_socket(served, client, pair):
    alice, bob = pair
    with connect_ws(served) as ws:
        args = {"address": f"@{bob}", "title": "T", "expect": "answer"}
        asked = call(ws, 1, "ask", **{"as": alice, "args": args})
        assert asked["id"] == 1
        task = asked["result"]["task_id"]
        taken = call(ws, 2, "take", **{"as": bob, "args": {"task": task}})["result"]
        done_ = call(ws, 3, "submit", **{"as": bob, "args": {"task": task, "text": "So.", "fence": taken["fence"]}})
        assert done_["result"]["state"] == "completed"
        assert call(ws, 4, "show", args={"task": "tsk_nothing"})["error"]["code"] == "not_found"
        assert call(ws, 5, "down")["error"]["code"] == "unsupported"
        assert call(ws, 6, "cli", argv=["status"])["error"]["code"] == "unsupported"
        assert call(ws, 7, "whoami", env={})["error"]["code"] == "invalid"
        assert call(ws, "8", "whoami") == {"id": None, "error": call(ws, -1, "whoami")["error"]}
    assert done(client, "show", {"task": task}, as_=alice)["state"] == "completed"


def test_the_token_may_come_in_the_hello(served):
    with connect_ws(served, {**HELLO, "token": served.token}, additional_headers={}) as ws:
        assert call(ws, 1, "whoami")["result"]["kind"] == "person"


def test_calls_of_one_websocket_run_beside_each_other(served, client, pair):
    task = ask(client, *pair)
    version = done(client, "show", {"task": task})["version"]
    with connect_ws(served) as ws:
        wait = {"task": task, "version": version, "seconds": 40}
        ws.send(json.dumps({"id": 1, "op": "wait", "args": wait}))
        assert call(ws, 2, "whoami")["id"] == 2
        assert call(ws, 1, "whoami")["error"]["code"] == "invalid"  # the number is in use
        done(client, "take", {"task": task}, as_=pair[1])
        answer = json.loads(ws.recv(SECONDS))
        assert (answer["id"], answer["result"]["version"] > version) == (1, True)


@pytest.mark.parametrize("hello", [HELLO, {**HELLO, "token": "x" * 43}, {**HELLO, "token": 7}, {"hello": {}}])
def test_without_a_token_there_is_no_welcome(served, hello):
    with connect(served.url.replace("http", "ws") + "/v1/socket", proxy=None, open_timeout=SECONDS) as ws:
        ws.send(json.dumps(hello))
        answer = json.loads(ws.recv(SECONDS))
        assert answer["refused"]["code"] in ("unauthenticated", "invalid")
        with pytest.raises(ConnectionClosed):
            ws.recv(SECONDS)


# --- the description ---------------------------------------------------------------------------------------------


def strict(schema):
    """A schema that knows every key."""
    found = copy.deepcopy(schema)
    for part in found["components"]["schemas"].values():
        if "properties" in part:
            part["additionalProperties"] = False
    return found


class Checked:
    """A client whose every answer is held against the description."""

    def __init__(self, client):
        self.client = client
        self.document = client.get("/v1/openapi.json").json()
        self.parts = {"components": strict(self.document)["components"]}
        self.called = set()

    def fits(self, schema, value):
        jsonschema.Draft202012Validator({**self.parts, **schema}).validate(value)

    def __call__(self, name, args=None, *, expect=200, **around):
        operation = self.document["paths"][f"/v1/{name}"]["post"]
        around = {key.rstrip("_"): value for key, value in around.items()}
        request = {**around, "args": args or {}}
        response = self.client.post(f"/v1/{name}", json=request)
        assert response.status_code == expect, response.text
        known = operation["responses"][str(expect)]
        if "$ref" in known:
            known = self.document["components"]["responses"][known["$ref"].rpartition("/")[2]]
        self.fits(known["content"]["application/json"]["schema"], response.json())
        if expect == 200:
            self.fits(operation["requestBody"]["content"]["application/json"]["schema"], request)
            self.called.add(name)
        return response.json()


def test_every_verb_stands_in_the_description_and_every_real_answer_fits_it(client, pair):
    alice, bob = pair
    check = Checked(client)
    jsonschema.Draft202012Validator.check_schema({"$defs": check.document["components"]["schemas"]})

    def asked(**more):
        form = {"address": f"@{bob}", "title": "Work", "expect": "answer", **more}
        return check("ask", form, as_=alice)["task_id"]

    check("join", {"name": alice, "strengths": "asks"})
    task = asked(body="Count.", inputs=["https://example.org/x"], context="None.", known_facts=["a"])
    check("seen", check("inbox", as_=bob), as_=bob)
    taken = check("take", {"task": task}, as_=bob)
    check("progress", {"task": task, "text": "Half.", "fence": taken["fence"]}, as_=bob)
    check("question", {"task": task, "text": "Which?", "fence": taken["fence"]}, as_=bob)
    check("inbox", as_=alice)
    check("answer", {"task": task, "text": "All."}, as_=alice)
    check("submit", {"task": task, "text": "Seven.", "fence": taken["fence"], "review": True}, as_=bob)
    revision = check("show", {"task": task}, as_=alice)["revision"]
    check("changes", {"task": task, "text": "Again.", "revision": revision}, as_=alice)
    fence = check("show", {"task": task}, as_=bob)["fence"]
    check("submit", {"task": task, "text": "Eight.", "fence": fence, "review": True}, as_=bob)
    check("approve", {"task": task, "revision": check("show", {"task": task}, as_=alice)["revision"]}, as_=alice)
    check("seen", check("inbox", as_=alice), as_=alice)
    second = asked()
    fence = check("take", {"task": second, "key": "k"}, as_=bob)["fence"]
    check("release", {"task": second, "text": "Later.", "fence": fence}, as_=bob)
    check("decline", {"task": second, "text": "No."}, as_=bob)
    third = asked()
    fence = check("take", {"task": third}, as_=bob)["fence"]
    check("submit", {"task": third, "text": "X.", "fence": fence, "review": True}, as_=bob)
    revision = check("show", {"task": third}, as_=alice)["revision"]
    check("refuse", {"task": third, "text": "Wrong.", "revision": revision}, as_=alice)
    check("cancel", {"task": asked()}, as_=alice)
    check("join", {"name": bob, "capabilities": ["Count"]})
    sailed = check("sail", {"capability": "Count", "payload": "{}", "at_once": False}, as_=alice)
    check("retreat", {"message": sailed["msg_id"]}, as_=alice)
    check("routes", {"stats": True})
    for name in ("board", "agents", "whoami", "workspaces", "status", "activity"):
        check(name)
    check("board", {"everything": True})
    check("trace", {"task": task})
    check("wait", {"task": task, "seconds": 0})
    shown, told = check("show", {"task": task}), check("outcome", {"task": task, "seconds": 0})
    assert told == {**{name: shown[name] for name in told if name in shown}, "verdict": "Again."}
    check("show", {"task": "tsk_nothing"}, expect=404)
    check("show", {}, expect=400)
    check("cancel", {"task": task}, as_=alice, expect=409)
    check("approve", {"task": task}, as_=bob, expect=409)
    with stream(client) as (begin, _):
        pass
    asked()
    with stream(client, after=begin) as (_, events):
        check.fits({"$ref": "#/components/schemas/Event"}, next(events)[1])
    assert check.called == {*VERBS, "status"}
    paths = {path.removeprefix("/v1/") for path in check.document["paths"]}
    assert paths == {*VERBS, "status", "events", "socket", "openapi.json"}


def test_the_description_answers_head_and_nothing_else(client):
    assert client.head("/v1/openapi.json").headers["content-length"] != "0"
    assert client.post("/v1/openapi.json", json={}).status_code == 405


# --- the life of it ----------------------------------------------------------------------------------------------


def test_status_shows_the_address(served):
    assert json.loads(served.tally("status", "--json")[1])["address"] == served.url
    assert served.url in served.tally("status")[1]
    assert served.url in served.module("status")[1]


def test_the_token_is_made_once_and_for_this_user_alone(site):
    site.up()
    first = site.token
    assert len(first) == 43
    assert stat.S_IMODE(os.stat(site.path / "token").st_mode) == 0o600
    assert site.tally("down")[0] == 0
    site.child.wait(SECONDS)
    assert site.up().token == first


def test_a_token_file_that_others_may_read_is_refused_with_a_remedy(site):
    site.path.mkdir(mode=0o700)
    (site.path / "token").write_text("x" * 43)
    (site.path / "token").chmod(0o644)
    code, _, err = site.module("up", "--listen", "127.0.0.1:0")
    assert code == 1
    assert "0644" in err
    assert site.holder() is None


def test_listen_may_stand_in_the_settings(site):
    site.path.mkdir(mode=0o700)
    (site.path / "config.toml").write_text('listen = "127.0.0.1:0"\n')
    address = json.loads(site.python("import json; print(json.dumps(wire.connect().call('status')))")[1])["address"]
    token = (site.path / "token").read_text().strip()
    answer = httpx.post(
        f"{address}/v1/whoami", json={}, headers={"authorization": f"Bearer {token}"}, timeout=SECONDS, trust_env=False
    )
    assert answer.json()["kind"] == "person"


def test_with_listen_in_the_settings_a_host_listens_again_whoever_starts_it_after_a_crash(site):
    site.path.mkdir(mode=0o700)
    (site.path / "config.toml").write_text('listen = "127.0.0.1:0"\n')
    for _ in range(2):
        assert site.tally("whoami")[0] == 0
        assert "address  http://127.0.0.1:" in site.tally("status")[1]
        os.kill(site.holder().pid, signal.SIGKILL)
        eventually(lambda: site.holder() is None, "its end")


def test_up_listen_beside_a_host_that_does_not_listen_says_so_and_what_to_do(site):
    assert site.tally("whoami")[0] == 0
    assert "address  none: it does not listen" in site.tally("status")[1]
    code, _, err = site.tally("up", "--listen", "127.0.0.1:0")
    assert code == 1
    assert "It listens nowhere" in err
    assert "tally down" in err
    assert f"{site.path}/config.toml" in err


def test_up_listen_beside_a_host_that_listens_says_where(served):
    code, _, err = served.tally("up", "--listen", "127.0.0.1:0")
    assert code == 1
    assert f"It listens at {served.url}" in err


def test_without_listen_there_is_no_address_and_no_token(site):
    status = json.loads(site.python("import json; print(json.dumps(wire.connect().call('status')))")[1])
    assert status["address"] == ""
    assert not (site.path / "token").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--listen", "0.0.0.0:0"], "every address"),
        (["--listen", "[::]:0"], "every address"),
        (["--listen", "192.0.2.1:0"], "--tls-cert"),
        (["--listen", "host.example:0"], "--tls-cert"),
        (["--listen", "127.0.0.1"], "127.0.0.1:8765"),
        (["--listen", "127.0.0.1:99999"], "127.0.0.1:8765"),
        (["--listen", "127.0.0.1:0", "--tls-cert", "missing.pem"], "--tls-key"),
        (["--listen", "127.0.0.1:0", "--tls-cert", "missing.pem", "--tls-key", "missing.pem"], "PEM"),
        (["--tls-cert", "missing.pem"], "--listen"),
    ],
)
def test_where_it_may_not_listen_the_host_does_not_start_and_says_what_to_do(site, words, told):
    code, _, err = site.module("up", *words)
    assert code in (1, 2)
    assert told in err
    assert "Traceback" not in err
    assert site.holder() is None


def test_without_listen_up_serves_the_socket_alone(site):
    child = site.spawn_tally("up")
    line = child.stdout.readline().decode()
    assert "serves" in line
    assert "listens" not in line


def test_what_http_needs_is_imported_only_where_a_host_listens(site):
    unwanted = {"uvicorn", "starlette", "websockets", "httptools"}
    assert site.python(f"import sys, tallystick.assembly; print({unwanted} & {{*sys.modules}})")[1].strip() == "set()"


def test_listen_alone_means_the_usual_address():
    assert bootstrap._with_address(["--listen"]) == ["--listen", "127.0.0.1:8765"]
    assert bootstrap._with_address(["--listen", "--replace"]) == ["--listen", "127.0.0.1:8765", "--replace"]
    assert bootstrap._with_address(["--listen", "[::1]:1"]) == ["--listen", "[::1]:1"]
    assert bootstrap._with_address([]) == []


def test_a_port_in_use_is_refused_with_a_remedy(served, site):
    code, _, err = site.module("up", "--listen", served.authority)
    assert code == 1
    assert "already listens" in err
    assert site.holder() is None


def test_with_a_certificate_it_is_tls(site):
    cert, key = site.place / "cert.pem", site.place / "key.pem"
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost"
    more = ("-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert)
    subprocess.run(["openssl", *words.split(), *more], check=True, capture_output=True)
    site.up("--tls-cert", str(cert), "--tls-key", str(key))
    assert site.url.startswith("https://")
    with site.client(verify=ssl.create_default_context(cafile=str(cert))) as client:
        assert done(client, "whoami")["kind"] == "person"
