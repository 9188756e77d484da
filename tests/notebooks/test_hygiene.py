"""The notebooks as they are committed: executed, clean, readable everywhere.

Each check is a function from a notebook to a list of complaints; a few notebooks that are spoiled show that they can
complain.
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


def notebook_with(markdown, source, printed):
    output = {"output_type": "stream", "name": "stdout", "text": printed}
    text = {"id": "text", "cell_type": "markdown", "metadata": {}, "source": markdown}
    code = {"id": "code", "cell_type": "code", "metadata": {}, "source": source, "outputs": [output]}
    return {"cells": [text, code]}


READING = [no_trace_of_a_machine, nothing_remote, formulas_render_everywhere, no_dropout, four_decimals, no_magic, calm]


def test_a_spoiled_notebook_gets_a_complaint_from_every_check_that_reads_it():
    spoiled = notebook_with(
        "It works!\n\n![a map](https://example.org/map.png) costs $5.",
        '%matplotlib widget\nopen("/home/me/data")\nnn.Dropout(0.1)',
        "loss 0.12345\n",
    )
    assert [check.__name__ for check in READING if not check(spoiled)] == []


def test_what_only_looks_alike_gets_no_complaint():
    fine = notebook_with(
        "`assert x != y`, $n!$, \\$5, [a link](https://example.org/home/page), $A:\\ x$, and/or, a/tmp.\n\n"
        "```\nprint('Hello!')\n```\n\n$\\left(\\frac{a}{b}\\right)$",
        "%matplotlib inline\nf(q, k, v, dropout_p=0.0); nn.Dropout(0.0)",
        "2.13.0 0.1234 1234567 10.0.0.12345\n",
    )
    assert [check(fine) for check in READING] == [[]] * len(READING)
