"""Static figures: the conventions of a heatmap, its text, and files that are the same each time."""

import base64
import io
import re
import warnings
from xml.etree import ElementTree

import matplotlib.pyplot
import numpy as np
import pandas
import pytest
import torch
from matplotlib.collections import LineCollection, QuadMesh
from PIL import Image

from attn_core import MultiHeadAttention
from attn_core.show import head_grid, heatmap, line_panel, matrix_panel, new_figure, panel_figure, save
from attn_core.show.panels import weight_panels
from attn_core.show.style import palette_colours

TOKENS = ["猫", "吃", "鱼"]
WEIGHTS = np.array([[0.7, 0.2, 0.1], [0.25, 0.5, 0.25], [0.0, 0.0, 1.0]])


def even_weights(*shape):
    return np.full(shape, 1 / shape[-1])


def maps_of(figure):
    """The axes of a figure that hold a heatmap, without its colour bar."""
    return [axes for axes in figure.axes if axes.get_xlabel() == "key"]


def drawn(axes):
    return next(child for child in axes.get_children() if isinstance(child, QuadMesh))


def labels(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


# What a heatmap shows


def test_rows_are_queries_and_columns_are_keys():
    (axes,) = maps_of(heatmap(even_weights(2, 3), ["a", "b"], ["x", "y", "z"]))
    assert (axes.get_ylabel(), axes.get_xlabel()) == ("query", "key")
    assert labels(axes.yaxis) == ["a", "b"]
    assert labels(axes.xaxis) == ["x", "y", "z"]
    assert drawn(axes).get_array().shape == (2, 3)


def test_the_first_query_stands_at_the_top():
    (axes,) = maps_of(heatmap(WEIGHTS, TOKENS))
    bottom, top = axes.get_ylim()
    assert bottom > top
    assert drawn(axes).get_array()[0].tolist() == WEIGHTS[0].tolist()


def test_colours_run_from_0_to_1_whatever_the_weights_are():
    for weights in (WEIGHTS, even_weights(3, 3)):
        for axes in maps_of(head_grid(np.stack([weights, weights]), TOKENS)):
            assert drawn(axes).get_clim() == (0, 1)
            assert drawn(axes).get_cmap().name == "cividis"


def test_a_grid_has_one_colour_bar_and_a_map_per_head():
    figure = head_grid(even_weights(5, 3, 3), TOKENS, title="five heads")
    assert len(maps_of(figure)) == 5
    assert sum(axes.get_label() == "<colorbar>" for axes in figure.axes) == 1
    assert [axes.get_title() for axes in maps_of(figure)] == [f"head {h}" for h in range(1, 6)]
    assert figure.get_suptitle() == "five heads"


def test_the_palette_of_weights_grows_lighter_at_every_step():
    red, green, blue = np.array(
        [[int(colour[i : i + 2], 16) for i in (1, 3, 5)] for colour in palette_colours("cividis")]
    ).T
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    assert len(luminance) == 256
    assert (np.diff(luminance) > -0.5).all()  # rounding to 255 levels may lose a little
    assert (luminance[8:] > luminance[:-8]).all()


@pytest.mark.parametrize("size, numbers", [(1, 1), (3, 9), (8, 64), (9, 0), (12, 0)])
def test_numbers_stand_in_the_cells_up_to_8_tokens(size, numbers):
    (axes,) = maps_of(heatmap(even_weights(size, size)))
    assert len(axes.texts) == numbers


def test_each_number_stands_in_its_own_cell():
    (axes,) = maps_of(heatmap(WEIGHTS, TOKENS))
    for text in axes.texts:
        column, row = (int(place) for place in text.get_position())
        assert text.get_text() == f"{WEIGHTS[row, column]:.2f}"


def test_numbers_are_light_on_dark_and_dark_on_light():
    (axes,) = maps_of(heatmap(np.array([[0.0, 1.0]]), ["a"], ["x", "y"]))
    assert [text.get_color() for text in axes.texts] == ["#ffffff", "#000000"]


@pytest.mark.parametrize("count, shown", [(40, 40), (41, 21), (60, 30), (200, 40)])
def test_labels_are_thinned_past_40_tokens(count, shown):
    (axes,) = maps_of(heatmap(even_weights(count, count)))
    for axis in (axes.xaxis, axes.yaxis):
        assert len(labels(axis)) == shown <= 40
        places = axis.get_ticklocs() - 0.5
        assert labels(axis) == [str(int(place)) for place in places]


def test_repeated_tokens_keep_a_row_and_a_column_each():
    (axes,) = maps_of(heatmap(WEIGHTS, ["了", "了", "了"]))
    assert labels(axes.xaxis) == labels(axes.yaxis) == ["了", "了", "了"]
    assert axes.get_xticks().tolist() == [0.5, 1.5, 2.5]


def test_keys_are_the_queries_unless_named_where_there_are_as_many():
    (axes,) = maps_of(heatmap(WEIGHTS, TOKENS))
    assert labels(axes.xaxis) == TOKENS
    (axes,) = maps_of(heatmap(even_weights(2, 3), ["a", "b"]))
    assert labels(axes.xaxis) == ["0", "1", "2"]


@pytest.mark.parametrize("make", [torch.tensor, np.array, np.ndarray.tolist, lambda x: torch.tensor(x).bfloat16()])
def test_tensors_arrays_and_lists_are_drawn_alike(make):
    (axes,) = maps_of(heatmap(make(np.array([[0.25, 0.75], [0.5, 0.5]])), ["a", "b"]))
    assert drawn(axes).get_array().tolist() == [[0.25, 0.75], [0.5, 0.5]]


def test_weights_that_need_a_gradient_are_drawn():
    weights = torch.softmax(torch.zeros(2, 2, requires_grad=True), -1)
    assert len(maps_of(head_grid(weights[None]))) == 1


def test_drawing_leaves_the_weights_as_they_were():
    weights = WEIGHTS.copy()
    heatmap(weights, TOKENS)
    assert (weights == WEIGHTS).all()


def test_what_a_mask_hides_is_grey_and_marked_as_minus_infinity():
    scores = np.array([[1.0, -np.inf], [0.5, -2.0]])
    figure = panel_figure([matrix_panel(scores, "scores", "ab", "ab", "query", "key", "score")])
    (axes,) = maps_of(figure)
    assert [text.get_text() for text in axes.texts] == ["1.00", "−∞", "0.50", "−2.00"]
    assert drawn(axes).get_array().mask.tolist() == [[False, True], [False, False]]
    assert drawn(axes).get_clim() == (-2, 2)


def test_no_number_is_a_minus_zero():
    panel = matrix_panel(np.array([[-0.0, -0.001]]), "tiny", "a", "xy", "token", "dimension", "value")
    (axes,) = panel_figure([panel]).axes
    assert [text.get_text() for text in axes.texts] == ["0.00", "0.00"]


# Lines


def lines_of(axes):
    """The ends of each line and its opacity and width, by (query, key)."""
    (drawing,) = [child for child in axes.get_children() if isinstance(child, LineCollection)]
    places = [tuple(int(y) for y in ends[:, 1]) for ends in drawing.get_segments()]
    strengths = zip(drawing.get_colors()[:, 3], drawing.get_linewidths(), strict=True)
    return dict(zip(places, strengths, strict=True))


def test_a_line_goes_from_each_query_to_each_key_and_is_the_stronger_the_greater_the_weight():
    weights = np.array([[0.7, 0.2, 0.1], [0.0, 0.6, 0.4]])
    (axes,) = panel_figure([line_panel(weights, "lines", ["a", "b"], ["x", "y", "z"])]).axes
    lines = lines_of(axes)
    assert {pair: alpha for pair, (alpha, _) in lines.items()} == {
        (i, j): weights[i, j] for i in range(2) for j in range(3) if weights[i, j]
    }
    assert sorted(lines, key=lambda pair: lines[pair][1]) == sorted(lines, key=lambda pair: weights[pair])
    assert labels(axes.yaxis) == ["a", "b"]
    assert labels(axes.child_axes[0].yaxis) == ["x", "y", "z"]
    bottom, top = axes.get_ylim()
    assert (bottom, top) == (3, 0)
    assert axes.get_xlabel() == "query → key"


def test_lines_say_what_they_are_and_the_largest_weights():
    alt = panel_figure([line_panel(WEIGHTS, "one head", TOKENS)]).alt
    assert alt == (
        "one head: lines from each query on the left to each key on the right; "
        "largest weight per query: 猫 to 猫 0.70, 吃 to 吃 0.50, 鱼 to 鱼 1.00."
    )


def test_lines_of_no_weight_and_of_a_rounded_one_are_drawn_without_a_warning(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        save(panel_figure([line_panel(np.zeros((2, 2)), "nothing")]), tmp_path / "nothing.png")
        save(panel_figure([line_panel([[1 + 1e-7, 0.0]], "all", ["$a$"], "xy")]), tmp_path / "all.png")


def test_lines_and_maps_share_a_figure_without_a_colour_bar():
    figure = panel_figure([line_panel(WEIGHTS, "lines", TOKENS), *weight_panels(WEIGHTS[None], TOKENS)])
    assert [axes.get_title() for axes in figure.axes] == ["lines", "head 1"]


@pytest.mark.parametrize(
    "weights, tokens, message",
    [
        ([[0.5, 1.5]], (["a"], ["x", "y"]), "between 0 and 1, got 0.5 to 1.5"),
        (WEIGHTS, (["a", "b"],), r"lines: 2 query and 2 key labels for shape \(3, 3\)"),
        (WEIGHTS[None], (), r"the shape \(L, S\), got \(1, 3, 3\): take one head, weights\[0\]"),
    ],
)
def test_lines_of_wrong_weights_or_tokens_are_refused(weights, tokens, message):
    with pytest.raises(ValueError, match=message):
        line_panel(weights, "lines", *tokens)


# Letters, background, text


@pytest.mark.parametrize(
    "tokens",
    [["猫", "吃", "鱼", "。"], ["α", "√d", "−∞", "→"], ["$x$", "$\\frac$", "a_b^c", "100 %"], ["", " ", "é", "ß"]],
    ids=["Chinese", "signs", "not formulas", "odd"],
)
@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_tokens_are_drawn_without_a_warning(tokens, ending, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        save(heatmap(even_weights(4, 4), tokens, title="猫吃鱼"), tmp_path / f"figure.{ending}")


def test_a_token_with_dollar_signs_is_no_formula():
    (axes,) = maps_of(heatmap(even_weights(1, 1), ["$x$"]))
    assert not axes.get_xticklabels()[0].get_parse_math()


def test_the_background_is_opaque(tmp_path):
    path = save(heatmap(WEIGHTS, TOKENS), tmp_path / "figure.png")
    inline = heatmap(WEIGHTS, TOKENS)._repr_mimebundle_()[0]["image/png"]
    for source in (path, io.BytesIO(base64.b64decode(inline))):
        picture = Image.open(source).convert("RGBA")
        corners = [(0, 0), (picture.width - 1, 0), (0, picture.height - 1), (picture.width - 1, picture.height - 1)]
        assert [picture.getpixel(corner) for corner in corners] == [(255, 255, 255, 255)] * 4


def test_the_picture_in_a_notebook_has_the_colours_of_the_saved_one(tmp_path):
    figure = head_grid(np.stack([WEIGHTS] * 4), TOKENS)
    saved = Image.open(save(figure, tmp_path / "figure.png")).convert("RGB")
    inline = Image.open(io.BytesIO(base64.b64decode(figure._repr_mimebundle_()[0]["image/png"]))).convert("RGB")
    assert inline.size == saved.size
    assert np.abs(np.asarray(inline, int) - np.asarray(saved, int)).max() <= 8


def test_the_alt_text_names_the_axes_and_the_largest_weights():
    alt = heatmap(WEIGHTS, TOKENS, title="who eats whom").alt
    assert alt == (
        "who eats whom: rows are query, columns are key; largest weight per query: "
        "猫 to 猫 0.70, 吃 to 吃 0.50, 鱼 to 鱼 1.00."
    )


def test_the_alt_text_of_many_heads_stays_short():
    alt = head_grid(even_weights(16, 12, 12), title="sixteen heads").alt
    assert alt.startswith("sixteen heads. 16 heatmaps. head 1: ")
    assert alt.endswith("And 8 more.")
    assert len(alt) < 2500


def test_a_notebook_gets_the_alt_text_beside_the_picture():
    figure = heatmap(WEIGHTS, TOKENS)
    data, metadata = figure._repr_mimebundle_()
    assert set(data) == {"text/plain", "image/png"}
    assert data["text/plain"] == f"Figure: {figure.alt}"
    assert metadata == {"image/png": {"alt": figure.alt}}
    assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG")


def test_a_figure_without_alt_text_is_refused():
    with pytest.raises(ValueError, match="alt"):
        new_figure(3, 2, "  ")


def test_no_figure_is_left_with_pyplot():
    heatmap(WEIGHTS)
    head_grid(even_weights(3, 4, 4))
    assert matplotlib.pyplot.get_fignums() == []


def test_the_style_of_the_course_stays_in_its_figures():
    before = dict(matplotlib.rcParams)
    heatmap(WEIGHTS, TOKENS)._repr_mimebundle_()
    assert dict(matplotlib.rcParams) == before


# Wrong arguments


@pytest.mark.parametrize(
    "weights, tokens, message",
    [
        ([[0.5, 1.5]], (["a"], ["x", "y"]), "between 0 and 1, got 0.5 to 1.5"),
        ([[-0.25, 1.0]], (["a"], ["x", "y"]), "between 0 and 1, got -0.25 to 1"),
        ([[np.nan, 1.0]], (["a"], ["x", "y"]), "between 0 and 1, got nan"),
        ([[-np.inf, 1.0]], (["a"], ["x", "y"]), "between 0 and 1, got -inf"),
        (WEIGHTS, (["a", "b"],), r"2 query and 2 key labels for shape \(3, 3\)"),
        (WEIGHTS, (TOKENS, ["x"]), r"3 query and 1 key labels for shape \(3, 3\)"),
        (WEIGHTS[0], (), r"must have the shape \(L, S\), got \(3,\)$"),
        (WEIGHTS[None], (), r"the shape \(L, S\), got \(1, 3, 3\): use head_grid for several maps"),
        (WEIGHTS[None, None], (), r"got \(1, 1, 3, 3\): use head_grid\(weights\[0\]\) for the first of a batch"),
        (np.zeros((0, 3)), (), r"at least one number, got shape \(0, 3\)"),
    ],
)
def test_wrong_weights_or_tokens_are_refused_with_their_values(weights, tokens, message):
    with pytest.raises(ValueError, match=message):
        heatmap(np.array(weights), *tokens)


@pytest.mark.parametrize("show", [heatmap, head_grid, lambda weights: line_panel(weights, "lines")])
@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: None, "weights is None: a layer gives its weights where it is called with need_weights=True"),
        (lambda: MultiHeadAttention(4, 2)(torch.rand(1, 3, 4)).weights, "called with need_weights=True"),
        (
            lambda: MultiHeadAttention(4, 2)(torch.rand(1, 3, 4), need_weights=True),
            "AttentionOutput: take its .weights",
        ),
        (lambda: "words", "weights must be numbers in rows of one length, got str"),
        (lambda: [[0.5, 0.5], [1.0]], "weights must be numbers in rows of one length, got list"),
    ],
)
def test_what_are_no_weights_gets_the_sentence_that_a_reader_needs(show, make, message):
    with pytest.raises(TypeError, match=re.escape(message)):
        show(make())


@pytest.mark.parametrize(
    "shape, message",
    [
        ((3, 3), "the shape (H, L, S), got (3, 3): use heatmap for one map"),
        ((1, 2, 3, 3), "got (1, 2, 3, 3): take one of the batch, weights[0]"),
        ((3,), "the shape (H, L, S), got (3,)"),
    ],
)
def test_a_grid_of_another_number_of_axes_says_what_to_do(shape, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        head_grid(even_weights(*shape))


def test_the_numbers_of_a_table_of_pandas_are_drawn():
    (axes,) = maps_of(heatmap(pandas.DataFrame([[0.25, 0.75], [0.5, 0.5]], index=["a", "b"])))
    assert drawn(axes).get_array().tolist() == [[0.25, 0.75], [0.5, 0.5]]


def test_wrong_titles_and_no_panels_are_refused():
    with pytest.raises(ValueError, match="2 heads need 2 titles, got 1"):
        head_grid(even_weights(2, 3, 3), titles=["one"])
    with pytest.raises(ValueError, match="at least one panel"):
        panel_figure([])


def test_rounding_of_a_softmax_is_no_wrong_weight():
    heatmap(torch.tensor([[1.0 + 1e-7, 0.0]]))


# Files


@pytest.mark.parametrize("ending", ["png", "svg", "pdf", "PNG"])
def test_a_figure_is_saved_as_the_same_bytes_each_time(ending, tmp_path):
    figure = head_grid(np.stack([WEIGHTS, WEIGHTS]), TOKENS, title="猫吃鱼")
    again = head_grid(np.stack([WEIGHTS, WEIGHTS]), TOKENS, title="猫吃鱼")
    files = [
        save(drawing, tmp_path / f"{name}.{ending}").read_bytes()
        for name, drawing in (("one", figure), ("two", figure), ("three", again))
    ]
    assert files[0] == files[1] == files[2]
    beginning = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[ending.lower()]
    assert files[0].startswith(beginning)


def test_an_svg_is_xml_and_says_what_it_shows(tmp_path):
    figure = heatmap(WEIGHTS, TOKENS)
    text = save(figure, tmp_path / "figure.svg").read_text(encoding="utf-8")
    assert ElementTree.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"
    assert figure.alt in text


@pytest.mark.filterwarnings("ignore:Glyph")
def test_an_svg_of_tokens_that_xml_forbids_is_xml_too(tmp_path):
    text = save(heatmap(WEIGHTS, ["a\x01", "b\x0b", "c\x00"]), tmp_path / "figure.svg").read_text(encoding="utf-8")
    assert ElementTree.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"


def test_a_long_token_leaves_room_for_the_map():
    figure = heatmap(WEIGHTS, ["short", "antidisestablishmentarianism", "internationalization"])
    figure.draw_without_rendering()
    axis = figure.axes[0]
    assert [label.get_text() for label in axis.get_yticklabels()] == ["short", "antidise…rianism", "internat…ization"]
    assert axis.get_window_extent().width > 0.3 * figure.bbox.width
    assert "antidisestablishmentarianism" in figure.alt


def test_a_png_says_what_it_shows(tmp_path):
    figure = heatmap(WEIGHTS, ["a", "b", "c"])
    assert Image.open(save(figure, tmp_path / "figure.png")).text["Description"] == figure.alt


@pytest.mark.parametrize("name", ["figure.jpg", "figure", "figure.png.txt"])
def test_another_ending_is_refused(name, tmp_path):
    with pytest.raises(ValueError, match=f"must end in .png, .svg, .pdf, got '{name}'"):
        save(heatmap(WEIGHTS), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_figure_of_pyplot_can_be_saved_too(tmp_path):
    assert save(matplotlib.figure.Figure(), tmp_path / "plain.png").stat().st_size > 0


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_a_failing_save_leaves_the_old_file_whole_and_nothing_beside_it(ending, tmp_path, monkeypatch):
    figure = heatmap(WEIGHTS, TOKENS)
    path = save(figure, tmp_path / f"figure.{ending}")
    before = path.read_bytes()

    def write_a_little_and_fail(part, **options):
        part.write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(figure, "savefig", write_a_little_and_fail)
    with pytest.raises(OSError, match="disk full"):
        save(figure, path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_shares_have_the_scale_of_weights_and_the_alt_text_names_the_largest():
    shares = [[0.1, 0.2, 0.3], [0.2, 0.75, 0.1]]
    figure = panel_figure([matrix_panel(shares, "hits", (1, 2), (1, 2, 3), "layer", "head", "share")])
    map_axis, bar_axis = figure.axes
    assert map_axis.collections[0].get_clim() == (0, 1)
    assert bar_axis.get_ylabel() == "share"
    assert "the largest is 0.75, at layer 2, head 2" in figure.alt
