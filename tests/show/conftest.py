"""Node.js, to compare what the scripts compute with what Python does."""

import json
import shutil
import subprocess

import pytest

from attn_core.show.scripts import LIVE, OFFLINE, joined


@pytest.fixture(scope="session")
def javascript(tmp_path_factory):
    """Calls a function of the scripts in Node for many lists of arguments at once; an error becomes {"error": text}."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no Node.js here to run the scripts; the tests of the pages run them in a browser")
    program = tmp_path_factory.mktemp("javascript") / "call.mjs"

    def call(function: str, calls: list[list]) -> list:
        question = json.dumps(calls)
        program.write_text(
            f"""
            import {{ readFileSync }} from "node:fs";
            {joined([*LIVE, *OFFLINE])}
            const lists = (key, value) => (ArrayBuffer.isView(value) ? [...value] : value);
            const answers = JSON.parse(readFileSync(0, "utf8")).map((values) => {{
              try {{
                return {function}(...values);
              }} catch (error) {{
                return {{ error: error.message }};
              }}
            }});
            console.log(JSON.stringify(answers, lists));
            """,
            encoding="utf-8",
        )
        answer = subprocess.run([node, program], input=question.encode(), capture_output=True, check=True)
        return json.loads(answer.stdout)

    return call
