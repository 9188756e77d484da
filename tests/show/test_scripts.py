"""The scripts of the browser: plain files that share one scope, and what they get from style.py."""

import re
from collections import Counter

from attn_core.show import style
from attn_core.show.scripts import HERE, LIVE, joined, page_script, view_script


def test_every_script_of_the_package_is_in_the_one_of_the_pages_and_no_name_is_declared_twice():
    page = page_script()
    files = list(HERE.rglob("*.js"))
    assert len(files) > 5
    assert all(file.read_text(encoding="utf-8") in page for file in files)
    declared = re.findall(r"^(?:async )?(?:function|const|let) (\w+)", page.partition("\n")[2], re.MULTILINE)
    assert [name for name, count in Counter(declared).items() if count > 1] == []


def test_a_widget_gets_a_module_and_a_page_a_script_that_can_be_loaded_from_a_file():
    assert view_script() == joined(LIVE) + "\nexport default { render };\n"
    assert not re.search(r"^\s*(?:import|export)\b", page_script(), re.MULTILINE)


def test_the_scripts_name_no_colour_of_their_own_but_those_of_a_page_that_says_none():
    for file in HERE.rglob("*.js"):
        colours = set(re.findall(r"#[0-9a-f]{6}\b", file.read_text(encoding="utf-8")))
        assert colours <= {"#ffffff", "#111111", "#808080"}, file.name


def test_what_the_scripts_ask_of_the_style_is_there_and_nothing_more():
    asked = set(re.findall(r"\bSTYLE\.(\w+)", page_script()))
    assert asked == set(style.FOR_JAVASCRIPT)
