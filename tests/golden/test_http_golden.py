"""How refusals look over HTTP, byte for byte: status, headers, body.

`GOLDEN=write pytest tests/golden` writes the file anew; the difference is then read in the commit.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tallystick.core.errors import ErrorCode, Refused
from tallystick.edge.api.http.refusals import PROTOCOL, ProtocolRefused, answer, raw, refusal, wrong_method

FILE = Path(__file__).parent / "http" / "errors.json"


def shown(refused: Refused) -> dict[str, Any]:
    response = refusal(refused)
    headers = {name.decode(): value.decode() for name, value in response.raw_headers if name != b"content-length"}
    return {"status": response.status_code, "headers": headers, "body": json.loads(response.body)}


def found() -> dict[str, Any]:
    protocol = {status: ProtocolRefused(status, limit=2097152) for status in PROTOCOL}
    protocol[405] = wrong_method(("GET", "HEAD"))
    codes = {code.value: Refused(code, "It is so.", "Do otherwise.") for code in ErrorCode}
    return {
        "protocol": {str(status): shown(refused) for status, refused in protocol.items()},
        "verbs": {code: shown(refused) for code, refused in codes.items()},
        "before the head is whole": raw(431).decode().split("\r\n"),
    }


def test_refusals_are_as_they_were() -> None:
    text = json.dumps(found(), indent=1, ensure_ascii=False) + "\n"
    if os.environ.get("GOLDEN") == "write":
        FILE.parent.mkdir(exist_ok=True)
        FILE.write_text(text, "utf-8")
    assert FILE.read_text("utf-8") == text


def test_a_lone_surrogate_in_a_refusal_becomes_an_escape() -> None:
    refused = Refused(ErrorCode.INVALID, "Not \udcff.", "Send \ud800 no more.")
    assert json.loads(bytes(refusal(refused).body))["error"]["message"] == "Not \\udcff."


def test_a_result_is_the_plain_json_of_the_form() -> None:
    response = answer({"a": "é"})
    assert (response.status_code, response.body) == (200, '{"a":"é"}'.encode())
    assert response.headers["content-type"] == "application/json"
