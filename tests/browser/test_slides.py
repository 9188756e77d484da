"""The decks of `make slides`, opened from files with the network off: what stands on them fits, and explorers live."""

import re

import pytest
from page_tools import tool

from attn_core import show

from .explorer_page import difference
from .made_pages import NOTEBOOKS, shown, write

DECKS = [path.stem for path in NOTEBOOKS]
SLIDES_AT_MOST = 25
READY = "typeof Reveal !== 'undefined' && Reveal.isReady()"
# What of the current slide reaches beyond it, in pixels of a slide of 1280 × 720, or is wider than its own box.
OVERFLOW = """() => {
    const slide = Reveal.getCurrentSlide(), box = slide.getBoundingClientRect();
    const seen = [...slide.querySelectorAll("*")].filter((node) => !node.closest("aside, math, script"));
    const beyond = seen.filter((node) => {
        const { right, bottom, width } = node.getBoundingClientRect();
        return width && (right > box.right + 1 || bottom > box.bottom + 1);
    });
    const boxes = seen.filter((node) => node.matches("pre, .formula, .scroll"));
    const wide = boxes.filter((node) => node.scrollWidth > node.clientWidth + 1);
    return [...beyond, ...wide].map((node) => `${node.tagName} ${node.className} ${node.textContent.slice(0, 40)}`);
}"""


@pytest.fixture(scope="module")
def files():
    return tool("slides").decks(NOTEBOOKS)


@pytest.fixture(scope="module")
def folder(files, tmp_path_factory):
    return write(files, tmp_path_factory.mktemp("slides") / "on a stick" / "猫吃鱼 50%")


@pytest.fixture
def open_deck(new_page, folder):
    """Opens a deck from its file; at the end nothing was asked for elsewhere and nothing went wrong."""
    opened = []

    def open_one(name: str, width=1280, height=720, **options):
        page = new_page(offline=True, viewport={"width": width, "height": height}, **options)
        asked = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto((folder / f"{name}.html").as_uri())
        page.wait_for_function(READY)
        opened.append((page, asked))
        return page

    yield open_one
    for page, asked in opened:
        assert page.complaints == []
        assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []


def turn_to(page, explorer: str):
    """Turn to the slide with an explorer. Returns its place, once it runs and is fitted."""
    place = page.locator(f".explorer[data-explorer='{explorer}'][data-state='ready']")
    place.locator("canvas").first.wait_for(state="attached")
    number = place.evaluate("(place) => Reveal.getSlides().indexOf(place.closest('section'))")
    page.evaluate("(number) => Reveal.slide(number)", number)
    return place


@pytest.mark.parametrize("name", DECKS)
def test_a_deck_has_few_slides_and_nothing_on_them_reaches_beyond(open_deck, name):
    page = open_deck(name)
    for place in page.locator(".explorer").all():
        place.locator("canvas").first.wait_for(state="attached")
    count = page.evaluate("Reveal.getTotalSlides()")
    assert 10 <= count <= SLIDES_AT_MOST
    for number in range(count):
        page.evaluate("(number) => Reveal.slide(number)", number)
        page.evaluate("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
        assert page.evaluate(OVERFLOW) == [], f"slide {number + 1}"


@pytest.mark.parametrize("name", DECKS)
def test_the_whole_text_of_a_notebook_is_on_the_slides_or_in_their_notes(files, name):
    """What does not fit a slide is said by the teacher: no paragraph between the title and the exercises is lost."""
    render = tool("slides").render
    path = next(path for path in NOTEBOOKS if path.stem == name)
    cells = [cell for cell in render.read(path).cells if cell.cell_type == "markdown"]
    deck = words(files[f"{name}.html"])
    for cell in cells:
        if cell.metadata["slideshow"]["slide_type"] != "skip":
            for paragraph in re.split(r"\n\s*\n", cell.source):
                assert words(render.markdown(paragraph, lambda target: "")[0]) in deck


def words(markup: str) -> str:
    return " ".join(re.sub("<[^>]+>", " ", markup).split())


@pytest.mark.parametrize("name, explorer", [("03_multi_head", "head_explorer"), ("02_qkv_by_hand", "qkv_explorer")])
def test_an_explorer_lives_on_its_slide_and_its_keys_do_not_turn_the_slide(open_deck, name, explorer):
    page = open_deck(name)
    place = turn_to(page, explorer)
    number = page.evaluate("Reveal.getIndices().h")
    before = shown(place)
    compute = getattr(show, explorer)().compute
    for slider in place.locator("input[type='range']").all():
        slider.focus()
        for key in ("ArrowLeft", "End", "ArrowRight"):
            page.keyboard.press(key)
            now = shown(place)
            assert difference(now, *compute(**now["settings"])) == ""
    place.locator("canvas").first.focus()
    page.keyboard.press("ArrowRight")
    assert now["settings"] != before["settings"]
    assert page.evaluate("Reveal.getIndices().h") == number
    assert page.evaluate(OVERFLOW) == []  # also with the most maps


def test_the_pointer_reads_the_cell_below_it_on_a_large_screen(open_deck):
    page = open_deck("04_positional_encoding", 1920, 1080)
    place = turn_to(page, "position_explorer")
    panel = shown(place)["drawn"][1]
    canvas = place.locator("canvas").nth(1)
    scale = canvas.evaluate("(canvas) => canvas.getBoundingClientRect().width / parseFloat(canvas.style.width)")
    assert scale > 1.4
    for row, column in ((0, 0), (17, 3), (23, 23)):
        x = (panel["origin"][0] + (column + 0.5) * panel["cell"][0]) * scale
        y = (panel["origin"][1] + (row + 0.5) * panel["cell"][1]) * scale
        canvas.hover(position={"x": x, "y": y})
        assert re.search(rf"position m {row} → position n {column}: ", shown(place)["readout"])


def test_the_notes_open_in_a_window_of_their_own_and_follow_the_slides(open_deck):
    page = open_deck("02_qkv_by_hand")
    with page.expect_popup() as opened:
        page.keyboard.press("s")
    notes = opened.value
    assert "2. Q, K, V by hand" in notes.locator("h1").inner_text()
    assert "You need Python and matrix products" in notes.locator("body").inner_text()
    page.keyboard.press("ArrowRight")
    notes.get_by_role("heading", name="2.1 Three roles for one token").wait_for()
    assert "You need Python" not in notes.locator("body").inner_text()


def test_the_theme_can_be_changed_by_a_key(open_deck):
    page = open_deck("02_qkv_by_hand")
    paper = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(paper)
    page.keyboard.press("d")
    assert page.evaluate(paper) != light == "rgb(255, 255, 255)"


@pytest.mark.parametrize("name", DECKS)
def test_on_paper_each_slide_is_a_page_with_a_picture_for_its_explorer(open_deck, name):
    page = open_deck(name)
    slides = page.evaluate("Reveal.getTotalSlides()")
    printed = page.pdf(prefer_css_page_size=True, print_background=True)
    assert printed.count(b"/Type /Page\n") + printed.count(b"/Type /Page ") == slides
    page.emulate_media(media="print")
    assert page.locator(".explorer:visible").count() == 0
    assert page.locator(".instead:visible").count() == page.locator(".explorer").count()
