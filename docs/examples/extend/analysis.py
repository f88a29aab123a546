"""A statistic, a table, a figure and a log format of one's own."""

import numpy as np
import pandas as pd
import seaborn as sns

from ablations import stats
from ablations.figures import FIGURES
from ablations.figures.style import panels
from ablations.io.formats import FORMATS
from ablations.tables import TABLES


def worst(*tasks):  # one array of normalised scores [..., seeds] per task
    return np.min([scores.mean(axis=-1) for scores in tasks], axis=0)


def failures(runs):  # a table is a data frame
    return runs.counts.reset_index()


def strips(runs, width=5.5):  # a figure is one of matplotlib
    figure, axes = panels(runs.tasks, width, height=1.0, labels=("score", ""))
    for ax, task in zip(axes, runs.tasks, strict=True):
        of_task = runs.runs[runs.runs.task == task]
        sns.stripplot(of_task, x="score", y="variant", size=2, ax=ax)
    return figure


def pairs(path):  # a log format yields a data frame with a row per line
    lines = path.read_text().splitlines()
    return pd.DataFrame([dict(field.split("=") for field in line.split()) for line in lines])


stats.AGGREGATES["worst task"] = worst  # with a bootstrap interval in the table of aggregates
TABLES["failures"] = failures
FIGURES["strips"] = strips
FORMATS[".kv"] = pairs  # the ending of its files
