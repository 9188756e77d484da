"""A drawing of the Transformer block."""

import itertools

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

from attn_core.show import style
from attn_core.show.figures.figure import CourseFigure, new_figure

# What a token goes through, one after the other.
BLOCKS = {
    "pre-norm": ("input", "norm", "attention", "+", "norm", "network", "+", "output"),
    "post-norm": ("input", "attention", "+", "norm", "network", "+", "norm", "output"),
}
SHORTCUTS = {"pre-norm": ((0, 3), (3, 6)), "post-norm": ((0, 2), (3, 5))}  # residual connections: from, to
ALT = (
    "Two rows of boxes joined by arrows. {rows} Above each row two lines lead around attention and around the network "
    "to the plus signs behind them: the residual connections."
)


def block_drawing() -> CourseFigure:
    """A block with its norms before and behind attention and network, and the lines that lead around both."""
    rows = " ".join(f"{name}: {', '.join(steps)}." for name, steps in BLOCKS.items())
    figure, axes = new_figure(9, 3.2, ALT.format(rows=rows), 2, 1)
    with rc_context(style.rc_params()):
        for axis, (name, steps) in zip(axes, BLOCKS.items(), strict=True):
            axis.set(xlim=(-0.6, len(steps) - 0.4), ylim=(-0.35, 0.95))
            axis.set_title(name, loc="left")
            axis.set_axis_off()
            boxes = [_box(axis, place, step) for place, step in enumerate(steps)]
            for place, (before, behind) in enumerate(itertools.pairwise(boxes)):
                arrow = {"arrowstyle": "->", "patchA": before, "patchB": behind, "shrinkA": 0, "shrinkB": 0}
                axis.annotate("", (place + 1, 0), (place, 0), arrowprops=arrow)
            for first, last in SHORTCUTS[name]:
                start = first + 0.5  # off the arrow behind that step
                axis.plot([start, start, last], [0, 0.75, 0.75], color=style.ACCENT)
                axis.annotate("", (last, 0.16), (last, 0.77), arrowprops={"arrowstyle": "->", "color": style.ACCENT})
    return figure


def _box(axis: Axes, place: int, step: str) -> FancyBboxPatch:
    edge = "none" if step in ("input", "output") else style.GUIDE
    box = {"boxstyle": "circle" if step == "+" else "round", "facecolor": style.PAPER, "edgecolor": edge}
    patch = axis.text(place, 0, step, ha="center", va="center", bbox=box).get_bbox_patch()
    assert patch is not None  # there is one, since a box was asked for
    return patch
