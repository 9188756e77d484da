"""`make lint` for JavaScript: the script of a page, in which all files are joined, since they use one another."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from attn_core.show.scripts import page_script

CONFIG = {
    "env": {"browser": True, "es2024": True},
    "globals": {"chineseFont": "readonly"},  # of a file of its own, loaded when it is needed
    "categories": {"correctness": "error"},
    "rules": {
        "no-undef": "error",
        "eqeqeq": "error",
        "no-unused-vars": ["error", {"varsIgnorePattern": "^attention$"}],  # for tests of a page
        "no-control-regex": "off",  # Python's white space has some
    },
}


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "page.js").write_text(page_script(), encoding="utf-8")
        (Path(folder) / ".oxlintrc.json").write_text(json.dumps(CONFIG), encoding="utf-8")
        return subprocess.run([Path(sys.executable).with_name("oxlint"), "."], cwd=folder, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
