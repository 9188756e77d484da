"""The scripts of the browser: plain files that share one scope, and what they get from style.py."""

import re
from collections import Counter

from attn_core.show import style
from attn_core.show.scripts import HERE, LIVE, joined, page_script, view_script, view_style


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


def test_no_file_but_style_names_a_colour_or_a_palette():
    names = "|".join([*style.PALETTES, style.CURVES])
    for file in HERE.rglob("*.*"):
        if file.suffix in (".js", ".css", ".py") and file.name != "style.py":
            text = file.read_text(encoding="utf-8")
            assert not re.search(rf"#[0-9a-f]{{6}}\b|[\"']({names})[\"']", text), file.name


def test_what_scripts_and_sheet_ask_of_the_style_is_there_and_nothing_more():
    assert set(re.findall(r"\bSTYLE\.(\w+)", page_script())) == set(style.FOR_JAVASCRIPT)
    assert set(re.findall(r"var\(--view-([\w-]+)\)", view_style())) == set(style.FOR_CSS)
