"""Notebooks as pieces of HTML: texts with formulas as MathML, code in colours, outputs, explorers that run alone.

The pages of `make site` and the slides of `make slides` are made of these.
"""

import contextlib
import html
import io
import re
import shutil
import struct
import sys
from base64 import b64decode, b64encode
from collections.abc import Callable
from functools import cache
from itertools import zip_longest
from pathlib import Path
from xml.etree import ElementTree

import jinja2
import nbformat
from IPython.core.inputtransformer2 import TransformerManager
from ipython_pygments_lexers import IPython3Lexer
from latex2mathml.converter import convert
from nbconvert.filters import strip_ansi
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from pygments import highlight
from pygments.formatters import HtmlFormatter

from attn_core.show import AttentionView, Explorer
from attn_core.show.explorers import exported
from attn_core.show.offline import blocks as offline
from attn_core.show.style import font_for

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CHINESE = re.compile(r"[\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef]+")
# Nothing may be loaded from elsewhere, and no script or form that stands in a page may run.
SECURITY = (
    "default-src 'none'; script-src 'self' file:; style-src 'self' file: 'unsafe-inline'; img-src 'self' data: blob:; "
    "font-src data:; base-uri 'none'; form-action 'none'"
)
LIGHT, DARK = "default", "github-dark"  # Pygments styles whose every colour has a contrast of at least 4.5


class Broken(Exception):
    """What keeps a notebook from becoming a page, as one sentence."""


class Renderer(IPythonRenderer):
    """Markdown as HTML, with formulas as MathML and a name on every heading. links: a function for the targets."""

    def __init__(self, links):
        super().__init__(escape=False, exclude_anchor_links=True)
        self.links, self.headings = links, []

    def heading(self, text: str, level: int, **attrs) -> str:
        name = slug(text)
        self.headings.append((level, name, text))
        return f'<h{level} id="{name}">{text}</h{level}>\n'

    def inline_math(self, body: str) -> str:
        return formula(body, "inline")

    def block_math(self, body: str) -> str:
        return f'<span class="formula">{formula(body, "block")}</span>'

    def block_code(self, text: str, info: str | None = None) -> str:
        return code(text.rstrip()) if info == "python" else super().block_code(text, info)

    def link(self, text: str, url: str, title=None) -> str:
        target = self.links(url)
        return super().link(text, target, title) if target else text

    def table(self, text: str) -> str:
        return f'<div class="scroll"><table>{text}</table></div>\n'


def markdown(text: str, links) -> tuple[str, list[tuple[int, str, str]]]:
    """HTML of a text, and its headings: level, name and HTML.

    links: a function from a link's target to the target on the page, or to nothing, which leaves plain text.
    """
    renderer = Renderer(links)
    made = MarkdownWithMath(renderer=renderer).render(text)
    # A formula and the mark behind it stay together, so that no line begins with a comma.
    made = re.sub(r"<math(?:(?!</math>).)*</math>[.,;:?)]+", r'<span class="whole">\g<0></span>', made)
    return chinese(made), renderer.headings


def slug(text: str) -> str:
    """A heading's name for links: 2.6 Why divide by √d_k? becomes 2-6-why-divide-by-d-k."""
    plain = html.unescape(re.sub("<[^>]+>", " ", text))
    return re.sub(r"\W+", "-", plain.lower()).strip("-")


@cache
def formula(tex: str, display: str) -> str:
    try:
        mathml = convert(tex.strip(), display=display)
    except Exception as error:
        raise Broken(f"the formula {tex.strip()!r} cannot be read ({type(error).__name__})") from None
    if unknown := re.search(r"\\[a-zA-Z]*", mathml):
        raise Broken(f"the formula {tex.strip()!r} has a command that is not known, {unknown[0]}")
    # Where latex2mathml spaces unlike TeX: cos x needs a gap (cos(x) none); a prime stands close to its letter; the
    # minus of -∞ is a sign, not a subtraction.
    names = r"(<mi>(?:sin|cos|tan|tanh|exp|ln|log|max|min)</mi>)(?!(?:<mrow>)?<mo[^>]*>&#x00028;|</)"
    mathml = re.sub(names, r'\1<mspace width="0.167em"></mspace>', mathml)
    prime = r'<mrow>\1<mo lspace="0" rspace="0">&#x02032;</mo></mrow>'
    mathml = re.sub(r"<msup>(<mi>[^<]+</mi>)<mi>&#x02032;</mi></msup>", prime, mathml)
    return mathml.replace("<mo>&#x0221E;</mo>", "<mi>&#x0221E;</mi>")


# What stands before each child of an element when a formula is written in one line.
SIGNS = {"msqrt": "√", "msub": ("", "_"), "msup": ("", "^"), "msubsup": ("", "_", "^"), "mfrac": ("", "/")}


def written(math: str) -> str:
    """A formula in MathML as plain text, such as √d_k."""

    def text(node) -> str:
        parts = [text(child) for child in node]
        before = SIGNS.get(node.tag.rpartition("}")[2], ())
        signed = [sign + part for sign, part in zip_longest(before, parts, fillvalue="")]
        return "".join(signed) + (node.text or "").strip()

    return text(ElementTree.fromstring(math))


def chinese(markup: str) -> str:
    """The same HTML with its Chinese words marked as such, for fonts and voices; formulas are left alone."""

    def mark(text: re.Match) -> str:
        return CHINESE.sub(r'<span lang="zh">\g<0></span>', text[0])

    pieces = re.split(r"(<math.*?</math>)", markup, flags=re.DOTALL)
    return "".join(p if p.startswith("<math") else re.sub(r"(?:^|(?<=>))[^<]+", mark, p) for p in pieces)


def code(source: str) -> str:
    """Python in colours. Lines that only speak to the tests are left out."""
    told = "\n".join(line for line in source.splitlines() if not line.startswith("# NBVAL_"))
    return chinese(
        f'<pre class="code"><code>{highlight(told, IPython3Lexer(), HtmlFormatter(nowrap=True))}</code></pre>'
    )


def read(path: Path):
    """An executed notebook. Raises Broken for one that cannot be read or was not executed to its end."""
    try:
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
    except Exception as error:  # whatever is wrong with the file, it is told in a sentence
        raise Broken(f"it is no valid notebook ({str(error).splitlines()[0]})") from None
    for cell in notebook.cells:
        if cell.cell_type == "code" and cell.source.strip():
            if cell.execution_count is None:
                raise Broken(f"cell {cell.id} was not executed; run `make refresh`")
            if any(o.output_type == "error" for o in cell.outputs) and "NBVAL_RAISES_EXCEPTION" not in cell.source:
                raise Broken(f"cell {cell.id} ended in an error; mend it and run `make refresh`")
    return notebook


def outputs(cell, cells, path: Path) -> str:
    """The outputs of one of the code cells of the notebook at a path."""
    call = re.search(r"^(\w+_explorer)\((.*)\)\s*\Z", cell.source, re.MULTILINE)
    return chinese("".join(_output(output, call, cell, cells, path) for output in cell.outputs))


def _output(output, call, cell, cells, path: Path) -> str:
    if output.output_type == "stream":
        return f"<pre>{html.escape(output.text.rstrip())}</pre>"
    if output.output_type == "error":
        return f"<pre>{html.escape(strip_ansi(output.ename + ': ' + output.evalue))}</pre>"
    data = output.data
    if "image/png" in data:
        picture = _picture(data["image/png"], output.metadata["image/png"]["alt"], f"{path.stem}-{cell.id}")
        return _explorer(call[1], block(call, cells, path), picture) if call else picture
    if "text/html" in data:
        return f'<div class="scroll">{data["text/html"]}</div>'
    return f"<pre>{html.escape(data['text/plain'])}</pre>"


def _picture(png: str, alt: str, name: str) -> str:
    png = "".join(png.split())
    width, height = struct.unpack(">II", b64decode(png[:64])[16:24])
    return (
        f'<figure class="picture"><img src="data:image/png;base64,{png}" alt="{html.escape(alt)}" width="{width}" '
        f'height="{height}" style="--width: {width}px">'
        f'<button type="button" data-save="{name}.png">Save PNG</button></figure>'
    )


# To make each block once: blocks by all that decides what is in them, and the explorers behind the blocks.
blocks: dict[tuple, str] = {}
live: dict[str, Explorer] = {}


def block(call: re.Match, cells, path: Path) -> str:
    """The block of the explorer that a cell calls: name and arguments."""
    name, arguments = call.groups()
    # After other cells, or in a folder with other files, the same call may show something else.
    sources = [cell.source for cell in explorer_cells(cells)]
    made_of = (name, arguments, path.parent.resolve(), *sources) if arguments else (name,)
    if made_of not in blocks:
        if not arguments and name not in exported():
            raise Broken(f"{name} is not among the explorers of attn_core.show: {', '.join(exported())}")
        explorer = live_explorer(call[0], cells, path) if arguments else exported()[name]()
        blocks[made_of] = offline.block(explorer)
        live[blocks[made_of]] = explorer
    return blocks[made_of]


def explorer_cells(cells) -> list:
    """The cells with the tag "explorer", which hold what the calls of explorers need."""
    return [cell for cell in cells if "explorer" in cell.metadata.get("tags", [])]


def live_explorer(call: str, cells, path: Path) -> Explorer:
    """What a call in a notebook makes, after the cells that hold what it needs."""
    needed = explorer_cells(cells)
    names: dict = {}
    try:
        with contextlib.chdir(path.parent), contextlib.redirect_stdout(io.StringIO()):
            for cell in needed:
                # The set-up cell has lines for Colab that are no Python; they are not reached here.
                exec(compile(TransformerManager().transform_cell(cell.source), cell.id, "exec"), names)
            return eval(call, names)
    except Exception as error:
        hint = "" if needed else '; the cells that hold what it needs must have the tag "explorer"'
        raise Broken(f"{call} cannot be called ({type(error).__name__}: {error}){hint}") from None


def _explorer(name: str, block: str, picture: str) -> str:
    """An explorer that runs by itself; on paper and where it cannot run, its picture stands there.

    page.js finds the block behind its place, not by a name: a page may have several explorers of one name.
    """
    return (
        f'<div class="explorer" data-explorer="{name}"></div>'
        f'<script type="text/plain">{block}</script>'
        f'<div class="instead">{picture}</div>'
    )


def template(name: str) -> jinja2.Template:
    loader = jinja2.FileSystemLoader(HERE)
    options = {"undefined": jinja2.StrictUndefined, "trim_blocks": True, "lstrip_blocks": True}
    return jinja2.Environment(loader=loader, keep_trailing_newline=True, **options).get_template(name)


def style(*names: str) -> str:
    """The view's style, the colours of code and the named files of this folder as one style sheet."""
    sheets = [str(AttentionView._css)]
    light, dark = (HtmlFormatter(style=name).get_token_style_defs("") for name in (LIGHT, DARK))
    sheets += [f".code {rule}" for rule in light]
    # The dark colours are for screens only: paper is white.
    sheets += ["@media screen {", *(f'[data-theme="dark"] .code {rule}' for rule in dark), "}"]
    sheets += [(HERE / name).read_text(encoding="utf-8") for name in names]
    return "\n".join(sheets)


def fonts(text: str) -> str:
    """A style sheet with two fonts that a system may lack: for formulas, and for the Chinese words of a text."""
    faces = {
        "course-math": ("woff", (HERE / "vendor" / "stix-two-math.woff").read_bytes()),
        "course-chinese": ("opentype", font_for(text)),
    }
    return "\n".join(
        f'@font-face {{ font-family: "{family}"; src: url("data:font/{kind};base64,{b64encode(data).decode()}") '
        f'format("{kind}"); }}'
        for family, (kind, data) in faces.items()
        if data
    )


def write_made(name: str, make: Callable, arguments: list[str], notebooks: Path) -> int:
    """Write what `make` makes of all notebooks into the folder of the arguments, else into build; the exit status."""
    if len(arguments) > 1 or any(argument.startswith("-") for argument in arguments):
        print(f"usage: python tools/{name}.py [FOLDER]", file=sys.stderr)
        return 2
    folder = Path(arguments[0]) if arguments else ROOT / "build" / name
    try:
        check_folder(folder)
        print(write_folder(folder, make(sorted(notebooks.glob("*.ipynb")))))
    except Broken as error:
        print(f"The {name} could not be made: {error}.", file=sys.stderr)
        return 1
    return 0


MADE_HERE = "assets/explorers.js"


def check_folder(folder: Path) -> list[Path]:
    """What stands in a folder. Raises Broken for one with something else than pages or slides that were made here."""
    held = content(folder)
    if (folder.exists() and not folder.is_dir()) or (held and not (folder / MADE_HERE).is_file()):
        raise Broken(f"{folder} holds something that was not made here; name a new folder or an empty one")
    return held


def content(folder: Path) -> list[Path]:
    """The files and folders in a folder but for hidden ones, which a system may leave there."""
    return [path for path in folder.iterdir() if not path.name.startswith(".")] if folder.is_dir() else []


def write_folder(folder: Path, files: dict[str, str]) -> str:
    """Write all files in place of those made before, and say so in a sentence. Raises as check_folder."""
    for old in [*check_folder(folder), *content(folder / "assets")]:
        if old not in (folder / "assets", folder / MADE_HERE):
            shutil.rmtree(old) if old.is_dir() and not old.is_symlink() else old.unlink()
    # The file that marks the folder as made here is written first and never removed: after an interruption the folder
    # can be made again.
    for name, text in sorted(files.items(), key=lambda file: file[0] != MADE_HERE):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
    size = sum(len(text.encode()) for text in files.values())
    return f"{folder}: {len(files)} files, {size / 1e6:.1f} MB. Open {folder / 'index.html'} in a browser."
