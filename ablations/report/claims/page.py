"""results/README.md: every claim, what was run and what was found, from the records alone."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence

from ablations.report.claims.conditions import Again, fates
from ablations.report.claims.entries import OWN, Claim
from ablations.report.claims.found import EVALUATION, Judged
from ablations.report.claims.rows import estimate, table
from ablations.report.claims.words import Stand, sentence, stands, turning, verdict
from ablations.report.formats.markdown import markdown_text, pipes
from ablations.report.tables.entries import Column, Sheet

FIGURE, CONDITIONS = "claims", "conditions"  # the stems of the figures, beside the page
_LEVELLED = 1.0  # margins in the last fifth of training

_OPENING = """\
# Published claims, judged

Each claim is a sentence that somebody published, or that common practice takes for granted; its
first line says which. It is judged on paired seeds. The sentences, metrics, tasks and margins are
in [claims.toml](claims.toml), which was committed before the runs that judge them, with these
exceptions:

- The claims about means over 32 settings, and the repetitions under other settings at the end of
  this page, were added once the verdicts on single changes were known, and before their own runs.
- Of the claims about normalised advantages in language, results of the first eight of the 20 seeds
  had been reported before their sentences were written. One of them was added afterwards, as its
  runs were there; it says so.
- After first runs the lengths and learning rates of control tasks were changed, twice, by the
  baseline's curves alone: on reacher it collapsed on some seeds, and on inverted_double_pendulum
  it had not levelled off. Those runs left nearly everything undecided; they are in the history of
  the archives.
- Titles, sources and published numbers were reworded after the verdicts, and so were the judged
  sentences of [lite_ppo](#lite_ppo) and [value_clipping_units](#value_clipping_units). What is
  compared, metrics, tasks, directions and margins stayed.

Every number is regenerated from the [archives](archive) by `ablations claims --write`, and a test
compares them byte for byte. Further: [what the words mean](../docs/claims.md); [which details make
the gap between two libraries](reference/explain/README.md)."""

_LIMITS = """\
## Limits

- **Margins.** 5% of what training returns rose by. Evaluations rise by less: the first comes after
  a tenth of training, and they are free of the noise of exploration, which is most of what training
  returns begin with on reacher. Each claim about a mean return tells what its margin is for
  evaluations; *no difference that matters* says little where that is a large share. Where what is
  compared with learned little, as CleanRL's defaults did on reacher, the margin is tiny.
- **Physics.** Brax's spring backend on a CPU with Brax's versions of the tasks, but for [other
  settings](#do-they-stand-elsewhere). Returns are not those of MuJoCo; a claim made there is tested
  only as far as it should carry over.
- **Processors.** Runs are of an AMD EPYC; but those of 32 settings on inverted_double_pendulum and
  hopper, and those under other settings, are of an Intel Xeon. On tasks with physics their curves
  differ, as each approximates an inverse square root in its own way ([how it
  works](../docs/how-it-works.md)). Where studies share cells the two meet: in the baseline among
  the 32 settings, and in two variants at three times the learning rate on hopper. Seeds are paired
  all the same; where processors differ, pairing gains less.
- **Size.** Networks of 64 x 64 units (but for other settings), 64 environments, and 120,000 to
  490,000 steps; a two-layer transformer on three hundred problems of arithmetic. A claim about a
  model of billions of weights is judged as one about the mechanism.
- **Tasks.** Those that are named with each claim, with episodes of at most 50 (reacher), 100
  (inverted_double_pendulum) and 200 steps. No verdict reaches beyond them. What was cut, and why,
  is told at the head of [claims.toml](claims.toml).
- **Settings.** One change of a common baseline, whose learning rate was chosen for returns that
  differ little between seeds, not for the highest: some tasks return more at three times that rate,
  as [value clipping](#value_clipping_robust) shows. The variants of prompt_normalization run each
  at the best of its own rates, but for Lite PPO, which has GRPO's. A detail may matter inside
  another library's settings.
- **Rewards of several scales.** Greedy accuracy counts every problem once, which the reward that is
  trained on does not; so the return that is paid stands beside it.
- **Means over 32 settings.** The mean of 16 combinations of 15 choices with a choice, minus that of
  16 others without. Interactions of three choices are mixed into it, and combinations that learn
  little pull it towards 0. Andrychowicz et al. report 95th percentiles over random settings.
- **Pairs that are used twice.** A sentence and its contrary ("raises the return", "matters little")
  rest on the same runs and count as two claims.
- **Chance.** The intervals of a claim hold at once with 95%. Of many claims a few verdicts may be
  wrong; the last column of the table shows what is left when the intervals of all claims hold at
  once. [Simulated](reference/claims.txt), nominal intervals of 95% cover 89 to 94% for a spread of
  skewed, capped or collapsing returns, and 87% or more for lost robustness. What has been run again
  on other seeds stands [beside the first estimates](reference/other_seeds.md)."""


def claims_sheet(found: Sequence[Judged], at_once: Sequence[Judged]) -> Sheet:
    """List each claim with its verdict and the range of its effects in margins."""
    rows = []
    for one, other in zip(found, at_once, strict=True):
        ran = [part for part in one.parts if part.effect_low is not None]
        effects = [part.effect for part in ran if part.effect is not None]
        lows = [part.effect_low for part in ran if part.effect_low is not None]
        highs = [part.effect_high for part in ran if part.effect_high is not None]
        seeds = min((part.n for part in one.parts if part.ran), default=0)
        rows.append(
            (
                one.claim.id,
                one.claim.title,
                min(effects, default=None),
                max(effects, default=None),
                min(lows, default=None),
                max(highs, default=None),
                len(one.parts),
                seeds,
                verdict(one),
                verdict(other),
            )
        )
    return Sheet(
        "claims",
        "claims",
        "Published claims. effects: of all comparisons that a claim rests on, in margins (beyond "
        "-1 and 1 they matter), and how far their intervals reach. all at once: the verdict when "
        "the intervals of all claims hold at once.",
        (
            *("claim", "title", "least", "most", "low", "high", "comparisons", "seeds"),
            *("verdict", "at_once"),
        ),
        tuple(rows),
        (
            Column("claim", "text", ("claim",)),
            Column("effects", "fixed", ("least", "least", "most"), "+", 1, right=True),
            Column("[95% joint]", "fixed", ("least", "low", "high"), "+", 1),
            Column("of", "count", ("comparisons",)),
            Column("seeds", "count", ("seeds",)),
            Column("verdict", "text", ("verdict",)),
            Column("all at once", "text", ("at_once",)),
        ),
    )


def page(
    found: Sequence[Judged],
    at_once: Sequence[Judged],
    others: Mapping[str, Judged],
    again: Sequence[Again] = (),
) -> str:
    """Write the whole page.

    Args:
        found: the claims as they were judged.
        at_once: the same claims when the intervals of all hold at once.
        others: claim -> itself, judged by another metric.
        again: what ran under other settings too.
    """
    lines = [*_OPENING.splitlines(), "", f"![All claims]({FIGURE}.svg)", ""]
    lines += _wrapped(_counts(found))
    lines += ["", *_overview(found, at_once), ""]
    for one in found:
        if one.ran:
            lines += [*_section(one, others.get(one.claim.id)), ""]
    if again:
        lines += [*_elsewhere(again), ""]
    lines += _LIMITS.splitlines()
    if not_run := [one for one in found if not one.ran]:
        lines += ["", "## Not run yet", ""]
        for one in not_run:
            lines += [*_section(one, None), ""]
        lines.pop()
    return "\n".join(lines) + "\n"


def _counts(found: Sequence[Judged]) -> str:
    """How claims and their comparisons came out."""
    ran = [one for one in found if one.ran]
    whole = [one for one in ran if all(part.ran for part in one.parts)]
    kinds = Counter(_outcome(stands(one)) for one in whole)
    told = [f"{count} {kind}" for kind in _OUTCOMES if (count := kinds[kind])]
    text = f"Of {len(found)} claims, {len(whole)} have been run in full"
    text += f": {', '.join(told)}." if told else "."
    if partly := len(ran) - len(whole):
        text += f" {partly} more have been run in part."
    if left := len(found) - len(ran):
        text += f" {left} [have not been run yet](#not-run-yet)."
    each = [
        (part, stand)
        for one in ran
        for part, stand in zip(one.parts, stands(one), strict=True)
        if part.ran
    ]
    counts = Counter("runs fail" if stand == "unstable" else _outcome([stand]) for _, stand in each)
    told = [f"{counts[kind]} {kind}" for kind in ("hold", "fail", "are undecided")]
    if counts["runs fail"]:
        told.append(f"in {counts['runs fail']} runs fail")
    text += f" Of their {len(each)} comparisons {', '.join(told)}."
    decided = [part for part, stand in each if _outcome([stand]) in ("hold", "fail")]
    if decided:
        task, most = Counter(part.task for part in decided).most_common(1)[0]
        within = sum(p.task == task and p.word.same for p in decided)
        text += (
            f" {most} of the {len(decided)} that are decided are on {task}, where {within} lie "
            f"within the margin."
        )
    return text


_OUTCOMES = ("hold", "fail", "hold here and fail there", "are decided in part", "are undecided")


def _outcome(each: Sequence[Stand]) -> str:
    """Of comparisons together, one of _OUTCOMES."""
    plain: dict[Stand, str] = {
        "holds": "hold",
        "no difference": "fail",
        "opposite": "fail",
        "differs": "fail",
    }
    kinds = {plain.get(one, "open") for one in each}
    if "open" not in kinds:
        return kinds.pop() if len(kinds) == 1 else "hold here and fail there"
    return "are decided in part" if len(kinds) > 1 else "are undecided"


def _overview(found: Sequence[Judged], at_once: Sequence[Judged]) -> list[str]:
    rows = []
    for one, other in zip(found, at_once, strict=True):
        if not one.ran:
            continue
        mine, joint = verdict(one), verdict(other)
        title = f"[{markdown_text(one.claim.title)}](#{one.claim.id})"
        rows.append([title, mine, "the same" if joint == mine else joint])
    return pipes(["claim", "verdict", "all at once"], rows, set())


def _section(one: Judged, other: Judged | None) -> list[str]:
    claim = one.claim
    heading = "##" if one.ran else "###"
    lines = [f'<a id="{claim.id}"></a>', "", f"{heading} {claim.title}", ""]
    lines += [
        *_wrapped(f"**Said.** {_text(claim.source)}. Published: {_text(claim.published)}."),
        "",
    ]
    lines += [*_wrapped(f"**Judged.** {_text(claim.judged)} {_measure(claim)}"), ""]
    lines += [*_wrapped(f"**Run.** {_run(one)}"), ""]
    if one.ran:
        lines += _found(one, other)
    lines += ["```", claim.command, "```"]
    return lines


def _by_another(one: Judged, other: Judged) -> str:
    """Tell the verdict by training returns; for accuracies, the returns that are paid."""
    if one.claim.metric == EVALUATION:
        same = stands(other) == stands(one)
        said = "the same" if same else sentence(other)
        return f"**By training returns:** {_text(said).rstrip('.')}."
    told = []
    for part in other.parts:
        value, interval, _ = estimate(part, ratio=False)
        place = f"{part.label} on {part.task}" if part.label else part.task
        if interval:
            told.append(f"{value} {interval} {'for' if part.label else 'on'} {place}")
    return f"**By the return that is paid:** {_text(', '.join(told))}." if told else ""


def _found(one: Judged, other: Judged | None) -> list[str]:
    alt = f"{markdown_text(one.claim.title)}: effects in margins"
    lines = [f"![{alt}]({FIGURE}/{one.claim.id}.svg)", "", *table(one), ""]
    lines += [*_wrapped(f"**Verdict: {verdict(one)}.** {_text(sentence(one))}"), ""]
    for note in one.notes:
        lines += [*_wrapped(f"{note[0].upper()}{_text(note[1:])}."), ""]
    if other is not None and other.ran and (said := _by_another(one, other)):
        lines += [*_wrapped(said), ""]
    return [*lines, *_wrapped(f"**What would change it.** {_text(turning(one))}"), ""]


def _elsewhere(again: Sequence[Again]) -> list[str]:
    """How many verdicts stand under other settings."""
    counted = fates(again)
    kinds = (
        *("the same", "another", "undecided", "decided here", "undecided on both"),
        *("runs fail", "moved", "not run"),
    )
    rows = [[name, task, *(str(of.get(kind, 0)) for kind in kinds)] for name, task, of in counted]
    head = ["condition", "task", "the same", "another", "undecided"]
    head += ["decided there alone", "on neither", "runs fail", "effect moved", "not run yet"]
    if not any(of.get("not run") for _, _, of in counted):
        head.pop()
        rows = [row[:-1] for row in rows]
    names = ", ".join(dict.fromkeys(name for name, _, _ in counted))
    ran = [p for one in again for name, p in one.parts.items() if name != OWN and p.ran]
    seeds = sorted({part.n for part in ran})
    return [
        "## Do they stand elsewhere?",
        "",
        *_wrapped(
            f"Differences of means, judged again under other settings ({_text(names)}) with "
            f"{' or '.join(map(str, seeds))} seeds, and in margins of what was learned there. The "
            "verdict on a task at its own settings is *the same* there, *another*, or *undecided*, "
            "which it may be for fewer seeds alone; or it is decided there alone, or on neither "
            "side. Words that differ are no proof that effects do: *effect moved* counts the "
            "comparisons whose change has an interval without 0. `ablations claims --conditions` "
            "prints every interval and what runs it."
        ),
        "",
        f"![Claims under other settings]({CONDITIONS}.svg)",
        "",
        *pipes(head, rows, set(head[2:])),
    ]


def _measure(claim: Claim) -> str:
    what = {
        "difference": f"The difference of means of {claim.metric}",
        "spread": f"The ratio of standard deviations between seeds of {claim.metric}",
        "robustness": (
            f"What is lost by one learning rate for all tasks, against the best rate for each, in "
            f"{claim.metric}: the loss of the one minus that of the other"
        ),
        "effect": f"The mean change of {claim.metric}, over the settings of the other details",
        "interaction": (
            f"The effect of two changes on {claim.metric}, minus the sum of their single effects"
        ),
        "agreement": f"The difference by {claim.metric} minus that by {claim.against}",
    }[claim.statistic]
    pair = ""
    if len(claim.versus) == 1 and len(claim.variant) == 1:
        pair = f", {claim.variant[0]} against {claim.versus[0]}"
    elif len(claim.versus) == 1:
        pair = f", each against {claim.versus[0]}"
    return _text(f"{what}{pair}; margin {_margin(claim)}.")


def _margin(claim: Claim) -> str:
    if claim.statistic == "spread":
        return f"a factor of {claim.margin:g}"
    if claim.metric.endswith("accuracy"):
        return f"{claim.margin:g}"
    return f"{100 * claim.margin:g}% of what was learned"


def _run(one: Judged) -> str:
    tasks = ", ".join(f"{task} ({steps:,} {one.step_unit})" for task, steps in one.steps.items())
    text = f"{one.seeds} paired seeds on {tasks}."
    moved = {task: rose for task, rose in one.rising.items() if abs(rose) > _LEVELLED}
    level = [task for task in one.rising if task not in moved]
    if level:
        text += f" The curve of {one.source} had levelled off on {', '.join(level)}."
    if moved:
        by = ", ".join(f"{task} ({rose:+.1f} margins)" for task, rose in moved.items())
        text += f" Over the last fifth of training that of {one.source} still moved on {by}."
    return _text(text + _sizes(one))


def _sizes(one: Judged) -> str:
    """Tell the margin in units of the return, beside what evaluations rose by."""
    told = []
    for task, (margin, rose) in one.margins.items():
        beside = f"{100 * margin / rose:.0f}%" if rose > 0 else "these fell"
        told.append(f"{margin:.3g} on {task} ({beside})")
    if not told:
        return ""
    return (
        f" The margin is {', '.join(told)}; in brackets its share of what evaluations of "
        f"{one.source} rose by, from the first to the last."
    )


def _text(text: str) -> str:
    return markdown_text(text)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, 110, break_long_words=False, break_on_hyphens=False)
