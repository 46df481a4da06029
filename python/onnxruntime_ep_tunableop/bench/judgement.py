"""When a benchmark fails: the answers differ, nothing of ours ran, or something fell back unasked."""

from __future__ import annotations

from collections.abc import Sequence

from .results import ANSWERS_DIFFER, FELL_BACK, NOTHING_RAN, NodeReport, SideReport

#: Runs on an unmeasured kernel that an option asked for; the last is what tuning=background is for.
ASKED_FOR = ("tuning_off", "recording", "not_worth_yet")

_REMEDIES = {
    "not_in_cache": "the cache does not know them: measure with --tuning online, or 'tunableop tune'",
    "session_budget": "max_session_ms is spent: --option max_session_ms=0",
    "day_budget": "max_day_ms is spent: --option max_day_ms=0",
    "out_of_memory": "there was no memory to measure in",
    "tuner_busy": "another session was measuring",
    "waiting_for_idle": "they still wait to be measured: a smaller load, or --tuning online",
    "graph_capture": "nothing is measured while a graph is captured",
}


def judge(
    sides: Sequence[SideReport], nodes: Sequence[NodeReport], *, allow_fallback: bool
) -> tuple[int, list[str]]:
    """The exit code (0: nothing to complain of) and every complaint, the gravest first."""
    wrong = [
        f"the answers of {side.name} differ: {side.agreement.reason}"
        for side in sides
        if not side.agreement.within
    ]
    nothing = []
    if not any(node.claimed for node in nodes):
        why = "; ".join(sorted({node.reason for node in nodes})) or "the model has no MatMul or Gemm node"
        nothing.append(f"our provider ran nothing, so there is nothing to compare: {why}")
    fell = []
    if not allow_fallback:
        refused: dict[str, int] = {}
        for node in nodes:
            if not node.claimed and not node.asked_for:
                refused[node.reason] = refused.get(node.reason, 0) + 1
        # Where nothing ran at all, that is said already.
        if not nothing:
            fell += [f"{_nodes(count)} not on ours: {reason}" for reason, count in refused.items()]
        for side in sides:
            fell += [
                f"{count} timed calls of {side.name} ran a kernel that was not measured: "
                f"{_REMEDIES.get(reason, reason)}"
                for reason, count in side.runtime_fallbacks.items()
                if reason not in ASKED_FOR
            ]
        if fell:
            fell[-1] += " (--allow-fallback lets this pass)"
    for code, found in ((ANSWERS_DIFFER, wrong), (NOTHING_RAN, nothing), (FELL_BACK, fell)):
        if found:
            return code, [*wrong, *nothing, *fell]
    return 0, []


def _nodes(count: int) -> str:
    return "1 MatMul or Gemm node is" if count == 1 else f"{count} MatMul and Gemm nodes are"
