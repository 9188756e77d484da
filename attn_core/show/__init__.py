"""What people look at: heatmaps, figures with alt text, and explorers with sliders."""

from attn_core.show.explorers.base import Explorer
from attn_core.show.explorers.costs import cost_explorer
from attn_core.show.explorers.heads import head_explorer
from attn_core.show.explorers.next_token import next_token_explorer
from attn_core.show.explorers.positions import position_explorer
from attn_core.show.explorers.qkv import qkv_explorer
from attn_core.show.explorers.scale import scale_explorer
from attn_core.show.explorers.trained import trained_explorer
from attn_core.show.figures.block import block_drawing
from attn_core.show.figures.curves import interval_curves
from attn_core.show.figures.figure import new_figure, save
from attn_core.show.figures.pictures import head_grid, heatmap, panel_figure
from attn_core.show.figures.wall import map_wall
from attn_core.show.live.view import AttentionView
from attn_core.show.panels import Panel, bar_panel, line_panel, matrix_panel
from attn_core.show.tables import show_table

__all__ = [
    "AttentionView",
    "Explorer",
    "Panel",
    "bar_panel",
    "block_drawing",
    "cost_explorer",
    "head_explorer",
    "head_grid",
    "heatmap",
    "interval_curves",
    "line_panel",
    "map_wall",
    "matrix_panel",
    "new_figure",
    "next_token_explorer",
    "panel_figure",
    "position_explorer",
    "qkv_explorer",
    "save",
    "scale_explorer",
    "show_table",
    "trained_explorer",
]
