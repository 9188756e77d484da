"""What people look at: heatmaps, figures with alt text, and explorers with sliders."""

from attn_core.show.costs import cost_explorer
from attn_core.show.curves import interval_curves
from attn_core.show.explorers import Explorer, head_explorer, qkv_explorer, scale_explorer
from attn_core.show.figures import head_grid, heatmap, new_figure, panel_figure, save
from attn_core.show.panels import Panel, bar_panel, line_panel, matrix_panel
from attn_core.show.positions import position_explorer
from attn_core.show.trained import map_wall, trained_explorer
from attn_core.show.view import AttentionView

__all__ = [
    "AttentionView",
    "Explorer",
    "Panel",
    "bar_panel",
    "cost_explorer",
    "head_explorer",
    "head_grid",
    "heatmap",
    "interval_curves",
    "line_panel",
    "map_wall",
    "matrix_panel",
    "new_figure",
    "panel_figure",
    "position_explorer",
    "qkv_explorer",
    "save",
    "scale_explorer",
    "trained_explorer",
]
