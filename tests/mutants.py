"""Seeded faults of the rules. Each must be killed by the test that is named for it.

`python -m tests.mutants` applies them one by one to a copy of the package, prints a table, and exits with 1 if one
survives. `python -m tests.mutants NAME …` runs only those.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
MOVES = "tests/unit/test_moves.py"
SUBMIT = "tests/unit/test_submit.py"
RESULTS = "tests/unit/test_results.py"
DELIVERY = "tests/unit/test_delivery.py"
DUTY = "tests/unit/test_duty.py"
PLACES = "tests/unit/test_places.py"
MENTION = "tests/unit/test_mention.py"
MACHINE = "tests/property/test_task_machine.py"
ROUTE = "tests/unit/test_route.py"
TOKENS = "tests/unit/test_tokens.py"
OFFERS = "tests/unit/test_offers.py"
CHOICE = "tests/property/test_choice.py"


class Mutant(NamedTuple):
    """One fault: in `file` of core, `before` becomes `after`; `killer` is the test that must fail."""

    name: str
    file: str
    before: str
    after: str
    killer: str
    slow: bool = False


class Verdict(NamedTuple):
    """What became of a mutant."""

    mutant: Mutant
    killed: bool
    detail: str


MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "a version serves the next major one",
        "offers.py",
        "return have[0] == need[0] and have >= need",
        "return have >= need",
        f"{OFFERS}::test_a_version_serves_what_it_is_compatible_with",
    ),
    Mutant(
        "versions are compared as text",
        "offers.py",
        'found = [int(part) for part in version.split(".")]',
        'found = [ord(part[0]) for part in version.split(".")]',
        f"{OFFERS}::test_a_version_serves_what_it_is_compatible_with",
    ),
    Mutant(
        "domains are not looked at",
        "route.py",
        "and (not domains or offer.domain in domains)",
        "",
        f"{ROUTE}::test_a_domain_is_seen_by_who_is_registered_for_it_and_by_local_callers_without_any",
    ),
    Mutant(
        "a wanted domain is not checked against those of the caller",
        "task/routing.py",
        "if c.domain and seen and c.domain not in seen:",
        "if False:",
        f"{ROUTE}::test_a_domain_that_one_may_not_see_and_a_capability_that_nobody_offers_are_refused_in_the_same_words",
    ),
    Mutant(
        "a pin is not looked at",
        "route.py",
        "and pins.get((offer.name, offer.domain), agent.agent_id) == agent.agent_id",
        "",
        f"{ROUTE}::test_a_pin_leaves_one_holder_until_a_person_takes_it_back",
    ),
    Mutant(
        "anybody pins",
        "places.py",
        '    _person_only(ctx, "say who holds a capability")\n',
        '',
        f"{ROUTE}::test_only_a_person_pins",
    ),
    Mutant(
        "anybody makes a token",
        "tokens.py",
        "if ctx.actor.kind is not ActorKind.PERSON:",
        "if False:",
        f"{TOKENS}::test_only_a_person_makes_one_and_the_host_may_take_one_back",
    ),
    Mutant(
        "a token that is taken away is known for ever",
        "directory.py",
        "for n, token in d.tokens.items() if n != e.name}",
        "for n, token in d.tokens.items()}",
        f"{TOKENS}::test_one_that_is_taken_away_is_known_no_more_and_may_be_made_again",
    ),
    Mutant(
        "a token is taken away out of another workspace",
        "tokens.py",
        "if known is None or known.workspace != c.workspace_id:",
        "if known is None:",
        f"{TOKENS}::test_a_newer_token_takes_the_place_of_the_older_one_also_from_another_workspace",
    ),
    Mutant(
        "any agent joins a spoke",
        "places.py",
        '        _person_only(ctx, "join a spoke")',
        '        pass',
        f"{ROUTE}::test_only_a_person_joins_a_spoke_and_it_may_change_what_it_offers_itself",
    ),
    Mutant(
        "a full holder is chosen",
        "route.py",
        "if c.running < c.concurrency]",
        "]",
        f"{CHOICE}::test_only_who_can_take_it_is_chosen_and_a_suspect_only_where_nobody_is_online",
    ),
    Mutant(
        "weights are forgotten",
        "route.py",
        "gain = c.weight * (c.concurrency",
        "gain = (c.concurrency",
        f"{CHOICE}::test_over_700_messages_weights_of_1_2_and_4_are_met_exactly",
    ),
    Mutant(
        "load is forgotten",
        "route.py",
        "(c.concurrency - c.running) * _SHARES",
        "c.concurrency * _SHARES",
        f"{CHOICE}::test_a_loaded_holder_gets_less_than_an_idle_one_of_the_same_weight",
    ),
    Mutant(
        "whoever is not chosen may get it",
        "delivery/decide.py",
        "    if holder is None and chosen:\n",
        "    if False:\n",
        f"{ROUTE}::test_a_lease_names_a_holder_exactly_where_the_host_chooses",
    ),
    Mutant(
        "what began goes elsewhere though it may not be done twice",
        "delivery/decide.py",
        "(has_begun and not _is_idempotent(task, ctx))",
        "False",
        f"{ROUTE}::test_what_began_goes_elsewhere_only_where_it_may_be_done_twice",
    ),
    Mutant(
        "what is returned stays with who had it",
        "task/fold.py",
        '        changes["assignee"] = task.route  # the host chooses anew',
        '        pass',
        f"{ROUTE}::test_what_is_returned_waits_for_any_holder_again",
    ),
    Mutant(
        "without retry it is tried again",
        "delivery/decide.py",
        'tries = 0 if task.retry == "none" else',
        'tries =',
        f"{ROUTE}::test_without_retry_what_never_began_fails_at_once",
    ),
    Mutant(
        "any number waits",
        "delivery/decide.py",
        "and ctx.queued >= limits.anchor_queue:",
        "and False:",
        f"{ROUTE}::test_so_many_messages_wait_for_one_capability_and_no_more",
    ),
    Mutant(
        "a result not settled is over",
        "link.py",
        "task.state is S.COMPLETED and not task.settled",
        "task.state is S.COMPLETED",
        f"{ROUTE}::test_links_go_from_idle_to_sunset",
    ),
    Mutant(
        "what was only sent counts as reached",
        "link.py",
        "_has(work, Fact.RECORDED)",
        "_has(work, Fact.CLAIMED)",
        f"{ROUTE}::test_links_go_from_idle_to_sunset",
    ),
    Mutant(
        "progress does not end a stall",
        "link.py",
        "now - task.updated_at >= patience",
        "now - task.taken_at >= patience",
        f"{ROUTE}::test_a_message_is_suspected_after_its_stall_and_progress_begins_it_anew",
    ),
    Mutant(
        "fence not checked",
        "task/decide.py",
        "    if command.fence == task.fence or",
        "    if True or",
        f"{MOVES}::test_another_fence_than_the_present_one_is_refused",
    ),
    Mutant(
        "base not checked",
        "task/decide.py",
        "if command.base is not None and command.base < task.said_version:",
        "if False:",
        f"{MOVES}::test_a_base_that_is_older_than_the_task_is_stale",
    ),
    Mutant(
        "session of the holder not checked",
        "task/decide.py",
        "and (not task.session or task.session == actor.session)",
        "",
        f"{MOVES}::test_another_session_of_the_same_agent_is_not_the_holder",
    ),
    Mutant(
        "cancel ignored for what the holder writes",
        "task/decide.py",
        "    if task.cancel_requested_at:\n",
        "    if False:\n",
        f"{MOVES}::test_after_cancel_was_asked_the_holder_can_only_give_it_back",
    ),
    Mutant(
        "a stop is not a stop",
        "task/decide.py",
        "    if is_stopped(",
        "    if False and is_stopped(",
        f"{MOVES}::test_after_a_stop_nothing_is_taken_from_a_holder_but_that_it_gives_the_task_back",
    ),
    Mutant(
        "tasks of other workspaces visible",
        "task/decide.py",
        "return task.workspace in agent.workspaces or agent.agent_id in",
        "return True or agent.agent_id in",
        f"{MOVES}::test_what_belongs_elsewhere_is_told_in_the_same_words_as_what_is_absent",
    ),
    Mutant(
        "repeat recognised before the actor is known",
        "task/decide.py",
        "    check_actor(task, ctx, row)\n    again",
        "    again",
        f"{MOVES}::test_a_repeat_is_recognised_only_for_one_who_may_do_it",
    ),
    Mutant(
        "cycle not checked",
        "task/submit.py",
        "if assignee in (task.requester, task.assignee):",
        "if False:",
        f"{SUBMIT}::test_a_piece_of_work_is_not_handed_back_up",
    ),
    Mutant(
        "depth not checked",
        "task/submit.py",
        "if parent.depth + 1 > ctx.limits.depth:",
        "if False:",
        f"{SUBMIT}::test_tasks_delegate_only_so_deep",
    ),
    Mutant(
        "dedup ignores the digest",
        "task/submit.py",
        "if first.digest == c.digest:",
        "if True:",
        f"{SUBMIT}::test_hostile_9_the_same_key_with_another_body_is_a_conflict",
    ),
    Mutant(
        "age of message ids not checked",
        "task/submit.py",
        "if abs(ctx.now - id_milliseconds(c.message_id) / 1000) > limits.key_retention_seconds:",
        "if False:",
        f"{SUBMIT}::test_hostile_8_a_message_id_outside_the_retention_of_keys_is_refused_by_age",
    ),
    Mutant(
        "inbound policy skipped",
        "task/submit.py",
        'if agent.inbound == "hold":',
        "if False:",
        f"{SUBMIT}::test_a_policy_of_hold_waits_for_a_person_and_of_refuse_ends_it",
    ),
    Mutant(
        "provider consent not needed",
        "task/submit.py",
        'if agent.provider not in ("", "none") and agent.provider not in place.providers:',
        "if False:",
        f"{SUBMIT}::test_without_consent_nothing_goes_to_a_model_provider",
    ),
    Mutant(
        "assignee may review",
        "task/results.py",
        "if ctx.actor.id == task.assignee:",
        "if False:",
        f"{RESULTS}::test_a_person_alone_on_a_host_does_not_approve_their_own_work",
    ),
    Mutant(
        "assignee is asked to review",
        "task/turn.py",
        "if party and party != task.assignee and can_take_turn",
        "if party and can_take_turn",
        f"{RESULTS}::test_the_assignee_never_reviews_also_when_it_asked_itself",
    ),
    Mutant(
        "revision not bound",
        "task/results.py",
        "    if revision != task.revision:",
        "    if False:",
        f"{RESULTS}::test_a_verdict_is_bound_to_the_revision_that_was_shown",
    ),
    Mutant(
        "error of a check counts as passed",
        "task/results.py",
        "if outcome is CheckOutcome.PASSED and not review:",
        "if outcome in (CheckOutcome.PASSED, CheckOutcome.ERROR) and not review:",
        f"{RESULTS}::test_a_check_that_the_host_could_not_run_says_nothing_about_the_work",
    ),
    Mutant(
        "compensation without end",
        "failure.py",
        "    if task.failures >= ctx.limits.compensation_rounds:",
        "    if False:",
        f"{RESULTS}::test_a_failure_is_compensated_twice_and_then_exhausted",
    ),
    Mutant(
        "permission decided twice",
        "task/moves.py",
        "if asked is None or asked.decision:",
        "if asked is None:",
        f"{RESULTS}::test_hostile_23_a_permission_is_decided_once_for_the_exact_action",
    ),
    Mutant(
        "host may allow",
        "task/moves.py",
        'if ctx.actor.kind is ActorKind.HOST and c.decision != "reject_once":',
        "if False:",
        f"{RESULTS}::test_hostile_24_the_host_never_allows_and_nothing_is_allowed_for_ever",
    ),
    Mutant(
        "lapse before the lease is over",
        "task/moves.py",
        "if c.fence != task.fence or not task.lease_until or not over:",
        "if c.fence != task.fence or not task.lease_until:",
        f"{DELIVERY}::test_a_lease_lapses_only_when_it_is_over",
    ),
    Mutant(
        "what was pushed lapses into a new attempt",
        "task/moves.py",
        "    if work.in_flight:\n        raise conflict(",
        "    if False:\n        raise conflict(",
        f"{DELIVERY}::test_hostile_68_what_was_pushed_never_lapses_into_a_new_attempt",
    ),
    Mutant(
        "an agent has done again what nobody knows the outcome of",
        "task/handover.py",
        "    if ctx.actor.kind is ActorKind.PERSON or not (work.is_in_doubt or task.reason is R.UNVERIFIED):",
        "    if True:",
        "tests/unit/test_doubt.py::test_what_is_in_doubt_is_done_again_on_a_persons_word_alone",
    ),
    Mutant(
        "a driven task is handed over twice",
        "task/prompts.py",
        'if c.purpose in ("work", "changes") and delivery.prompted:',
        "if False:",
        "tests/unit/test_turns.py::test_one_turn_at_a_time_and_a_lost_one_is_named",
    ),
    Mutant(
        "what is in doubt is gone on with by itself",
        "task/prompts.py",
        "if doubted or task.running",
        "if task.running",
        "tests/unit/test_turns.py::test_what_was_prompted_and_has_no_outcome_is_doubted_and_never_sent_again_by_itself",
    ),
    Mutant(
        "any session takes a driven agent's task",
        "task/moves.py",
        'agent.connection == "drive" and c.session != task.session',
        'agent.connection == "drive" and False',
        "tests/unit/test_turns.py::test_only_the_session_that_it_was_handed_to_takes_a_driven_agents_task",
    ),
    Mutant(
        "deadline not checked",
        "task/ground.py",
        "if task.deadline_at and not task.handed_in_at and ctx.now >= task.deadline_at:",
        "if False:",
        f"{DELIVERY}::test_hostile_22_nothing_starts_after_the_deadline",
    ),
    Mutant(
        "fence not raised by a take",
        "task/moves.py",
        '        session=c.session if agent else "",\n        fence=task.fence + 1,',
        '        session=c.session if agent else "",\n        fence=task.fence,',
        f"{DELIVERY}::test_reported_43_after_a_lapse_the_old_fence_is_stale",
    ),
    Mutant(
        "old holder comes back after redo",
        "task/fold.py",
        '"attempt": t.attempt + 1, "last_holder": "", "last_session": ""}\n\n\ndef _restarted',
        '"attempt": t.attempt + 1}\n\n\ndef _restarted',
        f"{DELIVERY}::test_hostile_69_after_redo_the_old_holder_does_not_come_back",
    ),
    Mutant(
        "facts in the order they become known",
        "delivery/fold.py",
        "tuple(filter(None, map(known.get, ev.FACT_ORDER)))",
        "(*facts, *(f for f in new if f.fact not in {known.fact for known in facts}))",
        f"{DELIVERY}::test_recorded_comes_with_the_readers_acknowledgement",
    ),
    Mutant(
        "busy is not busy",
        "delivery/decide.py",
        "    if ctx.outstanding >= slots:",
        "    if slots < 0:",
        f"{DELIVERY}::test_reported_20_busy_is_queued_and_costs_no_attempt",
    ),
    Mutant(
        "tombstone given out again",
        "places.py",
        "if known is None or known.party == party:",
        "if known is None or known.party == party or not known.current:",
        f"{PLACES}::test_hostile_44_reported_7_the_name_of_one_who_left_is_a_tombstone",
    ),
    Mutant(
        "agents may do what is for persons",
        "places.py",
        "def _person_only(ctx: Context, what: str) -> None:\n    if ctx.actor.kind is ActorKind.AGENT:",
        "def _person_only(ctx: Context, what: str) -> None:\n    if False:",
        f"{PLACES}::test_an_agent_may_not_do_what_is_for_persons",
    ),
    Mutant(
        "joining again forgets what is not given",
        "directory.py",
        "for field in _KEPT_ON_REJOIN if getattr(e, field) is not None}",
        'for field in _KEPT_ON_REJOIN if field != "argv" or True}',
        f"{PLACES}::test_joining_again_changes_only_what_is_given",
    ),
    Mutant(
        "the end of a task is not told",
        "project.py",
        "        found[task.requester] = kind\n",
        "",
        f"{DUTY}::test_one_notice_for_each_end_to_the_requester_unless_it_ended_it_itself",
    ),
    Mutant(
        "a hyphen ends a name",
        "mention.py",
        "(?:[A-Za-z0-9_-]|[./]",
        "(?:[A-Za-z0-9_]|[./]",
        f"{MENTION}::test_a_mention_leads_to_exactly_who_is_named",
    ),
    Mutant(
        "an answer gives no lease",
        "task/fold.py",
        'return {"lease_until": e.lease_until} if e.state is S.WORKING else _no_holder()',
        "return {} if e.state is S.WORKING else _no_holder()",
        MACHINE,
        slow=True,
    ),
    Mutant(
        "a restart grants no lease",
        "task/fold.py",
        '"fence_before": t.fence_before or t.fence, "lease_until": e.lease_until}',
        '"fence_before": t.fence_before or t.fence, "lease_until": 0.0}',
        MACHINE,
        slow=True,
    ),
)


def try_mutant(mutant: Mutant) -> Verdict:
    """Apply it to a copy, and see whether its test notices."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as made:
        copy = Path(made)
        for name in ("tallystick", "tests"):
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", copy)
        path = copy / "tallystick" / "core" / mutant.file
        source = path.read_text(encoding="utf-8")
        if source.count(mutant.before) != 1:
            return Verdict(mutant, False, f"{mutant.file} does not hold its text exactly once: bring it up to date")
        path.write_text(source.replace(mutant.before, mutant.after), encoding="utf-8")
        return _judge(mutant, _run(copy, mutant.killer))


def _run(directory: Path, *killers: str) -> subprocess.CompletedProcess[str]:
    needed = ("pytest_asyncio.plugin", "pytest_timeout", "no:cacheprovider")  # all others take longer than the test
    command = [sys.executable, "-B", "-m", "pytest", "-x", "-q", *(word for name in needed for word in ("-p", name))]
    return subprocess.run(
        [*command, "--no-header", "--tb=line", *killers],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "HYPOTHESIS_PROFILE": "mutants", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )


def _judge(mutant: Mutant, done: subprocess.CompletedProcess[str]) -> Verdict:
    # 1: a test failed. Anything else (0: all passed, 2 to 5: nothing was tested) kills nothing.
    lines = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
    detail = lines[0].removeprefix("FAILED ").split(" - ")[0] if lines else (done.stdout + done.stderr)[-300:]
    return Verdict(mutant, done.returncode == 1, detail)


def try_all(mutants: tuple[Mutant, ...], workers: int = 2) -> list[Verdict]:
    """All of them, a few at a time."""
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(try_mutant, mutants))


def main(names: list[str]) -> int:
    """Print what became of each; 1 if one survived."""
    chosen = tuple(m for m in MUTANTS if not names or m.name in names)
    sound = _run(ROOT, *sorted({m.killer for m in chosen}))
    if sound.returncode:
        print(f"Without any fault the tests must pass:\n{sound.stdout[-1000:]}{sound.stderr[-1000:]}")
        return 1
    verdicts = try_all(chosen)
    for verdict in verdicts:
        print(f"{'killed' if verdict.killed else 'SURVIVED':9}{verdict.mutant.name:46}{verdict.detail}")
    survivors = sum(not v.killed for v in verdicts)
    print(f"{len(verdicts) - survivors} of {len(verdicts)} killed")
    return 1 if survivors or not verdicts else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
