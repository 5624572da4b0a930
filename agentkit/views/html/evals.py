"""An evaluation as a page: the figures of its models side by side, every case, and the conversations that failed."""

from collections.abc import Iterator, Mapping, Sequence

from ..history import Data
from .conversation import MAX_PAGE_BYTES, MessageList, max_text_bytes
from .markup import (
    Html,
    build_page,
    format_cost,
    format_count,
    format_moment,
    format_seconds,
    format_tokens,
    join,
    render_block,
    render_figures,
    render_table,
    tag,
    truncate_html,
)

MAX_SHOWN_CONVERSATIONS = 40
"""Conversations of failed trials that a page shows."""
MIN_CONVERSATION_BYTES = 2_000
MAX_FAILURE_BYTES = 600


def format_eval_figures(figures: Data) -> dict[str, str]:
    """Return the figures of a model (`EvalReport.figures`) as texts, by what a row of the table is called."""
    usage = figures["usage"]
    trials = figures["trials"]
    cost = usage.get("cost")
    each = {**usage, "cost": None if cost is None else cost / trials}
    errors = f", {format_count(figures['errors'], 'error')}" if figures["errors"] else ""
    rates = {f"pass^{k}": f"{rate:.3f} [{low:.3f}, {high:.3f}]" for k, (rate, low, high) in figures["pass"].items()}
    return {
        "passed": f"{figures['passed']} of {format_count(trials, 'trial')}{errors}",
        **rates,
        "steps, calls": f"{figures['steps']:.2f}, {figures['tool_calls']:.2f}",
        "seconds": f"{format_seconds(figures['median_seconds'])}, 95 %: {format_seconds(figures['p95_seconds'])}",
        "tokens": format_tokens(usage).replace("tokens ", "") or "none",
        "cost": f"{format_cost(usage) or '$0'}, a trial {format_cost(each) or '$0'}",
    }


def eval_page(report: Data) -> str:
    """Return the whole page for the plain data of a report (`EvalReport.view`)."""
    models = [*report["figures"]]
    title = f"{format_count(len(report['counts'][models[0]]), 'case')}, {format_count(len(models), 'model')}"
    versions = ", ".join(f"{name} {number}" for name, number in report["versions"].items())
    about = {"began": format_moment({"started": report["began"]}), "took": format_seconds(report["seconds"])}
    return build_page(
        f"agentkit: {title}",
        tag("h1", title),
        render_figures({**about, "with": versions}),
        _figures(report["figures"]),
        *(_change(f"{model}, since the baseline: ", change) for model, change in report["changes"].items()),
        *(tag("p", f"{model} against {models[0]}: {text}") for model, text in report["models"].items()),
        tag("h2", "Cases"),
        _cases(report["counts"]),
        *_failed(report["trials"]),
    )


def _figures(figures: Mapping[str, Data]) -> Html:
    columns = [format_eval_figures(of_model) for of_model in figures.values()]
    names = dict.fromkeys(name for column in columns for name in column)
    return render_table(["", *figures], ((name, *(column.get(name) for column in columns)) for name in names), "th")


def _change(title: str, change: Data) -> Html:
    lists = {"worse": change["worse"], "better": change["better"], "new": change["added"], "gone": change["removed"]}
    shown = (tag("li", f"{word}: {', '.join(names)}") for word, names in lists.items() if names)
    return tag("div", tag("p", title, tag("b", change["text"])), tag("ul", *shown), class_="note")


def _cases(counts: Mapping[str, Mapping[str, Sequence[int]]]) -> Html:
    """Return a row for each case, with the trials that passed of each model; those that failed are links."""
    names = dict.fromkeys(name for of_model in counts.values() for name in of_model)
    rows = (
        (name, *(_count(of_model.get(name), _anchor(model, name)) for model, of_model in counts.items()))
        for name in names
    )
    return render_table(("case", *counts), rows)


def _count(count: Sequence[int] | None, anchor: str) -> Html | str:
    if count is None:
        return ""
    passed, total = count
    text = f"{passed} of {total}"
    return text if passed == total else tag("span", tag("a", text, href=f"#{anchor}"), class_="wrong")


def _anchor(model: str, case: str) -> str:
    return f"case-{model}-{case}".replace(" ", "-")


def _failed(trials: Sequence[Data]) -> Iterator[Html]:
    """Yield the failed trials: what is wrong, and the conversation as far as the page has room."""
    failed = [trial for trial in trials if trial["failures"]]
    if failed:
        yield tag("h2", "Failed")
    shown = min(len(failed), MAX_SHOWN_CONVERSATIONS)
    anchors = set[str]()
    for place, trial in enumerate(failed):
        anchor = _anchor(trial["model"], trial["case"])
        head = f"{trial['case']} ({trial['model']}, trial {trial['number']})"
        reasons = (tag("li", truncate_html(text, MAX_FAILURE_BYTES)) for text in trial["failures"])
        result = trial["results"][-1] if trial["results"] and place < MAX_SHOWN_CONVERSATIONS else None
        talk = None if result is None else _conversation(result, MAX_PAGE_BYTES // shown, f"m{place}-")
        answer = join(tag("div", "answer", class_="dim"), render_block(trial["answer"]))
        own = {} if anchor in anchors else {"id": anchor}
        anchors.add(anchor)
        yield tag("article", tag("h3", head), tag("ul", *reasons, class_="wrong"), answer, talk, **own)


def _conversation(result: Data, room: int, anchor: str) -> Html:
    most = max_text_bytes(result, max(room, MIN_CONVERSATION_BYTES))
    messages = MessageList(result.get("messages", ()), result.get("trace") or {}, most, anchor)
    return tag("details", tag("summary", "the conversation"), *messages.render())
