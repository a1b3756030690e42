"""Hostile bytes at the host's socket. Whatever is sent, the connection and the host live on, or the reason is told.

Ids h… are the numbers of the hostile cases."""

import json
import os
import signal
import socket
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from tallystick import wire
from tallystick.core.errors import Refused
from tallystick.edge.api.strict import DEPTH, parse
from tests.support.hosts import SECONDS, Home, eventually

REFUSED = {
    "h13-duplicate": b'{"id":1,"op":"echo","to":1,"to":2}',
    "h13-duplicate-id": b'{"id":1,"id":2,"op":"echo"}',
    "h13-duplicate-spaced": b'{"id":1,"op":"echo","to" :1,"to":2}',
    "h13-duplicate-tabbed": b'{"id":1,"op":"echo","to"\t:1,"to"\t:2}',
    "h13-duplicate-nested": b'{"id":1,"op":"echo","a":{"b":[{"to":1,"to":2}]}}',
    "h13-duplicate-escaped": b'{"id":1,"op":"echo","to":1,"\\u0074o":2}',
    "h13-duplicate-hidden-by-a-text": b'{"id":1,"op":"echo","x":"\\":\\":","to":1,"to":2}',
    "h13-duplicate-balanced": b'{"id":1,"op":"echo","to" :1,"to":"\\":"}',
    "h14-nan": b'{"id":1,"op":"echo","n":NaN}',
    "h14-infinity": b'{"id":1,"op":"echo","n":-Infinity}',
    "h14-1e400": b'{"id":1,"op":"echo","n":1e400}',
    "h14-5000-digits": b'{"id":1,"op":"echo","n":' + b"9" * 5000 + b"}",
    "h14-deep": b'{"id":1,"op":"echo","n":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "h14-deep-65": b'{"id":1,"op":"echo","n":' + b"[" * 65 + b"]" * 65 + b"}",
    "h14-deep-objects": b'{"id":1,"op":"echo","n":' + b'{"a":' * 900 + b"1" + b"}" * 900 + b"}",
    "h14-lone-surrogate": b'{"id":1,"op":"echo","n":"\\ud800"}',
    "h14-lone-low-surrogate": b'{"id":1,"op":"echo","n":"\\udc80x"}',
    "h14-surrogate-key": b'{"id":1,"op":"echo","\\udc80":1}',
    "h14-encoded-surrogate": b'{"id":1,"op":"echo","n":"\xed\xa0\x80"}',
    "h14-true-as-id": b'{"id":true,"op":"echo"}',
    "h14-text-as-id": b'{"id":"1","op":"echo"}',
    "h14-fraction-as-id": b'{"id":1.5,"op":"echo"}',
    "h14-negative-id": b'{"id":-1,"op":"echo"}',
    "h14-huge-id": b'{"id":18446744073709551617,"op":"echo"}',
    "no-id": b'{"op":"echo"}',
    "latin-1": b'{"id":1,"op":"caf\xe9"}',
    "control-character": b'{"id":1,"op":"a\x00b"}',
    "byte-order-mark": b'\xef\xbb\xbf{"id":1,"op":"echo"}',
    "array": b"[1,2]",
    "number": b"7",
    "empty": b"",
    "trailing": b'{"id":1,"op":"echo"} x',
    "two-in-a-line": b'{"id":1,"op":"echo"}{"id":2,"op":"echo"}',
    "garbage": bytes(b for b in range(256) if b != 10),
    "http": b"GET / HTTP/1.1\r",
}

ACCEPTED = [
    b'{"id":1,"op":"echo","x":"\\":\\":"}',
    b'{ "id" : 1 , "op" : "echo" , "x" : { "a" : 1 , "b" : { "a" : 2 } } }',
    b'{"id":1,"op":"echo","x":[{"a":1},{"a":1}],"y":"a :b \\\\"}',
    b'{"id":1,"op":"echo","\\\\":1,"\\"":2}',
    b'{"id":1,"op":"echo","x":' + b"[" * 60 + b"]" * 60 + b"}",
    b'{"id":1,"op":"echo","x":[' + b",".join([b"[]"] * 500) + b"]}",
]


@pytest.fixture(scope="module")
def served():
    with Home() as home:
        home.probe(line_bytes=1_000_000)
        yield home


@pytest.fixture
def home():
    with Home() as home:
        yield home


@pytest.mark.parametrize("line", REFUSED.values(), ids=REFUSED.keys())
def test_a_bad_line_is_invalid_and_the_connection_lives_on(served, line):
    with served.raw() as client:
        client.bytes(line + b"\n")
        refused = client.line()
        assert refused["error"]["code"] == "invalid"
        assert refused["error"]["remedy"]
        assert "Traceback" not in json.dumps(refused)
        client.send({"id": 5, "op": "echo", "still": "here"})
        assert client.line() == {"id": 5, "result": {"still": "here"}}


TOLD_BY_NUMBER = ["h13-duplicate", "h13-duplicate-nested", "h14-deep-65"]


@pytest.mark.parametrize("name", [*TOLD_BY_NUMBER, "h14-nan", "h14-deep", "h14-text-as-id", "garbage"])
def test_a_bad_line_is_answered_by_its_number_where_that_can_be_read(served, name):
    with served.raw() as client:
        client.bytes(REFUSED[name] + b"\n")
        assert client.line()["id"] == (1 if name in TOLD_BY_NUMBER else None)


@pytest.mark.parametrize("line", ACCEPTED)
def test_a_good_line_that_looks_odd_is_taken(line):
    assert parse(line) == json.loads(line)


@pytest.mark.parametrize("line", REFUSED.values(), ids=REFUSED.keys())
def test_a_bad_line_instead_of_a_hello_is_refused_and_ends_the_connection(served, line):
    with served.raw(greet=False) as client:
        client.bytes(line + b"\n")
        assert client.line()["refused"]["code"] == "invalid"
        assert client.line() is None


@pytest.mark.parametrize("versions", [[1], [1, 2, 3], "1", [True, True], None, {"a": 1}, [1.0, 1.0]])
def test_a_hello_with_an_odd_range_is_refused(served, versions):
    with served.raw(greet=False) as client:
        client.send({"hello": {"protocol": versions, "client": "x"}})
        assert client.line()["refused"]["code"] == "invalid"


def test_every_duplicate_is_found_whatever_stands_around_it():
    spaces, texts = ["", " ", "\t", "  "], ['"x"', '"\\":"', '"a :b"', '{"k":1}', "[]", '{"k" :"\\":"}']
    for one in spaces:
        for two in spaces:
            for text in texts:
                bad = f'{{"a"{one}:{text},"b":{text},"a"{two}:{text}}}'.encode()
                with pytest.raises(Refused):
                    parse(bad)
                good = bad.replace(b',"a"', b',"c"')
                assert parse(good) == json.loads(good)


def test_a_huge_line_is_refused_once_and_the_connection_lives_on(served):
    with served.raw() as client:
        client.bytes(b'{"id":1,"op":"echo","x":"')
        for _ in range(40):
            client.bytes(b"x" * 100_000)
        client.bytes(b'"}\n')
        client.send({"id": 2, "op": "echo"})
        assert client.line()["error"]["message"].startswith("A line is longer")
        assert client.line() == {"id": 2, "result": {}}


def test_a_line_of_exactly_the_limit_is_the_last_that_is_taken(served):
    with served.raw() as client:
        for size, is_taken in ((1_000_000 - 1, True), (1_000_000, False)):
            head = b'{"id":3,"op":"echo","x":"'
            client.bytes(head + b"x" * (size - len(head) - 2) + b'"}\n')
            answer = client.line()
            assert ("result" in answer) is is_taken


def test_the_client_itself_refuses_to_send_too_much(served):
    connection = served.connect()
    with pytest.raises(wire.WireError) as caught:
        connection.call("echo", x="x" * wire.LINE_BYTES)
    assert caught.value.code == "invalid"
    assert connection.call("echo", a=[1, None, "é\ud83d\ude00"[:1]]) == {"a": [1, None, "é"]}
    connection.close()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), b"bytes", object()])
def test_the_client_sends_no_value_that_is_not_json(served, value):
    connection = served.connect()
    with pytest.raises(wire.WireError):
        connection.call("echo", x=value)
    connection.close()


def test_a_line_in_many_pieces_is_one_line(served):
    with served.raw() as client:
        for byte in b'{"id":1,"op":"echo","x":"\xc3\xa9"}\n':
            client.bytes(bytes([byte]))
        assert client.line() == {"id": 1, "result": {"x": "é"}}


def test_an_id_in_flight_may_not_be_used_again(served):
    with served.raw() as client:
        client.send({"id": 1, "op": "until_interrupted"})
        assert "out" in client.line()
        client.send({"id": 1, "op": "echo"})
        assert client.line()["id"] is None
        client.send({"id": 1, "interrupt": True})
        assert client.line() == {"id": 1, "result": 130}


def test_an_unknown_operation_is_unsupported(served):
    with served.raw() as client:
        for op in ("nonsense", 7, None, ["echo"], {"a": 1}):
            client.send({"id": 1, "op": op})
            assert client.line()["error"]["code"] == "unsupported"


def test_answers_nobody_asked_for_are_harmless(served):
    with served.raw() as client:
        for message in ({"id": 9, "reply": "y"}, {"id": 9, "flushed": True}, {"id": 9, "interrupt": True}):
            client.send(message)
        client.send({"id": 1, "op": "until_interrupted"})
        assert "out" in client.line()
        for message in ({"id": 1, "reply": "y"}, {"id": 1, "stdin": "!!"}, {"id": 1, "eof": True}):
            client.send(message)
        client.send({"id": 1, "interrupt": True})
        assert client.line() == {"id": 1, "result": 130}


@pytest.mark.parametrize("fields", [{"env": []}, {"env": {"A": 1}}, {"cwd": 3}, {"tty": "x"}])
def test_facts_of_the_wrong_type_are_invalid(served, fields):
    with served.raw() as client:
        client.send({"id": 1, "op": "facts", **fields})
        assert client.line()["error"]["code"] == "invalid"


def test_standard_input_that_is_no_base64_is_invalid(served):
    with served.raw() as client:
        client.send({"id": 1, "op": "cli", "argv": ["stdin"]})
        assert client.line()["want"] == "stdin"
        client.send({"id": 1, "stdin": "not base64!"})
        assert client.line()["error"]["code"] == "invalid"


def test_one_connection_may_not_take_all_calls_c71(home):
    home.probe(calls=4)
    with home.raw() as greedy, home.raw() as modest:
        for number in range(1, 7):
            greedy.send({"id": number, "op": "hang"})
        for number in (5, 6):
            answer = greedy.line()
            assert (answer["id"], answer["error"]["code"]) == (number, "unavailable")
        modest.send({"id": 1, "op": "echo"})
        assert modest.line() == {"id": 1, "result": {}}


def test_connections_beyond_the_bound_are_refused(home):
    home.probe(connections=2)
    with home.raw(), home.raw(), home.raw(greet=False) as third:
        assert third.line()["refused"]["code"] == "unavailable"
        assert third.line() is None


def test_a_connection_that_never_says_hello_is_closed(home):
    home.probe(hello_seconds=0.05)
    with home.raw(greet=False) as client:
        client.bytes(b'{"hello"')
        assert client.line() is None


def test_a_half_open_connection_harms_nobody(served):
    with served.raw() as half:
        half.send({"id": 1, "op": "until_interrupted"})
        assert "out" in half.line()
        half.sock.shutdown(socket.SHUT_WR)
        with served.raw() as other:
            other.send({"id": 1, "op": "echo"})
            assert other.line() == {"id": 1, "result": {}}


def test_a_slow_reader_is_waited_for_and_costs_no_memory(served):
    with served.raw() as slow, served.raw() as other:
        slow.send({"id": 1, "op": "forever"})
        assert "out" in slow.line()
        pid = served.holder().pid
        before = resident(pid)
        for number in range(200):
            other.send({"id": number, "op": "echo"})
            assert other.line()["id"] == number
        assert resident(pid) - before < 20_000_000


def test_requests_of_a_client_that_never_reads_stop_being_taken(served):
    with served.raw() as client:
        client.sock.setblocking(False)
        line = b'{"id":1,"op":"echo","x":"' + b"x" * 50_000 + b'"}\n'
        sent, until_full = 0, 0
        while until_full < 3 and sent < 200_000_000:
            try:
                sent += client.sock.send(line)
                until_full = 0
            except BlockingIOError:
                until_full += 1
                with served.raw() as other:  # a turn of the host in between
                    other.send({"id": 1, "op": "echo"})
                    other.line()
        assert sent < 20_000_000
        assert resident(served.holder().pid) < 200_000_000


def test_clients_that_vanish_in_the_middle_leave_nothing_behind(served):
    def vanish(number):
        with suppress(OSError), served.raw() as client:
            client.send({"id": 1, "op": ("forever", "until_interrupted")[number % 2]})
            client.bytes(b'{"id":2,"op":')

    threads = [threading.Thread(target=vanish, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    connection = served.connect()
    eventually(lambda: connection.call("tasks") == 1, "the end of abandoned calls")
    connection.close()


def test_a_call_that_hangs_does_not_keep_the_host_from_stopping(home):
    host = home.probe(stop_seconds=0.05)
    with home.raw() as client:
        client.send({"id": 1, "op": "hang"})
        client.send({"id": 2, "op": "echo"})
        client.line()
        host.send_signal(signal.SIGTERM)
        assert host.wait(SECONDS) == 0
        assert client.line()["error"]["code"] == "unavailable"


def resident(pid):
    """Bytes of memory a process holds; 0 where that cannot be read."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def test_a_request_may_nest_as_deep_as_the_bound_and_no_deeper():
    def nested(depth: int) -> bytes:
        return b'{"beside":[],"args":' + b"[" * (depth - 1) + b"1" + b"]" * (depth - 1) + b"}"

    assert parse(nested(DEPTH))["beside"] == []
    with pytest.raises(Refused, match=f"nests deeper than {DEPTH}"):
        parse(nested(DEPTH + 1))
