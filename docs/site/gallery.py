"""Draws the pictures of the gallery, from committed archives and the scripts of the pages.

python docs/site/gallery.py [NAME ...]       writes docs/gallery/*.svg and docs/gallery.md
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "gallery"
PAGE = ROOT / "docs" / "gallery.md"


@dataclass(frozen=True)
class Picture:
    """A kind of figure, and how one was made.

    file: that the command writes, below the folder where it runs. needs: a study, whose archives lie in its
    results, a folder, or a page of docs/, whose scripts lie beside it.
    """

    name: str
    title: str
    text: str
    command: str
    file: str
    needs: str

    @property
    def kept(self) -> str:
        """Return the name of the picture in the gallery."""
        return self.name + Path(self.file).suffix


def _study(name: str, title: str, text: str, of: str, flags: str = "--profile claims") -> Picture:
    command = " ".join(["ablations figure", of, *flags.split(), f"--kind {name} --format svg"])
    return Picture(name, title, text, command, f"results/figures/{of}_{name}.svg", of)


PICTURES = (
    _study("curves", "Learning curves", "The mean over 20 seeds with its 95% interval, a panel per task.", "gae"),
    _study("differences", "Differences", "Variant minus baseline, paired by seed: the interval that decides, a dot per seed, and the margin as a grey band. An interval within the band is *equivalent*; one that excludes 0 is *better* or *worse*. An interval that leaves the axis ends in an arrow.", "gae"),
    _study("improvement", "Probability of improvement", "How often a run of the variant scores above one of the baseline.", "gae"),
    _study("aggregates", "Aggregates", "Interquartile mean, median, mean and optimality gap of normalised scores, with a dot per seed.", "gae"),
    _study("profiles", "Performance profiles", "The share of runs above each normalised score.", "gae"),
    _study("efficiency", "Sample efficiency", "The mean normalised score over training, averaged over tasks.", "gae"),
    _study("sensitivity", "Sensitivity to a hyperparameter", "The mean score at each value, with the margin around the baseline.", "value_clipping"),
    _study("effects", "Main effects of a factorial", "What each setting changes on average over all others.", "four_details"),
    _study("interactions", "Interactions of a factorial", "Below the diagonal: what two settings change together, beyond their sum.", "four_details"),
    _study("shares", "Which details make a gap", "From one library's settings to another's: `ablations explain` switches details in random orders. Dots: a detail switched first, and last.", "sb3_to_rsl_rl", ""),
    _study("diagnostics", "Diagnostics", "What the trainer records beside the score.", "group_size"),
    Picture(
        "validation",
        "Task validation",
        "Does the baseline learn enough on this task? Level lines: untrained policies and the thresholds ([the rules](evidence.md)).",
        "cp -r results/reference/exam exam\n"
        "ablations validate ant --profile evidence --rates 3e-4,1e-3 --steps 1000000 --results exam",
        "exam/figures/validation.svg",
        "results/reference/exam",
    ),
    Picture(
        "gate",
        "A gate",
        "Is a change an improvement, a regression, or noise? One dot per pair of runs; [fit.py](gate.md) has 15 lines.",
        'ablations gate --against "--lr 0.6" --better lower --metric loss --margin 10% -- python fit.py --seed {seed}',
        "results/gates/gate.svg",
        "gate.md",
    ),
    Picture(
        "check",
        "A learning-curve check",
        "The stored curves of a test, and those of code that learns more slowly; [test_bandit.py](learning-curves.md) is the test.",
        'pytest -q --learning-curve-update --learning-curve-reason "first version"\n'
        "sed -i 's/0.5 \\* gradient/0.2 * gradient/' test_bandit.py\n"
        "pytest -q --learning-curve-figures figures",
        "figures/*.png",
        "learning-curves.md",
    ),
)  # fmt: skip


def page() -> str:
    """Write the gallery as Markdown."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield "# Gallery\n"
    yield "[README](../README.md) · the figures in words: [figures and the page](figures.md)\n"
    yield "Every kind of figure, with the command below that drew it from runs that are [committed](../results/archive): in a"
    yield "clone each takes seconds and trains nothing. `python docs/site/gallery.py` draws all of them anew. PNG and PDF come"
    yield "with `--format`, a paper's column with `--width icml-column`.\n"
    for picture in PICTURES:
        yield from _shown(picture.title, picture.text, f"gallery/{picture.kept}", picture.command)


def _shown(title: str, text: str, file: str, command: str) -> Iterator[str]:
    yield f"## {title}\n\n{text}\n\n![{title}]({file})\n\n```sh\n{command}\n```\n"


def draw(picture: Picture) -> None:
    """Run the command of a picture in an empty folder, and keep the file that it writes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if picture.needs.endswith(".md"):
            text = (ROOT / "docs" / picture.needs).read_text()
            for script, content in re.findall(
                r"^```\w+\n# (\w+\.\w+)\n(.*?)^```$", text, re.M | re.S
            ):
                (folder / script).write_text(content)
        elif (ROOT / picture.needs).is_dir():
            shutil.copytree(ROOT / picture.needs, folder / picture.needs)
        else:
            (folder / "results" / "archive").mkdir(parents=True)
            for file in (ROOT / "results" / "archive").glob(f"{picture.needs}-*"):
                shutil.copy(file, folder / "results" / "archive")
        environment = dict(os.environ)
        environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
        for command in picture.command.splitlines():
            done = subprocess.run(
                command, shell=True, cwd=folder, env=environment, capture_output=True, text=True
            )
            if done.returncode not in (0, 1):
                raise SystemExit(f"{command}\n{done.stdout}\n{done.stderr}")
        FOLDER.mkdir(exist_ok=True)
        drawn = sorted(folder.glob(picture.file))
        if not drawn:
            raise SystemExit(f"{picture.name}: no {picture.file}\n{done.stdout}\n{done.stderr}")
        shutil.copy(drawn[0], FOLDER / picture.kept)


def main() -> None:
    """Draw the pictures that are named, or all."""
    for picture in PICTURES:
        if len(sys.argv) < 2 or picture.name in sys.argv:
            print(picture.name, flush=True)
            draw(picture)
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
