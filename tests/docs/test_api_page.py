"""The page of the host API says what the code says, and every link in it leads somewhere."""

from __future__ import annotations

import re

from tallystick.edge.api.verbs import VERBS
from tools import api, reference

PAGE = (reference.PLACE / "api.md").read_text("utf-8")


def test_the_page_is_the_one_that_the_code_writes() -> None:
    assert reference.HEAD + api.page().rstrip() + "\n" == PAGE, "run `make docs`"


def test_every_verb_has_its_section_and_every_link_a_target() -> None:
    anchors = {title.strip().lower().replace(" ", "-") for title in re.findall(r"^#+ (.+)$", PAGE, re.MULTILINE)}
    assert {name.replace("_", "-") for name in VERBS} <= {anchor.replace("_", "-") for anchor in anchors}
    assert set(re.findall(r"\]\(#([^)]+)\)", PAGE)) <= anchors
