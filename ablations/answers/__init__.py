"""Published answers: made from archives by `pages`, and found by words here."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

TABLE = "answers.csv"
PAGES = "details"  # a page per detail, beside the table
# A clone has the table in its results folder, and a wheel beside this file.
PUBLISHED = (Path(__file__).parents[2] / "results", Path(__file__).parent)


def find(folder: Path, word: str, *, anywhere: bool = False) -> Iterator[str]:
    """Yield the answers of a folder that match a word, as lines of text.

    Args:
        folder: has answers.csv.
        word: the name of a page, or a search word.
        anywhere: match words of the question too.
    """
    with (folder / TABLE).open(newline="", encoding="utf-8") as file:
        rows = {row["detail"]: row for row in csv.DictReader(file)}
    for name, row in rows.items():
        terms = [name, *row["terms"].lower().split(", ")]
        text = " ".join([*terms, row["label"], row["question"]]).lower()
        if anywhere:
            matches = len(word) > 2 and all(part in text for part in word.lower().split())
        else:
            matches = word.lower() in terms or word.lower().replace("-", "_") in terms
        if matches:
            yield from (row["question"], f"    {row['sentence']}")
            if (page := folder / PAGES / f"{name}.md").exists():
                yield f"    {page}"
