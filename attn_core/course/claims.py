"""The ledger: every claim of the document, what we measure, and the verdict, computed anew each time.

The document's numbers and the verdicts that stand in the course are in claims.toml; ours come from the functions in
checks.py and checks_of_results.py.
"""

import json
import re
import textwrap
import tomllib
from collections import Counter
from importlib import import_module
from inspect import signature
from pathlib import Path

import pandas as pd
import torch
from tabulate import tabulate

from attn_core.course import checks, checks_of_results
from attn_core.course.checks import Finding
from attn_core.show.tables import show_cells

LEDGER = Path(__file__).with_name("claims.toml")
RESULTS = Path(__file__).parents[2] / "notebooks" / "results"  # in a clone; an installed wheel has none
CHECKS = {
    name: function
    for module in (checks, checks_of_results)
    for name, function in vars(module).items()
    if name.startswith("check_")
}
COLUMNS = {"section": "section", "document": "the article says", "measured": "we measure", "verdict": "verdict"}
COLOURS = {"holds": "#029e73", "corrected": "#d55e00", "different cause": "#cc78bc", "depends": "#0173b2"}
WIDTHS = {"id": 19, "section": 7, "document": 23, "verdict": 15, "measured": 26}  # 98 with the gaps, for a page


class DamagedResult(ValueError):
    """A result file that is there and does not hold the runs of its experiment."""


def claims(ids: list[str] | None = None) -> list[dict]:
    """The claims with these ids in the order of the ledger, or all.

    Raises ValueError for an id that is not there, TypeError for one text in place of a list.
    """
    if isinstance(ids, str):
        raise TypeError(f"ids must be a list such as [{ids!r}], got {ids!r}")
    ledger = tomllib.loads(LEDGER.read_text(encoding="utf-8"))["claim"]
    known = [claim["id"] for claim in ledger]
    if unknown := [name for name in ids or [] if name not in known]:
        raise ValueError(f"there is no claim {', '.join(unknown)}; there are {', '.join(known)}")
    return [claim for claim in ledger if ids is None or claim["id"] in ids]


def measure(claim: dict, folder: Path = RESULTS) -> Finding:
    """What we measure for a claim, and the verdict that follows. Raises as `result_table` does."""
    tables = [result_table(name, folder) for name in claim.get("results", [])]
    with torch.random.fork_rng(devices=[]):  # the reader's random state stays as it was
        torch.manual_seed(0)
        return CHECKS[claim["check"]](claim.get("document", {}), *tables)


def result_table(name: str, folder: Path = RESULTS) -> pd.DataFrame:
    """The rows of a committed result.

    Raises FileNotFoundError where it is missing, DamagedResult where it cannot be read, is that of another experiment,
    or lacks runs: half a table gives a verdict as well, and perhaps another one. Each names the command that makes it.
    """
    path = Path(folder) / f"{name}.json"
    shown = Path(*path.parts[-3:]).as_posix()  # the sentence may be committed: it names no folder of this machine
    if not path.exists():
        raise FileNotFoundError(f"{shown} is missing; `python -m attn_core.lab {name}` makes it")
    experiment = import_module(f"attn_core.lab.experiments.{name}")
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
        table = pd.DataFrame(result["rows"])
        seeds, fewest = table["seed"].nunique(), signature(experiment.configurations).parameters["seeds"].default
        wanted = json.loads(json.dumps(experiment.configurations(seeds)))
        found = {json.dumps([row[setting] for setting in wanted[0]]) for row in result["rows"]}
        whole = found == {json.dumps([*configuration.values()]) for configuration in wanted}
        fits = whole and seeds >= fewest and result["settings"] == json.loads(json.dumps(experiment.SETTINGS))
    except (ValueError, KeyError, TypeError, IndexError):
        fits = False
    if not fits:
        raise DamagedResult(
            f"{shown} is damaged, or not made by this version of its experiment; "
            f"`python -m attn_core.lab {name}` makes it again"
        )
    return table


def claim_rows(ids: list[str] | None = None, folder: Path = RESULTS) -> list[dict]:
    """A dict for each claim: id, section, document, measured, verdict and why, all of them texts.

    A claim whose result file is missing or damaged says so, with the verdict "open". A verdict that is not the one in
    the ledger names that too.
    """
    rows = []
    for claim in claims(ids):
        try:
            measured, verdict = measure(claim, folder)
        except (FileNotFoundError, DamagedResult) as error:
            measured, verdict = str(error), "open"
        if verdict not in (claim["verdict"], "open"):
            verdict += f" (ledger: {claim['verdict']})"
        row = {"id": claim["id"], "section": claim["section"], "document": claim["says"]}
        rows.append(row | {"measured": measured, "verdict": verdict, "why": claim["why"]})
    return rows


def claim_table(ids: list[str] | None = None, *, markdown: bool = False, folder: Path = RESULTS) -> str:
    """The claims with these ids, or all, as a text to print: `print(claim_table(["scores", "weights"]))`."""
    return format_rows(claim_rows(ids, folder), markdown)


def format_rows(rows: list[dict], markdown: bool = False) -> str:
    """Rows as a text in columns; markdown: as a table in Markdown, which has the reasons too."""
    if markdown:
        names = [*WIDTHS, "why"]
        lines = [names, ["---"] * len(names), *([row[name].replace("|", r"\|") for name in names] for row in rows)]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)
    lines = []
    for row in rows:
        lines.append(["\n".join(textwrap.wrap(row[name], width)) for name, width in WIDTHS.items()])
        lines.append([""] * len(WIDTHS))
    text = tabulate(lines, list(WIDTHS), "simple", disable_numparse=True)
    return re.sub(" +$", "", text, flags=re.MULTILINE).rstrip()


def show_claims(ids: list[str] | None = None) -> None:
    """Show the claims with these ids, or all, as a table; those that hold first, then the others by their verdict."""
    rows = claim_rows(ids)
    found = Counter(row["verdict"] for row in rows)
    order = sorted(found, key=lambda verdict: [*COLOURS, verdict].index(verdict))
    cells = [[row[name] for name in COLUMNS] for verdict in order for row in rows if row["verdict"] == verdict]
    totals = ", ".join(f"{found[verdict]} {verdict}" for verdict in order)
    title = f"{len(rows)} claims of the article: {totals}" if ids is None else ""
    show_cells(list(COLUMNS.values()), cells, ["left"] * len(COLUMNS), title, COLOURS)
