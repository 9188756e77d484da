"""The notebooks as they are committed: executed, clean, readable everywhere.

Each check is a function from a notebook to a list of complaints; the second half of the file spoils a notebook in every
way and expects the complaint.
"""

import copy
import json
import re
import statistics
import warnings
from pathlib import Path

import nbformat
import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
# How the first code cell of every notebook ends: it installs the course in Colab and does nothing elsewhere. It is
# hidden: JupyterLab reads one of its metadata, Colab the other, and shows the field for COURSE alone.
HIDDEN = {"cellView": "form", "jupyter": {"source_hidden": True}}
SETUP = """# @title In Google Colab: the address of the course's git repository
COURSE = ""  # @param {type: "string"}

try:
    import attn_core
except ModuleNotFoundError:
    if not COURSE:
        raise ModuleNotFoundError(
            "attn_core is not installed here. In the folder of the course run `make lab`, or follow 'Without make' "
            "in README.md. In Google Colab put the address of the course into COURSE and run this cell again."
        ) from None
    !test -d ~/course || git clone -q --depth 1 {COURSE} ~/course
    !pip install -q -e ~/course[notebooks,pretrained]
    %cd ~/course/notebooks
    sys.path.insert(0, "..")
    print("If an import fails now, restart the session and run this cell once more.")
    import attn_core"""
TIMING = re.compile(r"perf_counter|timeit|process_time|monotonic")


def code_cells(notebook):
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def outputs(notebook):
    return [(cell["id"], output) for cell in code_cells(notebook) for output in cell["outputs"]]


def texts(output):
    """The texts of an output, pictures and widgets left out."""
    if output["output_type"] == "stream":
        return [output["text"]]
    if output["output_type"] == "error":
        return [output["evalue"], *output["traceback"]]
    return [text for kind, text in output["data"].items() if kind.startswith("text/")]


def prose(notebook):
    """The id and the markdown of each text cell, its code left out."""
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            text = re.sub(r"^(```|~~~).*?^\1", "", cell["source"], flags=re.DOTALL | re.MULTILINE)
            yield cell["id"], re.sub(r"(`+)[^`].*?\1", "", text)


def formulas(text):
    return re.findall(r"\$\$(.+?)\$\$|(?<![\\$])\$([^$]+)\$", text, flags=re.DOTALL)


def without_formulas(text):
    return re.sub(r"\$\$.+?\$\$|(?<!\\)\$[^$]+\$", "", text, flags=re.DOTALL)


def expects_an_error(cell):
    return "NBVAL_RAISES_EXCEPTION" in cell["source"]


def executed_in_order(notebook):
    counts = [cell["execution_count"] for cell in code_cells(notebook)]
    wanted = list(range(1, len(counts) + 1))
    return [] if counts == wanted else [f"execution counts are {counts}, not 1 to {len(counts)}"]


def no_error_and_no_warning(notebook):
    complaints = []
    for cell in code_cells(notebook):
        for output in cell["outputs"]:
            if output["output_type"] == "error" and not expects_an_error(cell):
                complaints.append(f"{cell['id']}: error {output['ename']}")
            if output.get("name") == "stderr":
                complaints.append(f"{cell['id']}: stderr {output['text'][:60]!r}")
    return complaints


def valid_format(notebook):
    complaints = []
    if (notebook["nbformat"], notebook["nbformat_minor"]) != (4, 5):
        complaints.append(f"format {notebook['nbformat']}.{notebook['nbformat_minor']}, not 4.5")
    ids = [cell.get("id") for cell in notebook["cells"]]
    if None in ids or len(set(ids)) != len(ids):
        complaints.append("cell ids are missing or repeated")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # nbformat repairs some faults and only warns
            nbformat.validate(copy.deepcopy(notebook))
    except (nbformat.ValidationError, Warning) as error:
        complaints.append(f"not valid: {error}".splitlines()[0])
    return complaints


def python3_kernel(notebook):
    kernel = notebook["metadata"].get("kernelspec", {}).get("name")
    return [] if kernel == "python3" else [f"kernel {kernel}, not python3"]


def no_widget_state(notebook):
    complaints = ["metadata.widgets"] if "widgets" in notebook["metadata"] else []
    for cell, output in outputs(notebook):
        complaints += [f"{cell}: {kind}" for kind in output.get("data", {}) if "widget" in kind]
    return complaints


def no_trace_of_a_machine(notebook):
    """Paths of one computer, and times at which a cell ran."""
    path = re.compile(r"(?<![\w.:/-])/(?:home|Users|root|tmp|opt|srv|usr|var|mnt|data|workspaces?)\b|\b[A-Z]:\\\w")
    complaints = [
        f"{cell['id']}: path {found[0]}" for cell in notebook["cells"] for found in path.finditer(cell["source"])
    ]
    complaints += [
        f"{cell['id']}: time of execution" for cell in code_cells(notebook) if "execution" in cell["metadata"]
    ]
    for cell, output in outputs(notebook):
        complaints += [f"{cell}: path {found[0]} in output" for text in texts(output) for found in path.finditer(text)]
    return complaints


def small(notebook):
    size = len(json.dumps(notebook, ensure_ascii=False, indent=1).encode())
    return [] if size < 500_000 else [f"{size:,} bytes, not under 500,000"]


def lengths(notebook):
    lines = {cell["id"]: cell["source"].count("\n") + 1 for cell in code_cells(notebook)}
    complaints = [f"{cell}: {length} lines, not at most 25" for cell, length in lines.items() if length > 25]
    if statistics.median(lines.values()) > 6:
        complaints.append(f"median of the code cells is {statistics.median(lines.values())} lines, not at most 6")
    return complaints


def alt_texts(notebook):
    complaints = []
    for cell, output in outputs(notebook):
        for kind in output.get("data", {}):
            alt = output["metadata"].get(kind, {}).get("alt", "") if kind.startswith("image/") else None
            if alt is not None and len(alt) < 20:
                complaints.append(f"{cell}: {kind} with the alt text {alt!r}")
    return complaints


def few_escapes(notebook):
    """What nbval does not compare: timings, at most twice; errors that are the lesson, at most twice."""
    complaints, ignored, raising = [], [], []
    for cell in code_cells(notebook):
        if re.search("NBVAL_IGNORE_OUTPUT", cell["source"]):
            ignored.append(cell["id"])
            if not TIMING.search(cell["source"]):
                complaints.append(f"{cell['id']}: output ignored without a timing")
        if expects_an_error(cell):
            raising.append(cell["id"])
        if re.search("NBVAL_SKIP|NBVAL_CHECK|PYTEST_VALIDATE", cell["source"]):
            complaints.append(f"{cell['id']}: another escape of nbval")
        tags = [tag for tag in cell["metadata"].get("tags", []) if re.match("nbval|pytest|raises|skip", tag)]
        complaints += [f"{cell['id']}: tag {tag}" for tag in tags]
    for name, cells in (("ignored", ignored), ("raising", raising)):
        if len(cells) > 2:
            complaints.append(f"{len(cells)} {name} cells, not at most 2")
    return complaints


def nothing_remote(notebook):
    remote = re.compile(
        r"!\[[^\]]*\]\(\s*<?(?:https?:)?//[^)]*|<(?:img|script|iframe|link|video|object|embed)\b[^>]*//[^>]*"
        r"|<script\b|<iframe\b|@import|url\(\s*['\"]?(?:https?:)?//",
        re.IGNORECASE,
    )
    sources = [(cell["id"], cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "markdown"]
    sources += [(cell, text) for cell, output in outputs(notebook) for text in texts(output)]
    return [f"{cell}: {found[0][:60]}" for cell, text in sources for found in remote.finditer(text)]


def formulas_render_everywhere(notebook):
    """Only what KaTeX and MathJax, Jupyter, GitHub and VS Code all understand."""
    unknown = re.compile(
        r"\\(?:bm|operatorname\*?|mbox|newcommand|renewcommand|DeclareMathOperator|def|let|label|ref|eqref|tag|require"
        r"|usepackage|hspace|vspace|mathds|bbm|SI|unit|qty|cancel|substack)(?![a-zA-Z])"
        r"|\\begin\{(?:align|equation|eqnarray|gather|multline|tabular|figure)\*?\}"
    )
    complaints = []
    for cell, text in prose(notebook):
        complaints += [f"{cell}: {found[0]}" for found in unknown.finditer(text)]
        rest = re.sub(r"\$\$.+?\$\$", "", text.replace(r"\$", ""), flags=re.DOTALL)
        if "$$" in rest:
            complaints.append(f"{cell}: $$ without its partner")
        complaints += [
            f"{cell}: $ without its partner: {paragraph.strip()[:40]!r}"
            for paragraph in re.split(r"\n\s*\n|\n(?=\s*[-*|\d])", rest.replace("$$", ""))
            if paragraph.count("$") % 2
        ]
        for formula in map("".join, formulas(text)):
            if formula.count("{") - formula.count(r"\{") != formula.count("}") - formula.count(r"\}"):
                complaints.append(f"{cell}: braces of {formula[:40]!r} do not match")
            if formula.count(r"\left") - formula.count(r"\leftarrow") != formula.count(r"\right") - formula.count(
                r"\rightarrow"
            ):
                complaints.append(f"{cell}: \\left and \\right of {formula[:40]!r} do not match")
    return complaints


def no_dropout(notebook):
    """Which numbers dropout picks differs from machine to machine."""
    dropout = re.compile(r"\bdropout(?:_p)?\s*=\s*(?!0(?:\.0*)?(?![\d.]))[^,)\s]+|\bDropout\d?d?\((?!0(?:\.0*)?\))")
    return [f"{cell['id']}: {found[0]}" for cell in code_cells(notebook) for found in dropout.finditer(cell["source"])]


def four_decimals(notebook):
    complaints = []
    for cell in code_cells(notebook):
        if "NBVAL_IGNORE_OUTPUT" in cell["source"]:
            continue
        for output in cell["outputs"]:
            found = [number for text in texts(output) for number in re.findall(r"(?<![\d.])\d+\.\d{5,}(?!\.\d)", text)]
            complaints += [f"{cell['id']}: {number}" for number in found]
    return complaints


def no_magic(notebook):
    forbidden = re.compile(
        r"%matplotlib\s+(?!inline)\w+|HTMLMath|set_event_loop_policy|^\s*[%!]\s*(?:pip|conda)\b|^\s*!|\bget_ipython\b"
        r"|\binteract(?:ive|ive_output|_manual)?\(|\bclear_output\b|widgets\.Output\b|filterwarnings|simplefilter",
        re.MULTILINE,
    )
    return [
        f"{cell['id']}: {found[0]}"
        for cell in code_cells(notebook)
        for found in forbidden.finditer(cell["source"].removesuffix(SETUP))
    ]


def calm(notebook):
    """No exclamation marks: the text convinces without them."""
    return [
        f"{cell}: {found[0]!r}"
        for cell, text in prose(notebook)
        for found in re.finditer(r".{0,20}(?:!(?=[\s\"')*_|]|$)|！)", without_formulas(text), re.MULTILINE)
    ]


def frame(notebook):
    """Title and minutes first; exercises and licence last; the check of the installation before all other code."""
    complaints = []
    cells = notebook["cells"]
    first = cells[0]["source"] if cells[0]["cell_type"] == "markdown" else ""
    if not re.match(r"# \S", first):
        complaints.append("the first cell is no title")
    if "minutes" not in first:
        complaints.append("the first cell does not say how many minutes it takes")
    ending = [cell["source"] for cell in cells[-12:] if cell["cell_type"] == "markdown"]
    if not any(re.search(r"^#+ .*Exercises", text, re.MULTILINE) for text in ending):
        complaints.append("no Exercises at the end")
    if not any("CC BY 4.0" in text for text in ending[-2:]):
        complaints.append("no licence (CC BY 4.0) at the end")
    start = [cell["source"] for cell in code_cells(notebook)[:2]] or [""]
    if not start[0].endswith(SETUP):
        complaints.append("the first code cell does not end with the set-up of the course")
    if not any(cell["metadata"].items() >= HIDDEN.items() for cell in code_cells(notebook)[:1]):
        complaints.append("the first code cell is not hidden")
    if "print_version_differences()" not in start[-1]:
        complaints.append("the second code cell does not print the versions that differ")
    return complaints


CHECKS = [
    executed_in_order,
    no_error_and_no_warning,
    valid_format,
    python3_kernel,
    no_widget_state,
    no_trace_of_a_machine,
    small,
    lengths,
    alt_texts,
    few_escapes,
    nothing_remote,
    formulas_render_everywhere,
    no_dropout,
    four_decimals,
    no_magic,
    calm,
    frame,
]


def read(path):
    """A notebook as plain dicts, its texts joined; neither repaired nor upgraded."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        cell["source"] = "".join(cell["source"])
        for output in cell.get("outputs", []):
            if "text" in output:
                output["text"] = "".join(output["text"])
            for kind, data in output.get("data", {}).items():
                output["data"][kind] = "".join(data) if isinstance(data, list) else data
    return notebook


def test_there_are_notebooks():
    assert NOTEBOOKS


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_has_nothing_to_complain_about(path, check):
    assert check(read(path)) == []


# The checks can fail


def good_notebook():
    picture = {
        "output_type": "display_data",
        "data": {"text/plain": "Figure: a map", "image/png": "iVBORw0KGgo="},
        "metadata": {"image/png": {"alt": "A map with two rows and two columns."}},
    }
    codes = [
        (SETUP, []),
        ("print_version_differences()", []),
        ("print(0.1234)", [stream("0.1234\n")]),
        ("figure", [picture]),
    ]
    cells = [text_cell("# 1. Title\n\nAbout 20 minutes. The root $\\sqrt{d_k}$, and `a!`.\n\n$$\\frac{1}{2}$$")]
    for source, results in codes + [("x = 1", [])] * 10:
        cells.append(text_cell("A [link](https://example.org) that is fine; $5!$ is 120 and costs \\$5."))
        metadata = HIDDEN if source == SETUP else {}
        cells.append({"cell_type": "code", "metadata": metadata, "source": source, "outputs": results})
    cells.append(text_cell("## Exercises\n\n1. Think.\n\n---\n*Text: CC BY 4.0.*"))
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number:02}"
    for number, cell in enumerate((cell for cell in cells if cell["cell_type"] == "code"), 1):
        cell["execution_count"] = number
    kernel = {"name": "python3", "display_name": "Python 3 (ipykernel)"}
    return copy.deepcopy(
        {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel}, "cells": cells}  # no shared outputs
    )


def text_cell(source):
    return {"cell_type": "markdown", "metadata": {}, "source": source}


def stream(text, name="stdout"):
    return {"output_type": "stream", "name": name, "text": text}


def change(part, value, cell=4):
    """A spoiler that sets one part of a cell: its source, its outputs, ..."""

    def spoil(notebook):
        notebook["cells"][cell][part] = value

    return spoil


def code(source):
    return change("source", source)


def text(source):
    return change("source", source, cell=3)


def printed(output):
    return change("outputs", [stream(output)])


def shown(kind, content, metadata=None):
    output = {"output_type": "display_data", "data": {kind: content}, "metadata": metadata or {}}
    return change("outputs", [output])


def ignored(count):
    def spoil(notebook):
        for cell in code_cells(notebook)[3 : 3 + count]:
            cell["source"] = "# NBVAL_IGNORE_OUTPUT\nperf_counter()"

    return spoil


def long_cells(notebook):
    for cell in code_cells(notebook)[3:]:
        cell["source"] = "\n".join("xxxxxxx")


ERROR = {"output_type": "error", "ename": "NameError", "evalue": "x", "traceback": []}
SPOILERS = [
    (executed_in_order, change("execution_count", None)),
    (executed_in_order, change("execution_count", 7)),
    (no_error_and_no_warning, change("outputs", [ERROR])),
    (no_error_and_no_warning, change("outputs", [stream("Warning\n", "stderr")])),
    (valid_format, lambda notebook: notebook.update(nbformat_minor=4)),
    (valid_format, change("id", "cell-00")),
    (valid_format, lambda notebook: notebook["cells"][4].pop("id")),
    (valid_format, lambda notebook: notebook["cells"][4].pop("metadata")),
    (python3_kernel, lambda notebook: notebook["metadata"]["kernelspec"].update(name="my-env")),
    (python3_kernel, lambda notebook: notebook["metadata"].clear()),
    (no_widget_state, lambda notebook: notebook["metadata"].update(widgets={})),
    (no_widget_state, shown("application/vnd.jupyter.widget-view+json", {"model_id": "1"})),
    (no_trace_of_a_machine, code('open("/home/me/data")')),
    (no_trace_of_a_machine, code('open("C:\\\\data")'.replace("\\\\", "\\"))),
    (no_trace_of_a_machine, text("Look into /Users/me.")),
    (no_trace_of_a_machine, printed("<module from '/opt/course/x.py'>\n")),
    (no_trace_of_a_machine, change("metadata", {"execution": {"iopub.status.busy": "2026"}})),
    (small, printed("x" * 500_000)),
    (lengths, code("x\n" * 25 + "x")),
    (lengths, long_cells),
    (alt_texts, shown("image/png", "iVBORw0KGgo=")),
    (alt_texts, shown("image/png", "iVBORw0KGgo=", {"image/png": {"alt": "A map."}})),
    (alt_texts, shown("image/svg+xml", "<svg/>")),
    (few_escapes, code("# NBVAL_IGNORE_OUTPUT\nprint(1)")),
    (few_escapes, ignored(3)),
    (few_escapes, code("# NBVAL_SKIP\nperf_counter()")),
    (few_escapes, code("# PYTEST_VALIDATE_IGNORE_OUTPUT\nperf_counter()")),
    (few_escapes, change("metadata", {"tags": ["nbval-ignore-output"]})),
    (few_escapes, change("metadata", {"tags": ["raises-exception"]})),
    (nothing_remote, text("![a map](https://example.org/map.png)")),
    (nothing_remote, text('<img alt="a map" src="//example.org/map.png">')),
    (nothing_remote, text('<script src="x.js"></script>')),
    (nothing_remote, shown("text/html", "<style>@import 'x.css'</style>")),
    (nothing_remote, shown("text/html", "<p style='background: url(http://example.org/x)'>")),
    (formulas_render_everywhere, text(r"$\bm{x}$")),
    (formulas_render_everywhere, text(r"$$\operatorname{softmax}(x)$$")),
    (formulas_render_everywhere, text(r"$$\begin{align}x\end{align}$$")),
    (formulas_render_everywhere, text(r"$x \label{eq}$ as in \eqref{eq}")),
    (formulas_render_everywhere, text("It costs $5.")),
    (formulas_render_everywhere, text("$$x$$ and $$y")),
    (formulas_render_everywhere, text(r"$\frac{1}{2$")),
    (formulas_render_everywhere, text(r"$\left( x )$")),
    (no_dropout, code("MultiHeadAttention(8, 2, dropout=0.1)")),
    (no_dropout, code("f(q, k, v, dropout_p=.5)")),
    (no_dropout, code("nn.Dropout(0.1)")),
    (four_decimals, printed("loss 0.12345\n")),
    (four_decimals, shown("text/html", "<td>3.141592</td>")),
    (no_magic, code("%matplotlib widget")),
    (no_magic, code("!pip install torch")),
    (no_magic, code("%pip install torch")),
    (no_magic, code("widgets.HTMLMath()")),
    (no_magic, code("asyncio.set_event_loop_policy(None)")),
    (no_magic, code("interact(f, x=3)")),
    (calm, text("It works!")),
    (calm, text("It works!\n\nNow the next.")),
    (frame, change("source", "Title without a mark, 20 minutes", cell=0)),
    (frame, change("source", "# Title", cell=0)),
    (frame, change("source", "## Exercises", cell=-1)),
    (frame, change("source", "CC BY 4.0", cell=-1)),
    (frame, change("source", "import attn_core", cell=2)),
    (frame, change("source", "import torch", cell=4)),
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_good_notebook_passes(check):
    assert check(good_notebook()) == []


@pytest.mark.parametrize(
    "check, spoil", SPOILERS, ids=[f"{check.__name__}-{number}" for number, (check, _) in enumerate(SPOILERS)]
)
def test_a_spoiled_notebook_is_found_out(check, spoil):
    notebook = good_notebook()
    spoil(notebook)
    assert check(notebook)


@pytest.mark.parametrize(
    "check, spoil",
    [
        (few_escapes, ignored(2)),
        (no_error_and_no_warning, lambda notebook: notebook["cells"][4].update(source="# NBVAL_RAISES_EXCEPTION\nx")),
        (no_dropout, code("f(q, k, v, dropout_p=0.0); g(dropout=0); nn.Dropout(0.0)")),
        (four_decimals, printed("2.13.0 0.1234 1234567 10.0.0.12345\n")),
        (calm, text("`assert x != y` holds, $n!$ too, and ![a map](map.png) is local.\n\n```\nprint('Hello!')\n```")),
        (formulas_render_everywhere, text("`$x` in code, \\$5 in text, $\\left(\\frac{a}{b}\\right)$ in a formula.")),
        (nothing_remote, text("[plain links](https://example.org) are fine")),
        (no_trace_of_a_machine, text("and/or, https://example.org/home/page, a/tmp, $A:\\ x$")),
    ],
)
def test_what_is_fine_gets_no_complaint(check, spoil):
    notebook = good_notebook()
    spoil(notebook)
    assert check(notebook) == []


def test_every_check_has_a_notebook_that_fails_it():
    assert {check for check, _ in SPOILERS} == set(CHECKS)
