"""Pages of published answers: results/README.md, a page and a figure per question, answers.csv."""

from __future__ import annotations

import math
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import pandas as pd

from ablations import figures
from ablations.answers.entries import FILE, Entries, Question, read
from ablations.answers.measures import (
    MARGIN,
    MEAN,
    SEEDS,
    Answers,
    answer_all,
    cost,
    percent,
)
from ablations.errors import count
from ablations.records import write_atomically
from ablations.scoring import LEAD
from ablations.tables.formats import MINUS, format_table, markdown_text, p_value

Row = Mapping[str, Any]
_TABLES = (
    ["task", "unchanged", "changed", "difference", "share", "seeds", "lead"],
    ["task", "area_share", "collapsed_unchanged", "collapsed_changed", "p_collapsed"],
)


class Markdown(str):
    """Text that templates do not escape."""

    __slots__ = ()


def write(results: Path) -> list[Path]:
    """Write all pages, figures and answers.csv; return the paths of README.md and answers.csv.

    Raises:
        UserError: an entry of questions.toml is invalid.
    """
    answers = answer_all(results, read(results / FILE))
    frame = answers.frame
    known = frame[frame.share.notna()].drop(columns="dots")
    known = known.assign(group=pd.Categorical(known.group, frame.group.unique()))
    known = known.sort_values(["group", "share"], ascending=[True, False])
    drawn = {"all": known, "decided": known[known.verdict != "inconclusive"]}
    texts = {"README.md": _index(answers)}
    for question, row, effects in _rows(answers):
        texts[f"questions/{question.id}.md"] = _page(question, row, effects)
        drawn[question.id] = _drawn(row, effects)
    for name, text in texts.items():
        write_atomically(results / name, text.replace(MINUS, "-"))
    for name, rows in drawn.items():
        if len(rows):
            _draw(rows, results / "questions" / name)
    write_atomically(results / "answers.csv", frame.drop(columns="dots").to_csv(index=False))
    return [results / "README.md", results / "answers.csv"]


def _draw(rows: pd.DataFrame, path: Path) -> None:
    """Draw effects. The axis fits all dots of seeds, or, without dots, 90% of the intervals."""
    ends = rows[["share", "share_low", "share_high"]].abs().max(axis=1)
    dots = np.abs(np.concatenate([*rows.dots])) if "dots" in rows else np.zeros(0)
    reach = 1.06 * max(2 * MARGIN, ends.quantile(1 if len(dots) else 0.9), *dots)
    axis, limits = "effect of the change, % of what the baseline learned", (-reach, reach)
    figure = figures.forest(rows, group="group", margin=MARGIN, axis=axis, limits=limits)
    figures.write(figure, path, ["svg"])


def find(results: Path, entries: Entries) -> Iterator[str]:
    """Yield published answers as lines of text. Archives must be unpacked."""
    for question, row, effects in _rows(answer_all(results, entries)):
        yield question.question
        yield "    " + "; ".join(filter(None, (sentence(question, row), rests_on(effects))))
        yield f"    {results / 'questions' / question.id}.md"


def _rows(answers: Answers) -> Iterator[tuple[Question, dict[str, Any], list[dict[str, Any]]]]:
    effects = dict(list(answers.effects.groupby("id")))
    for question, row in zip(
        answers.entries.question, answers.frame.to_dict("records"), strict=True
    ):
        yield question, row, effects[question.id].to_dict("records")


def sentence(question: Question, row: Row) -> str:
    """Write an answer with its interval: "Clipping lowers the score: -20% [-25, -14]"."""
    verdict, note, effect = row["verdict"], row["note"], percent(row)
    value, _, ends = effect.strip("]").partition(" [")
    bounds = f"{value}, 95% CI {ends.replace(', ', ' to ')}"
    if not row["seeds"]:
        return f"Not answered yet: {note}"
    if note == "identical":
        return "No effect: the runs are identical"
    if note.startswith("tasks disagree"):
        return f"The {note} ({bounds})"
    if verdict in ("better", "worse"):
        verb = {"better": "raises", "worse": "lowers"}[verdict]
        return f"{question.change} {verb} the score: {effect}"
    if verdict == "equivalent":
        return f"No relevant effect: {effect}, within \N{PLUS-MINUS SIGN}{100 * MARGIN:g}%"
    if verdict == "failed":
        return f"{question.change} makes more runs fail: {note}; {effect}"
    if not ends or row["share_low"] > 0 or row["share_high"] < 0:
        return f"Inconclusive: {effect}, {note}"
    if (needed := row["seeds_to_detect"]) > 0:
        note = f"{needed:,.0f} seeds would detect an effect of {100 * MARGIN:g}%"
    return f"No effect found ({bounds}){f'; {note}' if note else ''}"


def rests_on(effects: Sequence[Row]) -> str:
    """Write the tasks of an answer with their numbers of seeds."""
    return ", ".join(
        f"{each['task']} ({count(int(each['seeds']), 'seed')}"
        + (f", baseline {n:.0f})" if (n := each["baseline_seeds"]) > each["seeds"] else ")")
        for each in effects
        if each.get("used") is True
    )


def _drawn(row: Row, effects: Sequence[Row]) -> pd.DataFrame:
    rows = [{**each, "label": each["task"]} for each in effects if each.get("used") is True]
    if len(rows) > 1:
        rows.insert(0, {**row, "label": MEAN})
    rows = [each | {"group": "seeds that answer"} for each in rows]
    for name, label in (("held_out", "held-out seeds"), ("all_seeds", "all seeds together")):
        if row[f"{name}_seeds"] > 0:
            own = {key.removeprefix(f"{name}_"): value for key, value in row.items()}
            rows.append(own | {"label": label, "group": "replication", "dots": [], "note": ""})
    return pd.DataFrame(rows)


# Pages


def _template(name: str) -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: value if isinstance(value, Markdown) else markdown_text(str(value)),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["url"] = _url
    environment.globals |= {"percent": percent, "p_value": p_value, "rests_on": rests_on}
    environment.globals["lead"] = f"{LEAD:g}"
    return environment.get_template(name)


def _url(address: str) -> Markdown:
    return Markdown(urllib.parse.quote(address, safe="%/:?#@!$&'*+,;=~-._"))


def _page(question: Question, row: Row, effects: Sequence[Row]) -> str:
    pair = {} if question.factor else {"variants": [question.versus, question.variant]}
    waiting = [each["task"] for each in effects if each.get("used") is not True]
    commands = [question.request(tasks=[task], **pair).command() for task in waiting]
    if row["seeds"]:
        first = SEEDS["held_out"].start
        again = {"tasks": row["tasks"].split(", "), "seeds": f"{first}-{first + row['seeds'] - 1}"}
        commands.append(question.request(**again, **pair).command())
    rows = [{**row, "task": MEAN}] if "," in row["tasks"] else []
    frame = pd.DataFrame([*rows, *effects])
    if "lead" in frame:
        frame["lead"] = [f"{lead:.1f}".replace("nan", "") for lead in frame["lead"]]
    tables = []
    for columns in _TABLES if "share" in frame else ():
        ends = [f"{name}{end}" for name in columns for end in ("", "_low", "_high")]
        shown = frame[[name for name in ends if name in frame]]
        names = [name for name in columns if name in shown]
        tables.append(Markdown(format_table(shown, "markdown", columns=names, caption=False)))
    return _template("question.md.j2").render(
        question=question,
        row=row,
        sentence=sentence(question, row),
        effects=effects,
        waiting=waiting,
        low=[each["task"] for each in effects if each.get("lead", math.nan) < LEAD],
        tables=tables,
        commands=[*map(Markdown, commands), Markdown(f"ablations show {question.id}")],
    )


def _index(answers: Answers) -> str:
    runs, hours, processors = cost(answers.designs)
    effects = answers.effects.reindex(columns=["used", "lead"])
    return _template("index.md.j2").render(
        verdicts=answers.frame.verdict.value_counts(),
        runs=runs,
        hours=hours,
        processors=processors,
        low=int((effects.lead[effects.used == True] < LEAD).sum()),  # noqa: E712
        tasks=answers.entries.task,
        checks=answers.checks.to_dict("records"),
        groups=list(answers.frame.group.unique()),
        rows=list(_rows(answers)),
    )
