"""What a browser gets: the scripts, plain files joined in a written order to one script, and the
style sheet.

The files of a package cannot import one another in JupyterLab, nor can those of a page that is
opened from a file.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from attn_core.show.style import FOR_CSS, FOR_JAVASCRIPT

HERE = Path(__file__).parent
LIVE = (
    "live/texts.js",
    "live/colours.js",
    "live/places.js",
    "live/drawing.js",
    "live/files.js",
    "live/state.js",
    "live/table.js",
    "live/theme.js",
    "live/saving.js",
    "live/input.js",
    "live/view.js",
)
OFFLINE = (
    "offline/frames.js",
    "offline/legality.js",
    "offline/hashed.js",
    "offline/fields.js",
    "offline/page.js",
)
COMPUTED = sorted(file.relative_to(HERE).as_posix() for file in HERE.glob("explorers/*.js"))  # in any order


def joined(files: Sequence[str]) -> str:
    """These files of this folder as one script, behind what they all get from style.py."""
    parts = [(HERE / file).read_text(encoding="utf-8") for file in files]
    return "\n".join([f"const STYLE = {json.dumps(FOR_JAVASCRIPT)};\n", *parts])


def view_script() -> str:
    """The live view as the module that a widget takes."""
    return joined(LIVE) + "\nexport default { render };\n"


def view_style() -> str:
    """The style sheet of the live view, behind what it gets from style.py."""
    settings = "".join(f"  --view-{name}: {value};\n" for name, value in FOR_CSS.items())
    return f".attention-view {{\n{settings}}}\n" + (HERE / "live/view.css").read_text(encoding="utf-8")


def page_script() -> str:
    """What starts every explorer of a page without a kernel.

    Its functions that compute frames are in `attention`.
    """
    return (
        f"const attention = (() => {{\n{joined([*LIVE, *OFFLINE, *COMPUTED])}\nstartAll();\nreturn COMPUTED;\n}})();\n"
    )
