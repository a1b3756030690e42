"""The public conformance suite of MCP against our server over HTTP, in both eras, its fixtures beside our tools."""

import json
import subprocess
import sys
from collections import Counter

import pytest

from tests.support import npm
from tests.support.hosts import ROOT
from tests.support.web import Site

SUITE = "@modelcontextprotocol/conformance@0.2.0-alpha.12"
NODE = "node@22"
LEAST = {"2025-11-25": 81, "2026-07-28": 150}
"""Checks that must have run and passed: a suite that finds nothing to test proves nothing."""


@pytest.fixture(scope="module")
def modules():
    return npm.installed(NODE, SUITE)


@pytest.fixture(scope="module")
def url(modules):
    with Site() as site:
        assert site.tally("join", "alice", cwd=site.place)[0] == 0
        assert site.tally("down")[0] == 0
        child = site.spawn(sys.executable, str(ROOT / "tests/support/mcp_fixtures.py"))
        line = child.stdout.readline().decode()
        assert "listens at" in line, (line, child.stderr.read())
        address = line.rpartition(" ")[2].strip().rstrip(".")
        yield address.replace("127.0.0.1", "localhost") + "/mcp"


@pytest.mark.parametrize("version", LEAST)
def test_no_check_of_the_suite_fails(version, url, modules, tmp_path):
    words = [modules / "node/bin/node", modules / "@modelcontextprotocol/conformance/dist/index.js", "server"]
    words += ["--url", url, "--suite", "all", "--spec-version", version, "-o", tmp_path]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    checks = [check for file in tmp_path.rglob("checks.json") for check in json.loads(file.read_text())]
    failed = [(check["id"], check.get("errorMessage")) for check in checks if check["status"] == "FAILURE"]
    assert not failed
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert Counter(check["status"] for check in checks)["SUCCESS"] >= LEAST[version]
