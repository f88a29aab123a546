"""results/README.md: every claim, what was run and what was found, from the records alone."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

from ablations.report.claims.conditions import Again, fates
from ablations.report.claims.entries import OWN, Claim
from ablations.report.claims.found import Judged, Part
from ablations.report.claims.words import sentence, stands, turning, verdict
from ablations.report.formats.markdown import markdown_text, pipes
from ablations.report.formats.numbers import decimals
from ablations.report.tables.entries import Sheet, Shown

FIGURE, CONDITIONS = "claims", "conditions"  # the stems of the figures, beside the page
_LEVELLED = 1.0  # margins in the last fifth of training

_OPENING = """\
# Published claims, judged

Each claim is a sentence that somebody published, judged on paired seeds. The sentences, metrics,
tasks and margins in [claims.toml](claims.toml) were committed before the runs that judge them. Two
parts were added once the verdicts on single changes were known, and before their own runs: the
claims that are judged in half of 32 settings, and the other settings at the end of this page. How
long control tasks train, and at which learning rate, was changed once after first runs, by the
curves of the baseline alone: on reacher it collapsed on some seeds, and on inverted_double_pendulum
it had not levelled off. Those first runs left nearly everything undecided; they are in the history
of the archives.

Every number is regenerated from the [archives](archive) by `ablations claims --write`, and a test
compares them byte for byte. Further: [what the words mean](../docs/claims.md); [which details make
the gap between two libraries](reference/explain/README.md)."""

_LIMITS = """\
## Limits

- **Physics.** Brax's spring backend on a CPU, but for the conditions that say otherwise, with
  Brax's versions of the tasks. A return here is no return of MuJoCo's; claims about other
  simulators are judged by what carries over.
- **Size.** Networks of 64 x 64 units (but for conditions), 64 environments, and 120,000 to 490,000
  steps; a two-layer transformer on three hundred problems of arithmetic. A claim about a model of
  billions of weights is judged as one about the mechanism.
- **Tasks.** Those that are named with each claim, with episodes of at most 50 (reacher), 100
  (inverted_double_pendulum) and 200 steps. No verdict reaches beyond them. What was cut, and why,
  is told at the head of [claims.toml](claims.toml).
- **Settings.** One change of a common baseline at the task's own learning rate, where a claim is
  not about rates. A detail may matter inside another library's settings.
- **Half of 32 settings.** The mean of 16 combinations of 15 choices with a choice, minus that of 16
  others without. It includes what three choices do together, which no interval covers, and
  combinations that learn little, which pull it towards 0. Published effects over random settings
  are of their best twentieth.
- **Chance.** The intervals of a claim hold at once with 95%. Of many claims a few verdicts may be
  wrong; the last column of the table shows what is left when the intervals of all claims hold at
  once. The interval of a spread covers 90 to 93% where returns are skewed. What has been run
  again on other seeds stands [beside the first estimates](reference/other_seeds.md)."""


def claims_sheet(found: Sequence[Judged], at_once: Sequence[Judged]) -> Sheet:
    """A row per claim: its verdict, and the range of the effects of its comparisons in margins."""
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
            Shown("claim", "text", ("claim",)),
            Shown("effects", "fixed", ("least", "least", "most"), "+", 1),
            Shown("[95% joint]", "fixed", ("least", "low", "high"), "+", 1),
            Shown("of", "count", ("comparisons",)),
            Shown("seeds", "count", ("seeds",)),
            Shown("verdict", "text", ("verdict",)),
            Shown("all at once", "text", ("at_once",)),
        ),
    )


def page(
    found: Sequence[Judged],
    at_once: Sequence[Judged],
    training: Mapping[str, Judged],
    again: Sequence[Again] = (),
) -> str:
    """The whole page. at_once: the same claims when the intervals of all hold at once. training:
    claim -> itself, judged by training returns. again: what ran under other settings too."""
    lines = [*_OPENING.splitlines(), "", f"![All claims]({FIGURE}.svg)", ""]
    lines += _wrapped(_counts(found))
    lines += ["", *_overview(found, at_once), ""]
    for one in found:
        if one.ran:
            lines += [*_section(one, training.get(one.claim.id)), ""]
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
    ran = [one for one in found if one.ran]
    whole = [one for one in ran if all(part.ran for part in one.parts)]
    by_verdict: dict[str, int] = {}
    for one in whole:
        kinds = set(stands(one))
        if kinds == {"holds"}:
            kind = "held on every task"
        elif "holds" in kinds:
            kind = "held on some"
        elif kinds & {"undecided", "amount", "unstable"}:
            kind = "stayed undecided, at least in part"
        else:
            kind = "held on none"
        by_verdict[kind] = by_verdict.get(kind, 0) + 1
    told = ", ".join(f"{number} {kind}" for kind, number in sorted(by_verdict.items()))
    text = f"Of {len(found)} claims, {len(whole)} have been run in full"
    text += f": {told}." if told else "."
    if partly := len(ran) - len(whole):
        text += f" {partly} more have been run in part."
    if left := len(found) - len(ran):
        text += f" {left} [have not been run yet](#not-run-yet)."
    return text


def _overview(found: Sequence[Judged], at_once: Sequence[Judged]) -> list[str]:
    rows = []
    for one, other in zip(found, at_once, strict=True):
        if not one.ran:
            continue
        mine, joint = verdict(one), verdict(other)
        title = f"[{markdown_text(one.claim.title)}](#{one.claim.id})"
        rows.append([title, mine, "the same" if joint == mine else joint])
    return pipes(["claim", "verdict", "all at once"], rows, set())


def _section(one: Judged, training: Judged | None) -> list[str]:
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
        lines += _found(one, training)
    lines += ["```", claim.command, "```"]
    return lines


def _found(one: Judged, training: Judged | None) -> list[str]:
    lines = [f"![Effects in margins]({FIGURE}/{one.claim.id}.svg)", "", *_numbers(one), ""]
    lines += [*_wrapped(f"**Verdict: {verdict(one)}.** {_text(sentence(one))}"), ""]
    for note in one.notes:
        lines += [*_wrapped(f"{note[0].upper()}{_text(note[1:])}."), ""]
    if training is not None and training.ran:
        same = stands(training) == stands(one)
        said = "the same" if same else sentence(training)
        lines += [*_wrapped(f"**By training returns:** {_text(said).rstrip('.')}."), ""]
    return [*lines, *_wrapped(f"**What would change it.** {_text(turning(one))}"), ""]


def _elsewhere(again: Sequence[Again]) -> list[str]:
    """How many verdicts stand under other settings."""
    counted = fates(again)
    kinds = (
        *("the same", "another", "undecided", "decided here", "undecided on both"),
        *("runs fail", "moved"),
    )
    rows = [[name, task, *(str(of.get(kind, 0)) for kind in kinds)] for name, task, of in counted]
    head = ["condition", "task", "the same", "another", "undecided"]
    head += ["decided there alone", "on neither", "runs fail", "effect moved"]
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
        "difference": "The difference of means",
        "spread": "The ratio of standard deviations between seeds",
        "robustness": (
            "What one learning rate for all tasks loses against the best for each, of the one "
            "minus of the other"
        ),
        "effect": "The mean change over the levels of the other details",
        "interaction": "What two changes do together beyond the sum of each alone",
        "agreement": f"The difference by {claim.metric} minus that by {claim.against}",
    }[claim.statistic]
    pair = ""
    if len(claim.versus) == 1 and len(claim.variant) == 1:
        pair = f", {claim.variant[0]} against {claim.versus[0]}"
    elif len(claim.versus) == 1:
        pair = f", each against {claim.versus[0]}"
    of = "" if claim.statistic == "agreement" else f" of {claim.metric}"
    return _text(f"{what}{of}{pair}; margin {_margin(claim)}.")


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
    return _text(text)


def _numbers(one: Judged) -> list[str]:
    several = any(part.label for part in one.parts)
    ratio = one.claim.statistic == "spread"
    head = ["task", *(["variant"] if several else [])]
    head += ["ratio" if ratio else "difference", "[95% joint]", "in margins", "word", "seeds"]
    rows = []
    last = None
    for part in one.parts:
        row = ["" if part.task == last else part.task]
        last = part.task
        if several:
            row.append(markdown_text(part.label))
        rows.append([*row, *_estimate(part, ratio), part.word, _seeds(part)])
    return pipes(head, rows, {"difference", "ratio", "[95% joint]", "in margins", "seeds"})


def _estimate(part: Part, ratio: bool) -> list[str]:
    if part.value is None or part.low is None or part.high is None:
        value = "" if part.value is None else f"{part.value:.3g}"
        return [value, "", ""]
    places = decimals(part.value, part.low, part.high)
    sign = "" if ratio else "+"
    numbers = [_fixed(x, places, sign) for x in (part.value, part.low, part.high)]
    inside = ""
    if part.effect_low is not None and part.effect_high is not None:
        inside = f"[{_fixed(part.effect_low, 1, '+')}, {_fixed(part.effect_high, 1, '+')}]"
    return [numbers[0], f"[{numbers[1]}, {numbers[2]}]", inside]


def _fixed(value: float, places: int, sign: str) -> str:
    rounded = round(value, places) or 0.0  # no "-0.0"
    return f"{rounded:{sign if rounded else ''}.{places}f}"


def _seeds(part: Part) -> str:
    return str(part.n) if part.n == part.planned else f"{part.n} of {part.planned}"


def _text(text: str) -> str:
    return markdown_text(text)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, 110, break_long_words=False, break_on_hyphens=False)
