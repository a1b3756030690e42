"""Hostile clients of the HTTP face, numbered as in the list of hostile cases (49 to 56, 67), and slow ones."""

import json
import os
from contextlib import suppress
from pathlib import Path

import apsw
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tallystick.core.errors import ErrorCode, Refused
from tallystick.edge.api.http.calls import call_for
from tallystick.edge.api.http.cursor import Cursors
from tallystick.edge.api.http.tokens import PERSON, Identity, Tokens, digest, load_tokens
from tests.support.hosts import SECONDS
from tests.support.web import Site, done, verb

LIMIT = 2 * 1024 * 1024


@pytest.fixture(scope="module")
def served():
    with Site() as site:
        site.up()
        yield site


def sent(site, head, body=b"{}"):
    """(status, code, headers) of one raw request."""
    with site.raw() as raw:
        raw.send(head + body)
        status, headers, answer = raw.answer()
    assert set(answer) == {"error"} or status == 200, answer
    if status != 200:
        assert set(answer["error"]) == {"code", "message", "remedy"}
        assert all(answer["error"].values())
    return status, answer.get("error", {}).get("code"), headers


# --- names and origins -------------------------------------------------------------------------------------------


def test_what_is_plain_is_answered(served):
    assert sent(served, served.head())[0] == 200
    assert (
        sent(served, served.head(host=f"LOCALHOST:{served.port}", content_type="application/json; charset=UTF-8"))[0]
        == 200
    )
    assert sent(served, served.head(origin=served.url, sec_fetch_site="same-origin"))[0] == 200
    assert sent(served, served.head(origin=f"http://localhost:{served.port}", sec_fetch_site="none"))[0] == 200


HOSTS = {
    "h49-foreign": ["evil.example"],
    "h49-foreign-with-port": ["evil.example:{port}"],
    "h49-prefix": ["127.0.0.1:{port}.evil.example"],
    "h49-no-port": ["127.0.0.1"],
    "h49-other-port": ["127.0.0.1:1"],
    "h49-other-loopback": ["127.0.0.2:{port}"],
    "h49-number": ["2130706433:{port}"],
    "h49-user": ["127.0.0.1:{port}@evil.example"],
    "h49-dot": ["localhost.:{port}"],
    "h49-empty": [""],
    "h49-none": [],
    "h52-twice": ["127.0.0.1:{port}", "evil.example"],
    "h52-twice-reversed": ["evil.example", "127.0.0.1:{port}"],
    "h52-twice-the-same": ["127.0.0.1:{port}", "127.0.0.1:{port}"],
    "h52-list": ["127.0.0.1:{port}, evil.example"],
}


@pytest.mark.parametrize("line", ["POST /v1/whoami HTTP/1.1", "GET /v1/events HTTP/1.1", "GET /nowhere HTTP/1.1"])
@pytest.mark.parametrize("name", HOSTS)
def test_another_host_name_is_not_answered(served, name, line):
    hosts = [host.format(port=served.port) for host in HOSTS[name]]
    status, code, _ = sent(served, served.head(line, host=hosts))
    assert (status, code) == (421, "denied")


def test_h49_an_absolute_address_does_not_replace_the_host_header(served):
    line = f"POST http://127.0.0.1:{served.port}/v1/whoami HTTP/1.1"
    assert sent(served, served.head(line, host="evil.example"))[0] == 421


ORIGINS = {
    "h50-form": {"origin": "https://evil.example", "content_type": "text/plain", "sec_fetch_site": "cross-site"},
    "h50-form-without-metadata": {"origin": "https://evil.example", "content_type": "text/plain"},
    "h50-null": {"origin": "null"},
    "h50-other-port": {"origin": "http://127.0.0.1:1"},
    "h50-https": {"origin": "https://127.0.0.1:{port}"},
    "h50-prefix": {"origin": "http://127.0.0.1:{port}.evil.example"},
    "h50-two": {"origin": ["http://127.0.0.1:{port}", "https://evil.example"]},
    "h50-twice": {"origin": ["http://127.0.0.1:{port}"] * 2},
    "h51-cross-site": {"sec_fetch_site": "cross-site"},
    "h51-same-site": {"sec_fetch_site": "same-site"},
    "h51-unknown": {"sec_fetch_site": "whatever"},
    "h51-empty": {"sec_fetch_site": ""},
    "h51-two": {"sec_fetch_site": ["none", "cross-site"]},
}


@pytest.mark.parametrize("name", ORIGINS)
def test_a_page_of_another_site_is_refused(served, name):
    def filled(value):
        return value.format(port=served.port) if isinstance(value, str) else [filled(item) for item in value]

    changed = {header: filled(value) for header, value in ORIGINS[name].items()}
    status, code, headers = sent(served, served.head(**changed))
    assert (status, code) == (403, "denied")
    assert not [name for name in headers if name.startswith("access-control-")]


def test_a_preflight_gets_no_permission(served):
    asked = {"access_control_request_method": "POST", "access_control_request_headers": "authorization"}
    for changed in ({"origin": served.url}, {"origin": "https://evil.example"}):
        status, _, headers = sent(served, served.head("OPTIONS /v1/whoami HTTP/1.1", **changed, **asked))
        assert status in (403, 405)
        assert not [name for name in headers if name.startswith("access-control-")]


FOREIGN = {
    "h55-origin": {"origin": "https://evil.example"},
    "h55-null": {"origin": "null"},
    "h55-cross-site": {"sec_fetch_site": "cross-site"},
}


@pytest.mark.parametrize("name", FOREIGN)
def test_streams_of_a_foreign_page_are_refused(served, name):
    assert sent(served, served.head("GET /v1/events HTTP/1.1", **FOREIGN[name]))[:2] == (403, "denied")
    headers = {key.replace("_", "-"): value for key, value in FOREIGN[name].items()}
    headers["authorization"] = f"Bearer {served.token}"
    with pytest.raises(InvalidStatus) as caught:
        open_ws(served, headers)
    assert caught.value.response.status_code == 403
    assert json.loads(caught.value.response.body)["error"]["code"] == "denied"


def test_h49_a_websocket_under_another_host_name_is_refused(served):
    with pytest.raises(InvalidStatus) as caught:
        open_ws(served, {"Host": "evil.example", "authorization": f"Bearer {served.token}"})
    assert caught.value.response.status_code == 421


def open_ws(served, headers, path="/v1/socket"):
    url = served.url.replace("http", "ws") + path
    with connect(url, proxy=None, open_timeout=SECONDS, additional_headers=headers) as ws:
        return ws


# --- tokens ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    {
        "h53-none": [],
        "h53-empty": [""],
        "h53-other-scheme": ["Basic {token}"],
        "h53-bare": ["{token}"],
        "h53-wrong": ["Bearer " + "A" * 43],
        "h53-prefix": ["Bearer {short}"],
        "h53-longer": ["Bearer {token}A"],
        "h53-other-case": ["Bearer {swapped}"],
        "h53-not-ascii": ["Bearer {token}\u00e9"],
        "h53-twice": ["Bearer {token}", "Bearer {token}"],
    }.items(),
    ids=lambda item: item[0],
)
@pytest.mark.parametrize("path", ["/v1/whoami", "/v1/events", "/v1/openapi.json", "/v1/nowhere", "/", "/v1/socket"])
def test_without_the_token_nothing_is_told(served, value, path):
    filled = [
        text.format(token=served.token, short=served.token[:-1], swapped=served.token.swapcase()) for text in value[1]
    ]
    line = f"{'POST' if path == '/v1/whoami' else 'GET'} {path} HTTP/1.1"
    status, code, headers = sent(served, served.head(line, authorization=filled))
    assert (status, code) == (401, "unauthenticated")
    assert headers["www-authenticate"] == "Bearer"


def test_h53_a_websocket_with_a_wrong_token_is_refused_at_the_handshake(served):
    for path in ("/v1/socket", "/v1/whoami", "/elsewhere"):
        with pytest.raises(InvalidStatus) as caught:
            open_ws(served, {"authorization": "Bearer " + "A" * 43}, path)
        assert caught.value.response.status_code == 401
    with pytest.raises(InvalidStatus) as caught:
        open_ws(served, {"authorization": f"Bearer {served.token}"}, "/v1/whoami")
    assert caught.value.response.status_code == 404


def test_h53_tokens_are_compared_as_digests_in_constant_time(monkeypatch):
    seen = []
    monkeypatch.setattr("hmac.compare_digest", lambda a, b: seen.append((a, b)) or a == b)
    scoped = {digest(name): Identity(kind="agent", name=name) for name in ("one", "two")}
    tokens = Tokens("person", scoped)
    assert tokens.identify("person") is PERSON
    assert tokens.identify("two").name == "two"
    assert len(seen) == 6  # every one is looked at, whichever fits
    assert all(len(a) == len(b) == 64 for a, b in seen)
    for wrong in ("", "perso", digest("person"), "\udcff"):
        with pytest.raises(Refused):
            tokens.identify(wrong)


def test_h53_a_scoped_token_acts_for_its_agent_alone_and_within_its_scope():
    bob = Identity(kind="agent", name="bob", scope=frozenset({"take", "whoami"}))
    for asked in ({}, {"as": ""}, {"as": "bob"}, {"as": "@bob"}):
        assert call_for(bob, "take", asked).arguments["as"] == "bob"
    for asked in ("alice", "human", None, 7, ["bob"]):
        with pytest.raises(Refused) as caught:
            call_for(bob, "take", {"as": asked})
        assert caught.value.code is ErrorCode.DENIED
    with pytest.raises(Refused) as caught:
        call_for(bob, "ask", {})
    assert caught.value.code is ErrorCode.DENIED
    assert call_for(PERSON, "ask", {"as": "alice"}).arguments["as"] == "alice"


@pytest.mark.parametrize("kind", ["link", "fifo", "directory", "open", "empty", "short", "binary"])
def test_h56_a_token_file_that_is_not_ours_alone_is_refused(tmp_path, kind):
    path = tmp_path / "token"
    secret = tmp_path / "secret"
    secret.write_text("x" * 43)
    secret.chmod(0o600)
    {
        "link": lambda: path.symlink_to(secret),
        "fifo": lambda: os.mkfifo(path, 0o600),
        "directory": lambda: path.mkdir(0o700),
        "open": lambda: path.write_text("x" * 43) and path.chmod(0o640),
        "empty": lambda: path.touch(0o600),
        "short": lambda: path.write_text("x" * 42) and path.chmod(0o600),
        "binary": lambda: path.write_bytes(b"\xff" * 43) and path.chmod(0o600),
    }[kind]()
    with pytest.raises(Refused) as caught:
        load_tokens(tmp_path)
    assert caught.value.code is ErrorCode.DENIED
    assert "x" * 42 not in str(caught.value)


def test_h56_a_token_is_found_nowhere_but_in_its_file(tmp_path):
    with Site() as site:
        site.up()
        with site.client() as client:
            done(client, "join", {"name": "alice"})
            for response in (
                client.get("/v1/events", params={"token": site.token}),
                client.get("/v1/events", params={site.token: "x"}),
                client.post(f"/v1/{site.token}", json={}),
                client.post("/v1/whoami", json={"token": site.token}),
                client.post("/v1/whoami", json={}, headers={"referer": f"http://x/?t={site.token}"}),
                client.post("/v1/whoami", json={}, headers={"authorization": f"Basic {site.token}"}),
                client.post("/v1/whoami", json={}, headers={"origin": f"http://{site.token}"}),
                client.post("/v1/whoami", content=b'{"as": "' + site.token.encode() + b'", x'),
            ):
                assert site.token not in response.text + str(response.headers)
            assert client.get("/v1/events", params={"token": site.token}).status_code == 400
        process = Path(f"/proc/{site.child.pid}")
        if process.exists():
            assert site.token.encode() not in (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        assert site.token not in f"{site.tally('status', '--json')} {site.tally('doctor', '--json')}"
        assert site.tally("down")[0] == 0
        out, err = site.child.communicate(timeout=SECONDS)
        assert site.token.encode() not in out + err
        holding = [p for p in site.path.rglob("*") if p.is_file() and site.token.encode() in p.read_bytes()]
        assert holding == [site.path / "token"]
        assert "http refused" in (site.path / "log" / "host.jsonl").read_text()


# --- bodies ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        pytest.param({"content_length": str(LIMIT + 1)}, 413, id="h54-one-too-many"),
        pytest.param({"content_length": str(10**15)}, 413, id="h54-huge"),
        pytest.param({"content_length": str(10**19)}, 413, id="h54-beyond-64-bits-nearly"),
        pytest.param({"content_length": None}, 411, id="h54-absent"),
        pytest.param({"content_length": None, "transfer_encoding": "chunked"}, 411, id="h54-chunked"),
        pytest.param({"content_length": None, "transfer_encoding": "gzip, chunked"}, 411, id="h54-packed-chunks"),
        pytest.param({"content_length": "2", "transfer_encoding": "chunked"}, 400, id="h54-both"),
        pytest.param({"content_length": "-2"}, 400, id="h54-negative"),
        pytest.param({"content_length": "2x"}, 400, id="h54-no-number"),
        pytest.param({"content_length": ["2", "3"]}, 400, id="h54-two"),
        pytest.param({"content_length": "9" * 40}, 400, id="h54-beyond-all"),
        pytest.param({"content_type": None}, 415, id="no-type"),
        pytest.param({"content_type": "text/plain"}, 415, id="text"),
        pytest.param({"content_type": "application/x-www-form-urlencoded"}, 415, id="form"),
        pytest.param({"content_type": "application/json; charset=latin-1"}, 415, id="latin-1"),
        pytest.param({"content_type": ["application/json", "text/plain"]}, 415, id="two-types"),
        pytest.param({"content_encoding": "gzip"}, 415, id="gzip"),
    ],
)
def test_a_body_of_another_kind_or_length_is_refused_before_it_is_read(served, changed, status):
    # No byte of a body is sent: an answer shows that none was waited for.
    assert sent(served, served.head(**changed), b"")[:2] == (status, "invalid")


def test_h54_expecting_continue_with_a_huge_body_is_refused_without_continue(served):
    assert sent(served, served.head(expect="100-continue", content_length=str(LIMIT + 1)), b"")[0] == 413


def test_h54_the_largest_body_is_taken_whole(served):
    body = b'{"as":"' + b"x" * (LIMIT - 9) + b'"}'
    assert len(body) == LIMIT
    assert sent(served, served.head(content_length=str(LIMIT)), body)[:2] == (404, "not_found")


BODIES = {
    "h13-duplicate": b'{"as":"a","as":"b"}',
    "h13-duplicate-over-lines": b'{"as"\n:"a","as":"b"}',
    "h13-duplicate-over-lines-twice": b'{\n"as"\n:"a",\n"as"\n:"b"}',
    "h13-duplicate-nested": b'{"args":{"task":"a","task":"b"}}',
    "h14-nan": b'{"args":{"n":NaN}}',
    "h14-deep": b'{"args":' + b"[" * 5000 + b"]" * 5000 + b"}",
    "h14-surrogate": b'{"as":"\\ud800"}',
    "h14-not-utf-8": b'{"as":"caf\xe9"}',
    "h14-text-for-an-object": b'{"args":"{}"}',
    "array": b"[]",
    "empty": b"",
    "mark": b"\xef\xbb\xbf{}",
    "unknown-field": b'{"person_way":""}',
    "forged-actor": b'{"actor":{"id":"x","kind":"person","assertion":"terminal"}}',
    "forged-terminal": b'{"tty":{"stdin":true}}',
    "unknown-argument": b'{"args":{"x":1}}',
}


@pytest.mark.parametrize("name", BODIES)
def test_a_body_that_is_no_strict_request_is_refused(served, name):
    body = BODIES[name]
    assert sent(served, served.head(content_length=str(len(body))), body)[:2] == (400, "invalid")


def test_json_over_several_lines_is_fine(served):
    body = b'{\n  "args": {},\n  "as": ""\n}\n'
    assert sent(served, served.head(content_length=str(len(body))), body)[0] == 200


# --- lines and heads ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"{}\n\n",
        b"POST /v1/whoami HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : x\r\n\r\n",
        b"GET / HTTP/1.1\r\nA: b\x00\r\n\r\n",
        b'{"hello":{"protocol":[1,1]}}\n',
    ],
)
def test_what_is_no_http_is_refused_in_the_same_shape(served, data):
    with served.raw() as raw:
        raw.send(data)
        status, headers, answer = raw.answer()
        assert (status, answer["error"]["code"], headers["connection"]) == (400, "invalid", "close")
        assert headers["x-content-type-options"] == "nosniff"
        assert raw.ended()


@pytest.mark.parametrize("begin", [b"GET /", b"GET / HTTP/1.1\r\nx: ", b"GET / HTTP/1.1\r\nx"])
def test_a_head_without_end_is_cut_off(served, begin):
    with served.raw() as raw:
        with suppress(OSError):  # closed while we still send
            raw.send(begin)
            for _ in range(64):
                raw.send(b"x" * 65536)
        assert raw.ended(b"HTTP/1.1 4")


def test_many_headers_without_end_are_cut_off(served):
    with served.raw() as raw:
        with suppress(OSError):
            raw.send(b"GET / HTTP/1.1\r\n")
            for _ in range(64):
                raw.send(b"x: y\r\n" * 10_000)
        assert raw.ended(b"HTTP/1.1 4")


def test_a_long_head_is_refused(served):
    assert sent(served, served.head(x_padding="x" * 70_000))[:2] == (431, "invalid")
    line = f"POST /v1/whoami?{'x' * 60_000} HTTP/1.1"
    assert sent(served, served.head(line, x_padding="x" * 6_000))[:2] == (431, "invalid")


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("GET /v1/whoami HTTP/1.1", 405),
        ("HEAD /v1/events HTTP/1.1", 405),
        ("PUT /v1/whoami HTTP/1.1", 405),
        ("DELETE /v1/whoami HTTP/1.1", 405),
        ("TRACE /v1/whoami HTTP/1.1", 405),
        ("POST /v1/events HTTP/1.1", 405),
        ("GET /v1/socket HTTP/1.1", 426),
        ("POST /v1/whoami/ HTTP/1.1", 404),
        ("POST /v1/../v1/whoami HTTP/1.1", 404),
        ("POST /v1//whoami HTTP/1.1", 404),
        ("POST /v2/whoami HTTP/1.1", 404),
        ("POST /v1/down HTTP/1.1", 404),
        ("POST /v1/cli HTTP/1.1", 404),
        ("POST /v1/hook HTTP/1.1", 404),
        ("GET /token HTTP/1.1", 404),
        ("GET / HTTP/1.1", 404),
    ],
)
def test_only_what_is_described_is_served(served, line, status):
    with served.raw() as raw:
        raw.send(served.head(line) + b"{}")
        answered, headers, _ = raw.answer() if not line.startswith("HEAD") else (*_head(raw), None)
    assert answered == status
    assert headers["cache-control"] == "no-store"
    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert (status == 405) == ("allow" in headers)


def _head(raw):
    lines = iter(raw.file.readline, b"\r\n")
    status = int(next(lines).split()[1])
    return status, dict(line.decode().strip().lower().split(": ", 1) for line in lines)


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("after=x", 400),
        ("after=" + "A" * 32, 400),
        ("after=" + "A" * 4000, 400),
        ("after=%00", 400),
        ("after=1", 400),
        ("x=1", 400),
        ("as=a&as=b", 400),
        ("as=nobody", 404),
        ("workspace=nowhere", 404),
    ],
)
def test_a_stream_takes_no_made_up_cursor_and_no_other_query(served, query, status):
    assert sent(served, served.head(f"GET /v1/events?{query} HTTP/1.1"))[0] == status


def test_cursors_hold_for_one_reader_and_say_nothing():
    one, other = Cursors(b"k" * 32), Cursors(b"l" * 32)
    cursors = {one.seal("agt_a", position) for position in range(1000)}
    assert len({cursor[:20] for cursor in cursors}) == len({cursor[-8:] for cursor in cursors}) == 1000
    assert one.open("agt_a", one.seal("agt_a", 2**40)) == 2**40
    for forged in (one.seal("agt_b", 7), other.seal("agt_a", 7), one.seal("agt_a", 7)[:-4], one.seal("agt_a", 7) * 2):
        with pytest.raises(Refused):
            one.open("agt_a", forged)


# --- storage -----------------------------------------------------------------------------------------------------


def test_h67_while_the_log_is_locked_an_ask_is_503_and_nothing_is_lost():
    with Site() as site:
        site.up()
        with site.client() as client:
            done(client, "join", {"name": "alice"})
            form = {"address": "@alice", "title": "T", "expect": "answer", "key": "once"}
            intruder = apsw.Connection(str(site.path / "tally.db"))
            intruder.execute("BEGIN IMMEDIATE")
            try:
                status, answer = verb(client, "ask", form)
            finally:
                intruder.execute("ROLLBACK")
                intruder.close()
            assert (status, answer["error"]["code"]) == (503, "unavailable"), answer
            task = done(client, "ask", form)["task_id"]
            assert [t["task_id"] for t in done(client, "board")["tasks"]] == [task]
