"""Pages of published answers: results/README.md, a page and figures per detail, answers.csv."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import pandas as pd
from markupsafe import Markup
from msgspec import structs

from ablations import figures
from ablations.answers import PAGES, TABLE
from ablations.answers.entries import FILE, Detail, read
from ablations.answers.measures import (
    ANSWERING,
    MARGIN,
    MEAN,
    Answers,
    Contrast,
    answer_all,
    cost,
    percent,
)
from ablations.core.record import settings_read
from ablations.errors import listed, value_text
from ablations.parameters import ranges
from ablations.presets import presets
from ablations.records import write_atomically
from ablations.scoring import LEAD
from ablations.stats import VERDICTS
from ablations.studies import studies
from ablations.tables.formats import MINUS, format_table, markdown_text, p_value

Row = Mapping[str, Any]
LARGEST_Q = 0.05  # of a difference that is worth a changed default
LIBRARIES = {  # preset -> its heading in the list
    **{"brax": "Brax", "cleanrl": "CleanRL", "sb3": "SB3", "rsl_rl": "RSL-RL"},
    **{"torchrl": "TorchRL", "purejaxql": "PureJaxQL"},
    **{"trl_grpo": "TRL", "verl_grpo": "verl", "openrlhf_reinforce_pp": "OpenRLHF"},
}
_TABLES = (
    ["task", "unchanged", "changed", "difference", "share", "seeds", "lead"],
    ["task", "collapsed_unchanged", "collapsed_changed", "p_collapsed"],
)
_SCORES = {
    "mean": "the mean of all evaluations",
    "last": "the mean of the last three evaluations",
    "final": "the mean of the last tenth of training",
}
_WORDS = {
    "better": "a higher score",
    "worse": "a lower score",
    "equivalent": "no relevant effect",
    "inconclusive": "no detectable effect",
    "failed": "more failed runs",
}


def write(results: Path) -> list[Path]:
    """Write all pages, figures and answers.csv; return the paths of README.md and answers.csv.

    Raises:
        UserError: an entry of questions.toml is invalid.
    """
    answers = answer_all(results, read(results / FILE))
    frame = answers.frame
    known = frame[frame.share.notna()].drop(columns="dots")
    known = known.assign(group=pd.Categorical(known.domain, _domains(answers)))
    known = known.sort_values(["group", "share"], ascending=[True, False])
    drawn = {"all": known, "decided": known[known.verdict != "inconclusive"]}
    texts = {"README.md": _index(answers)}
    for detail in answers.entries.detail:
        texts[f"{PAGES}/{detail.id}.md"] = _page(answers, detail)
        drawn[detail.id] = _drawn(answers, detail)
        for comparison in detail.comparison:
            if comparison.variant:
                path = results / PAGES / f"{comparison.id}_curves"
                _draw_curves(answers.contrasts[comparison.id], path)
    for name, text in texts.items():
        write_atomically(results / name, text.replace(MINUS, "-"))
    for name, rows in drawn.items():
        if len(rows):
            _draw(rows, results / PAGES / name)
    of_detail = {each.id: sentence(answers, each) for each in answers.entries.detail}
    table = frame.drop(columns="dots").assign(sentence=frame.detail.map(of_detail))
    write_atomically(results / TABLE, table.to_csv(index=False))
    return [results / "README.md", results / TABLE]


def _draw(rows: pd.DataFrame, path: Path) -> None:
    """Draw effects. The axis fits all dots of seeds, or, without dots, 90% of the intervals."""
    ends = rows[["share", "share_low", "share_high"]].abs().max(axis=1)
    dots = np.abs(np.concatenate([*rows.dots])) if "dots" in rows else np.zeros(0)
    reach = 1.06 * max(2 * MARGIN, ends.quantile(1 if len(dots) else 0.9), *dots)
    axis, limits = "effect of the change, % of what the baseline learned", (-reach, reach)
    figure = figures.forest(rows, group="group", margin=MARGIN, axis=axis, limits=limits)
    figures.write(figure, path, ["svg"])


def _draw_curves(contrast: Contrast, path: Path) -> None:
    """Draw the learning curves of the two variants, of every seed of an answer."""
    baseline, runs = contrast.entry.versus, contrast.runs
    versus = dict.fromkeys((baseline, contrast.entry.variant), baseline)
    kept = runs.runs.variant.isin(versus) & runs.runs.seed.isin(ANSWERING) & runs.runs.score.notna()
    shown = runs.where(kept)
    tasks = {task: of for task, of in contrast.plan.tasks.items() if task in {*shown.runs.task}}
    if tasks:
        plan = structs.replace(contrast.plan, tasks=tasks)
        shown = replace(shown, plan=plan, versus=versus, baseline=baseline, untrained={})
        figures.write(figures.curves(shown, each_seed=True), path, ["svg"])


# Sentences


def sentence(answers: Answers, detail: Detail) -> str:
    """Write what a detail does, in a sentence that can be pasted elsewhere.

    It has the effect in each domain with interval, tasks and seeds, and whether to use the detail.
    """
    rows = answers.of(detail).to_dict("records")
    parts = [_measured(row) for row in rows if row["seeds"]]
    if not parts:
        return f"{detail.change}: not tested."
    advised = f"{_ADVICE[advice(answers, detail)]} {detail.caution}".strip()
    return f"{detail.change}: {'; '.join(parts)}. {advised}"


def _measured(row: Row) -> str:
    effect = percent(row)
    value, _, ends = effect.strip("]").partition(" [")
    bounds = f"{value}, 95% CI {ends.replace(', ', ' to ')}" if ends else effect
    tasks, numbers = (row[name].split(", ") for name in ("tasks", "seeds_by_task"))
    seeds = f"{' and '.join(tasks)}, {' and '.join(numbers)} seed{'s' * (numbers != ['1'])}"
    if row.get("factor"):
        seeds = f"{seeds} of {row['settings']:.0f} settings"
    each = " each" * (len(tasks) > len(numbers))
    words = "identical runs" if row["note"] == "identical" else _WORDS[row["verdict"]]
    if row["note"].startswith("tasks disagree"):
        words = row["note"]
    return f"{words} on {row['domain']} ({bounds}; {seeds}{each})"


_ADVICE = {
    "yes": "Use it.",
    "no": "Do not use it.",
    "either": "Keep either.",
    "depends": "It depends on the task.",
    "no evidence": "No evidence to prefer either.",
}


def advice(answers: Answers, detail: Detail) -> str:
    """Return whether to use a detail, a key of `_ADVICE`.

    A difference counts if its q is below 0.05. Equivalence counts in domains in which a bug
    of the trainer was found.
    """
    rows = answers.of(detail)
    sure = rows[(rows.q < LARGEST_Q) & rows.verdict.isin(["better", "worse", "failed"])]
    equal = rows[(rows.verdict == "equivalent") & rows.domain.isin(answers.sensitive)]
    better, worse = (sure.verdict == "better").any(), (sure.verdict != "better").any()
    if better and worse:
        return "depends"
    if better or worse:
        return "yes" if better else "no"
    return "either" if len(equal) else "no evidence"


def _drawn(answers: Answers, detail: Detail) -> pd.DataFrame:
    """Return the rows of a detail's figure: tasks, their mean, and both halves of the seeds."""
    rows: list[Row] = []
    for row in answers.of(detail).to_dict("records"):
        own = answers.effects[answers.effects.id == row["id"]].to_dict("records")
        used = [{**each, "label": each["task"]} for each in own if each.get("used") is True]
        if len(used) > 1:
            used.insert(0, {**row, "label": MEAN})
        for half, label in (("first", "seeds below 500"), ("second", "seeds from 500 on")):
            if used and row["first_seeds"] > 0 and row["second_seeds"] > 0:
                part = {key.removeprefix(f"{half}_"): value for key, value in row.items()}
                used.append(part | {"label": label, "dots": [], "note": ""})
        rows += [each | {"group": row["domain"]} for each in used]
    return pd.DataFrame(rows)


# Pages


def _render(template: str, **values: Any) -> str:
    """Fill a template. Values are escaped for Markdown, except `Markup`."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: value if isinstance(value, Markup) else markdown_text(str(value)),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals |= {"percent": percent, "p_value": p_value, "LEAD": f"{LEAD:g}"}
    environment.globals |= {"SCORES": _SCORES, "listed": listed}
    return environment.get_template(template).render(**values)


def _page(answers: Answers, detail: Detail) -> str:
    rows = answers.of(detail).to_dict("records")
    parts = [_part(row, answers.contrasts[row["id"]], answers.effects) for row in rows]
    said = sentence(answers, detail)
    return _render("detail.md.j2", detail=detail, sentence=said, parts=parts)


def _part(row: Row, contrast: Contrast, every: pd.DataFrame) -> dict[str, Any]:
    """Return what the template needs of one comparison."""
    effects = every[every.id == row["id"]]
    tasks = row["tasks"].split(", ") if row["tasks"] else [*effects.task]
    rows = [{**row, "task": MEAN}] if "," in row["tasks"] else []
    if "," in row["seeds_by_task"]:
        rows[0]["seeds"] = math.nan
    frame = pd.DataFrame([*rows, *effects[effects.seeds > 0].to_dict("records")])
    low = [] if "lead" not in frame else list(frame.task[frame.lead < LEAD])
    if "lead" in frame:
        frame["lead"] = [f"{lead:.1f}".replace("nan", "") for lead in frame["lead"]]
    tables = []
    for columns in _TABLES if "share" in frame else ():
        ends = [f"{name}{end}" for name in columns for end in ("", "_low", "_high")]
        shown = frame[[name for name in ends if name in frame]]
        names = [name for name in columns if name in shown]
        tables.append(Markup(format_table(shown, "markdown", columns=names, caption=False)))
    return {
        "row": row,
        "comparison": contrast.entry,
        "used": effects[effects.used == True].to_dict("records"),  # noqa: E712
        "untested": listed([task for task in effects.task if task not in row["tasks"].split(", ")]),
        "low": listed(low),
        "tables": tables,
        "settings": [] if contrast.factor else _changed(contrast),
        "curves": bool(contrast.entry.variant and row["seeds"]),
        "commands": Markup("\n".join(_commands(row, contrast, tasks))),
    }


def _commands(row: Row, contrast: Contrast, tasks: Sequence[str]) -> Iterator[str]:
    """Yield the commands that train the runs of a comparison and print its table.

    Tasks with different seeds have commands of their own.
    """
    comparison, runs = contrast.entry, contrast.runs.runs
    study, groups = studies().get(comparison.study), dict[tuple[int, ...], list[str]]()
    names = [study.baseline if study else "", comparison.versus, comparison.variant]
    pair = {} if comparison.factor else {"variants": [*dict.fromkeys(filter(None, names))]}
    used = runs[runs.variant.eq(comparison.variant) & runs.seed.isin(ANSWERING)]
    used = used[used.score.notna()]
    for task in tasks:
        groups.setdefault((*sorted(used.seed[used.task == task]),), []).append(task)
    for seeds, group in groups.items():
        request = comparison.request(tasks=group, **pair)
        train = request.command()
        if seeds and study and {*seeds} != {*study.profiles[request.profile].every_seed()}:
            train += f" --seeds {ranges(seeds)}"
        yield train
        if seeds:
            score = "" if row["score"] == contrast.runs.score else f" --score {row['score']}"
            yield train.replace("ablations run", "ablations table", 1) + score


def _changed(contrast: Contrast) -> list[tuple[str, str, str]]:
    """Return the settings that differ: name, values without the detail, values with it."""
    (off,), (on,) = contrast.sides
    sets = {name: contrast.plan.variants[name].sets for name in (off, on)}
    configs: dict[str, dict[str, Any]] = {cell.variant: {} for cell in contrast.plan.cells}
    for cell in contrast.plan.cells:
        configs[cell.variant][cell.task] = settings_read(cell.config)

    def text(side: str, name: str) -> str:
        values = [of.get(name, sets[side].get(name, "default")) for of in configs[side].values()]
        return " or ".join(dict.fromkeys(map(value_text, values))) or "default"

    names = [n for n in {**sets[off], **sets[on]} if sets[off].get(n) != sets[on].get(n)]
    return [(name, text(off, name), text(on, name)) for name in names]


def _index(answers: Answers) -> str:
    runs, hours, processors = cost({of.runs for of in answers.contrasts.values()})
    frame, entries = answers.frame, answers.entries
    tested = {*answers.effects.task[answers.effects.seeds > 0]}
    counts = frame.verdict[frame.seeds > 0].value_counts()
    conclusive = counts.drop("inconclusive", errors="ignore")
    topics = dict.fromkeys(detail.topic for detail in entries.detail)
    return _render(
        "index.md.j2",
        entries=entries,
        comparisons=len(frame),
        words=[f"{conclusive[name]} {name}" for name in VERDICTS if name in conclusive],
        conclusive=conclusive.sum(),
        open=counts.get("inconclusive", 0),
        within=((frame.share_low > -0.1) & (frame.share_high < 0.1)).sum(),
        untested=(frame.seeds == 0).sum(),
        failing=[task.name for task in entries.task if not task.passes],
        waiting=[t.name for t in entries.task if t.passes and t.column not in tested],
        topics={topic: _list(answers, topic) for topic in topics},
        runs=runs,
        hours=hours,
        processors=processors,
        checks=answers.checks.to_dict("records"),
        sensitive=sorted(answers.sensitive) or ["none"],
    )


def _domains(answers: Answers) -> list[str]:
    return list(dict.fromkeys(task.domain for task in answers.entries.task))


def _list(answers: Answers, topic: str) -> Markup:
    """Return the table of a topic: per detail the libraries' values and an effect per domain."""
    rows = []
    for detail in (each for each in answers.entries.detail if each.topic == topic):
        study = studies().get(detail.comparison[0].study)
        found = {
            head: ", ".join(value_text(own[name]) for name in detail.settings if name in own)
            for preset, head in LIBRARIES.items()
            if study and presets()[preset].trainer == study.trainer
            for own in [presets()[preset].values()]
        }
        effects = {
            row["domain"]: f"{percent(row)} {row['verdict'] or 'not tested'}".strip()
            for row in answers.of(detail).to_dict("records")
        }
        flags = [term for term in detail.terms if re.fullmatch(r"\w+_\w+", term)]
        head = f"[{markdown_text(detail.label)}]({PAGES}/{detail.id}.md)"
        head += "".join(f" `{flag}`" for flag in flags[:3])
        advised = advice(answers, detail) + (" (limits)" if detail.caution else "")
        rows.append({"detail": head, **found, **effects, "use it?": advised})
    frame = pd.DataFrame(rows).fillna("")
    frame = frame.loc[:, (frame != "").any()]
    domains = [name for name in _domains(answers) if name in frame]
    heads = ["detail", *(h for h in LIBRARIES.values() if h in frame), *domains, "use it?"]
    lines = [heads, [":--"] * len(heads), *frame[heads].to_numpy().tolist()]
    return Markup("\n".join(f"| {' | '.join(line)} |" for line in lines))
