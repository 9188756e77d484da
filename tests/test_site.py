"""What makes pages and slides of notebooks: texts, formulas, links, and sentences on notebooks that are broken."""

import gzip
import json
import re
from base64 import b64decode

import nbformat
import pytest
import yaml
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from page_tools import TOOLS, tool

NOTEBOOKS = sorted((TOOLS.parent / "notebooks").glob("*.ipynb"))
START = "# 1. Title\n\n**Question.** Why?\n\n**Answer.** Because.\n\nAbout 10 minutes."
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAIAAAABCAAAAADRSSBWAAAAC0lEQVR4nGNggAIAAAYAAc8dpJwAAAAASUVORK5CYII="


@pytest.fixture(scope="module")
def site():
    return tool("site")


@pytest.fixture(scope="module")
def slides():
    return tool("slides")


def code(source, *outputs, count=1, name="code"):
    metadata = {"slideshow": {"slide_type": "-"}}
    return new_code_cell(source, id=name, outputs=list(outputs), execution_count=count, metadata=metadata)


def text(source, number=1, **told):
    return new_markdown_cell(source, id=f"text-{number}", metadata={"slideshow": {"slide_type": "slide", **told}})


def written(folder, *cells, start=START):
    path = folder / "01_one.ipynb"
    nbformat.write(new_notebook(cells=[text(start, 0), *cells]), path)
    return path


def picture():
    return new_output(
        "execute_result", {"image/png": PNG, "text/plain": "Figure"}, metadata={"image/png": {"alt": "A <map>."}}
    )


def test_a_page_has_sections_outputs_and_pictures_with_their_texts(site, tmp_path):
    cells = [
        text(
            "## 1.1 First\n\nA *text* with `code`, [a link](02_qkv_by_hand.ipynb#x) and [a file](../x.py).",
            1,
        ),
        code("# NBVAL_IGNORE_OUTPUT\nprint('<b>')", new_output("stream", text="<b>\n")),
        text("## Second", 2),
        code("figure", picture(), name="figure"),
    ]
    page = site.notebook_page(written(tmp_path, *cells))
    assert [section.name for section in page.sections] == ["", "1-1-first", "second"]
    assert (page.question, page.answer, page.minutes) == ("Why?", "Because.", "10")
    assert 'href="02_qkv_by_hand.html#x"' in page.body
    assert "a file" in page.body and "x.py" not in page.body
    assert "<pre>&lt;b&gt;</pre>" in page.body and "NBVAL" not in page.body
    assert 'alt="A &lt;map&gt;."' in page.body and 'width="2" height="1"' in page.body
    assert "A text with code, a link and a file." in page.sections[1].text


@pytest.mark.parametrize(
    "cells, start, sentence",
    [
        ([code("x", count=None)], START, "cell code was not executed; run `make refresh`"),
        ([code("x", new_output("error", ename="E", evalue="", traceback=[]))], START, "cell code ended in an error"),
        ([text(r"$\nonsense{x}$")], START, r"has a command that is not known, \\nonsense"),
        ([text(r"$\left( x$")], START, "cannot be read"),
        ([text("## A"), text("## A", 2)], START, "two headings have the name 'a'"),
        ([text("# Another")], START, "it has 2 titles, not one"),
        ([code("new_explorer()", picture())], START, "new_explorer is not among the explorers"),
        ([], "# Title", "does not say the question"),
    ],
)
def test_a_broken_notebook_gets_one_sentence_that_names_it(site, tmp_path, capsys, cells, start, sentence):
    folder = tmp_path / "site"
    site.render.write_folder(folder, {"old.html": "old", site.render.MADE_HERE: ""})
    written(tmp_path, *cells, start=start)
    assert site.main([str(folder)], tmp_path) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and said.startswith("The site could not be made: 01_one.ipynb: ")
    assert re.search(sentence, said)
    assert (folder / "old.html").exists()


def test_a_folder_of_something_else_is_left_as_it_is(site, slides, tmp_path, capsys):
    folder = tmp_path / "mine"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "thesis.txt").write_text("precious")
    for maker, name in ((site, "site"), (slides, "slides")):
        assert maker.main([str(folder)]) == 1
        said = capsys.readouterr().err
        assert said.startswith(f"The {name} could not be made: {folder} holds something that was not made here")
        assert maker.main([str(folder / "deep" / "thesis.txt")]) == 1
        assert maker.main(["--help"]) == maker.main(["one", "two"]) == 2
        assert capsys.readouterr().err.endswith(f"usage: python tools/{name}.py [FOLDER]\n")
    assert [path.name for path in folder.rglob("*")] == ["deep", "thesis.txt"]


def test_what_was_made_before_is_replaced_whole(tmp_path):
    write_folder = tool("site").render.write_folder
    files = {"index.html": "1", "assets/explorers.js": "2"}
    write_folder(tmp_path, files | {"old/page.html": "3", "assets/old.css": "4"})
    (tmp_path / ".hidden").touch()
    with pytest.raises(TypeError):  # interrupted after the first file
        write_folder(tmp_path, {"assets/explorers.js": "2", "index.html": None})
    write_folder(tmp_path, files)
    (tmp_path / ".hidden").unlink()
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["explorers.js", "index.html"]


SQUARES = """
import ipywidgets as widgets
from attn_core.show import Explorer, matrix_panel
def square_explorer(number):
    def squares(power):
        return [matrix_panel([[number**power]], "", ["r"], ["c"], "row", "column", "value")], f"{number**power + EXTRA}"
    return Explorer("squares", {"power": widgets.IntSlider(value=2, min=2, max=2)}, squares)
"""


def captions(markup):
    """The captions of every explorer of some HTML, each of which stands right behind the place of its explorer."""
    blocks = re.findall(r'<div class="explorer" data-explorer="\w+"></div><script[^>]*>([^<]+)</script>', markup)
    assert len(blocks) == markup.count("data-explorer=")
    unpacked = [gzip.decompress(b64decode(block)) for block in blocks]
    return [json.loads(data[8 : 8 + int.from_bytes(data[:4], "little")])["captions"] for data in unpacked]


def test_each_call_of_an_explorer_shows_what_its_own_arguments_and_its_own_notebook_make(site, slides, tmp_path):
    def calling(folder, extra, *numbers):
        folder.mkdir()
        needed = code(f"EXTRA = {extra}\n{SQUARES}", name="needed")
        needed.metadata["tags"] = ["explorer"]
        calls = [code(f"square_explorer({n})", picture(), name=f"call-{k}") for k, n in enumerate(numbers)]
        return written(folder, needed, *calls)

    two, other = calling(tmp_path / "two", 0, 3, 5, 3), calling(tmp_path / "other", 100, 3)
    page = site.notebook_page(two).body
    assert captions(page) == [["9"], ["25"], ["9"]]
    assert captions(site.notebook_page(other).body) == [["109"]]
    (slide,) = slides.deck(two)
    assert captions("".join(slide.shown)) == [["9"], ["25"], ["9"]]
    ids = re.findall(r'\bid="([^"]*)"', page)
    assert len(ids) == len(set(ids))


TEXTS = """
import ipywidgets as widgets
from attn_core.show import Explorer, matrix_panel
from attn_core.show.explorers.base import Stored
panel = matrix_panel([[1.0]], "", ["r"], ["c"], "row", "column", "value")
FORESEEN = ("B c.", "C d.")
def text_explorer(text):
    offer = Stored({"sentence": list(dict.fromkeys([text, *FORESEEN]))})
    controls = {"sentence": widgets.Text(value=text)}
    return Explorer("texts", controls, lambda sentence: ([panel], sentence), offline=lambda: offer)
"""


def test_a_page_offers_what_the_explorer_offers_of_itself(site, tmp_path):
    needed = code(TEXTS, name="needed")
    needed.metadata["tags"] = ["explorer"]
    calls = [code(f"text_explorer({text!r})", picture(), name=f"call-{text[0]}") for text in ("A b.", "B c.")]
    page = site.notebook_page(written(tmp_path, needed, *calls))
    assert captions(page.body) == [["A b.", "B c.", "C d."], ["B c.", "C d."]]


def test_what_is_no_notebook_gets_a_sentence(site, slides, tmp_path, capsys):
    (tmp_path / "01_one.ipynb").write_text("{ no json")
    for maker in (site, slides):
        assert maker.main([str(tmp_path / "made")], tmp_path) == 1
        assert "01_one.ipynb: it is no valid notebook" in capsys.readouterr().err
    assert site.main([str(tmp_path / "made")], tmp_path / "nowhere") == 1


@pytest.mark.parametrize(
    "tex, expected",
    [
        (r"\sqrt{d_k}", "<msqrt>"),
        (r"\begin{pmatrix} a & b \\ c & d \end{pmatrix}", "<mtable>"),
        (r"\cos k", '<mi>cos</mi><mspace width="0.167em"></mspace><mi>k</mi>'),
        (r"\cos(k)", '<mi>cos</mi><mo stretchy="false">'),
        (r"\cos\left(k\right)", '<mi>cos</mi><mrow><mo stretchy="true"'),
        (r"w_{j'}", "<mi>j</mi><mo"),
        (r"-\infty", "<mi>&#x0221E;</mi>"),
    ],
)
def test_formulas_become_mathml(site, tex, expected):
    assert expected in site.render.formula(tex, "inline")


@pytest.mark.parametrize(
    "tex, text",
    [
        (r"\sqrt{d_k}", "√d_k"),
        (r"e^{s_{ij}}", "e^s_ij"),
        (r"\frac{a}{b} + 1", "a/b+1"),
        (r"x_i^2", "x_i^2"),
        (r"p < 0.05", "p<0.05"),
    ],
)
def test_formulas_are_searched_for_as_they_are_written(site, tex, text):
    assert site.plain(f"<p>It is {site.render.formula(tex, 'inline')} here.</p>") == f"It is {text} here."


def test_no_line_begins_with_the_mark_behind_a_formula(site):
    made, _ = site.render.markdown("First $a$, then $b$ and $c$.", lambda target: target)
    assert re.findall('<span class="whole"><math.*?</math>(.*?)</span>', made) == [",", "."]


def test_code_in_a_text_looks_like_code_in_a_cell(site):
    markup, _ = site.render.markdown("```python\nimport torch\n```", lambda target: "")
    assert markup.strip() == site.render.code("import torch")


def test_chinese_words_are_marked_and_formulas_are_left_alone(site):
    marked = site.render.chinese('<p>a 猫吃鱼 b</p><img alt="猫"><math><mtext>猫</mtext></math>')
    assert marked == '<p>a <span lang="zh">猫吃鱼</span> b</p><img alt="猫"><math><mtext>猫</mtext></math>'


def test_the_colours_of_code_have_enough_contrast(site):
    from pygments.styles import get_style_by_name

    for name in (site.render.LIGHT, site.render.DARK):
        style = get_style_by_name(name)
        for token, told in style:
            if told["color"] and "Whitespace" not in str(token):
                assert contrast(told["color"], told["bgcolor"] or style.background_color[1:]) >= 4.5, (name, token)


def contrast(*colours):
    def luminance(colour):
        shares = [int(colour[i : i + 2], 16) / 255 for i in (0, 2, 4)]
        linear = [x / 12.92 if x <= 0.03928 else ((x + 0.055) / 1.055) ** 2.4 for x in shares]
        return sum(weight * x for weight, x in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    dark, light = sorted(map(luminance, colours))
    return (light + 0.05) / (dark + 0.05)


def test_nothing_to_print_and_no_browser_get_a_sentence(tmp_path, capsys):
    pdf = tool("pdf")
    with pytest.raises(SystemExit) as stopped:
        pdf.main(["-h"])
    assert stopped.value.code == 0 and "usage: python tools/pdf.py" in capsys.readouterr().out
    assert pdf.main(["chromium", str(tmp_path), str(tmp_path / "pdf")]) == 1
    assert "run make site first" in capsys.readouterr().err
    (tmp_path / "01_one.html").write_text("")
    assert pdf.main([str(tmp_path / "no browser"), str(tmp_path), str(tmp_path / "pdf")]) == 1
    assert "no browser could not print: " in capsys.readouterr().err


def test_the_workflow_publishes_with_no_more_rights_than_that_takes():
    text = (TOOLS.parent / ".github" / "workflows" / "site.yml").read_text(encoding="utf-8")
    workflow = yaml.safe_load(text)
    assert workflow["permissions"] == {"contents": "read"}
    assert "permissions" not in workflow["jobs"]["build"]
    assert workflow["jobs"]["publish"]["permissions"] == {"pages": "write", "id-token": "write"}
    assert workflow[True] == {"push": {"branches": ["main"]}}  # "on" is a truth value in YAML
    assert "://" not in text and set(re.findall(r"uses: (\S+?)/", text)) == {"actions"}


# Slides


def test_slides_begin_at_slides_and_headings_and_keep_what_is_not_shown_as_notes(slides, tmp_path):
    cells = [
        text("Hidden.\n\nShown.\n\n## 1.1 First\n\nBelow.", 1, blocks=[1, 2, 3]),
        text("Told.", 2, slide_type="notes"),
        code("x = 1", new_output("stream", text="one\n")),
        text("More.", 3, slide_type="slide"),
        text("Left out.", 4, slide_type="skip"),
    ]
    deck = slides.deck(written(tmp_path, *cells))
    assert [(slide.title, slide.again) for slide in deck] == [
        ("1. Title", False),
        ("1. Title", True),
        ("1.1 First", False),
        ("1.1 First", True),
    ]
    assert ["Hidden" in "".join(slide.notes) for slide in deck] == [True, False, False, False]
    assert "Shown" in "".join(deck[1].shown) and "Told" in "".join(deck[2].notes)
    assert "one" in "".join(deck[2].shown)
    assert not any("Left out" in "".join((*slide.shown, *slide.notes)) for slide in deck)


def test_the_part_of_a_code_cell_can_be_chosen(slides, tmp_path):
    cell = code("secret", new_output("stream", text="public\n"))
    cell.metadata["slideshow"]["part"] = "output"
    (slide,) = slides.deck(written(tmp_path, cell))
    assert "public" in "".join(slide.shown) and "secret" not in "".join(slide.shown)


@pytest.mark.parametrize(
    "cells, sentence",
    [
        ([new_markdown_cell("No word on slides.", id="mute")], "cell mute does not say what it is on the slides"),
        ([text("One.", blocks=[1])], r"cell text-1 has 1 paragraphs, 0 to 0, not \[1\]"),
        ([text(f"## {i}", i) for i in range(1, 26)], "it has 26 slides, and at most 25 are allowed"),
    ],
)
def test_a_notebook_that_makes_no_deck_gets_a_sentence(slides, tmp_path, capsys, cells, sentence):
    written(tmp_path, *cells)
    assert slides.main([str(tmp_path / "made")], tmp_path) == 1
    assert re.search(f"The slides could not be made: 01_one.ipynb: {sentence}", capsys.readouterr().err)
