"""Arguments from a text: which value goes to which parameter, in how many calls."""

from collections.abc import Mapping, Sequence
from typing import Any

from .fit import NEEDED, Fit, fits_of
from .scene import Scene, contexts_of, in_one_run, read_for
from .tools import Param, Tool
from .values import Mention
from .words import CLASSES, STOP

_OPTIONAL_CUE = 0.55
_STEPS = 3000
"""After so many steps the best assignment found is taken; the first one tried is already a good one."""
_DETERMINERS = frozenset(["the", "a", "an", "this", "that", "my", "your", "our", "and", ",", "or"])


def rows(tool: Tool, scene: Scene) -> tuple[list[dict[str, Any]], list[str]]:
    """The arguments of every call of `tool` that the scene's task asks for, or the required names it does not fill."""
    columns = _columns(tool, scene)
    for param in tool.params:
        if param not in columns and (rest := _rest(param, tool, scene)):
            columns[param] = [Fit(NEEDED, 0, rest, Mention("rest", rest, "", scene.start, scene.end))]
    missing = [".".join(p.path) for p in tool.params if p.required and p not in columns]
    return ([], missing) if missing else (_zipped(tool, columns), [])


def fills(tool: Tool, scene: Scene) -> bool:
    """Whether the task by itself says all that a call of `tool` needs, and at least something."""
    columns = _columns(tool, scene.narrowed())
    return bool(columns) and all(param in columns for param in tool.params if param.required)


def _columns(tool: Tool, scene: Scene) -> dict[Param, list[Fit]]:
    """The values of each parameter: first one each, as they fit best; then what is left joins its like."""
    contexts = contexts_of(read_for(tool, scene), tool, scene)
    choices = {
        param: [f for f in fits_of(param, scene, contexts) if f.score >= NEEDED and f.cue >= _wanted(param)]
        for param in tool.params
    }
    columns = _assigned(
        [(param, sorted(fits, key=_rank)[: max(4, len(tool.params))]) for param, fits in choices.items() if fits]
    )
    every = sorted((fit for p in columns for fit in choices[p]), key=lambda fit: (fit.mention.start, -fit.score))
    used = [column[0].mention for column in columns.values()]
    for fit in every:
        if scene.holds(fit.mention) and not any(_overlap(fit.mention, mention) for mention in used):
            like = {p: max(_alike(fit.mention, f.mention, scene) for f in column) for p, column in columns.items()}
            rivals = [
                (-(like[p] == 2), *_rank(f)[:1], len(columns[p]), index, p, f)
                for index, p in enumerate(columns)
                for f in choices[p]
                if f.mention is fit.mention and f.score >= 0.65 * columns[p][0].score
            ]
            if any(like.values()) and rivals:
                *_, param, fit = min(rivals, key=lambda rival: rival[:4])
                columns[param].append(fit)
                used.append(fit.mention)
    return columns


def _wanted(param: Param) -> float:
    return -1.0 if param.required else _OPTIONAL_CUE


def _rank(fit: Fit) -> tuple[float, int]:
    return -round(fit.score, 2), fit.mention.start


def _assigned(choices: Sequence[tuple[Param, list[Fit]]]) -> dict[Param, list[Fit]]:
    """One value for each parameter, none of them used twice, so that the sum of the scores is the highest."""
    rest = [sum(fits[0].score + 2 for _, fits in choices[i:]) for i in range(len(choices) + 1)]
    best: tuple[float, list[Fit | None]] = (-1.0, [None] * len(choices))

    steps = 0

    def search(taken: list[Fit | None], total: float) -> None:
        nonlocal best, steps
        steps += 1
        if steps > _STEPS or total + rest[len(taken)] <= best[0] + 1e-6:
            return
        if len(taken) == len(choices):
            best = (total, taken)
            return
        param, fits = choices[len(taken)]
        for fit in fits:
            if not any(one and _overlap(one.mention, fit.mention) for one in taken):
                search([*taken, fit], total + fit.score + (2 if param.required else -0.25))
        search([*taken, None], total)

    search([], 0.0)
    return {param: [fit] for (param, _), fit in zip(choices, best[1], strict=True) if fit}


def _overlap(one: Mention, other: Mention) -> bool:
    return one.start < other.end and other.start < one.end


def _alike(fit: Mention, first: Mention, scene: Scene) -> int:
    """Whether a value is one more of its kind: 2 between the same words, 1 in one list with the other, else 0."""
    one, other = sorted((fit, first), key=lambda m: m.start)
    if one.kind != other.kind or one.kind == "flag":
        return 0
    return 2 if _neighbours(one, scene) & _neighbours(other, scene) else int(in_one_run(one, other, scene.text))


def _neighbours(mention: Mention, scene: Scene) -> set[str]:
    before = [t.word for t in scene.tokens if t.end <= mention.start and t.word not in _DETERMINERS][-1:]
    after = [t.word for t in scene.tokens if t.start >= mention.end][:1]
    return {f"{word} _" for word in before if word[0].isalnum()} | {f"_ {word}" for word in after if word[0].isalnum()}


def _zipped(tool: Tool, columns: Mapping[Param, Sequence[Fit]]) -> list[dict[str, Any]]:
    """The calls: as many as the longest column has values; shorter columns repeat their last."""
    calls: list[dict[str, Any]] = []
    for index in range(max((len(column) for column in columns.values()), default=1)):
        arguments: dict[str, Any] = {}
        for param in tool.params:
            if column := sorted(columns.get(param, ()), key=lambda fit: fit.mention.start):
                place = arguments
                for step in param.path[:-1]:
                    place = place.setdefault(step, {})
                place[param.path[-1]] = column[min(index, len(column) - 1)].value
        calls.append(arguments)
    return calls


def _rest(param: Param, tool: Tool, scene: Scene) -> str:
    """What is said besides the request itself, for a required parameter that takes free text."""
    if not param.required or param.type not in ("string", "any") or param.options or not param.names & CLASSES["text"]:
        return ""
    words = scene.words
    while words and (words[0].word in STOP or words[0].concept in {*tool.name_words, *param.names}):
        words = words[1:]
    return scene.text[words[0].start : scene.end].strip(" .?!,;") if words else ""
