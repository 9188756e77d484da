"""`python -m attn_core.course claims`: every claim of the document, what we measure, and the verdict."""

import argparse
import sys
from pathlib import Path

from attn_core._files import replacing
from attn_core.course.claims import RESULTS, claim_rows, claims, format_rows

PAGE_HEAD = """# What the article claims, and what we measured

Made by `make claims`; a test keeps the two together.

"""


def main(arguments: list[str] | None = None, folder: Path = RESULTS) -> int:
    """Print the table. Returns 1 where a result is missing or a verdict is not that of the ledger, else 0; exits with 2
    and a sentence on misuse."""
    parser = argparse.ArgumentParser(prog="python -m attn_core.course", description="What a class needs.")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    command = commands.add_parser("claims", help="the claims of the document, computed (some seconds)")
    command.add_argument("ids", nargs="*", metavar="ID", help="the claims to show (default: all)")
    command.add_argument("--markdown", action="store_true", help="as a table in Markdown, with the reasons")
    command.add_argument("--page", type=Path, metavar="FILE", help="write all of them to this page, as docs/claims.md")
    asked = parser.parse_args(arguments)
    try:
        claims(asked.ids or None)
    except ValueError as error:
        parser.error(str(error))
    if asked.page and asked.ids:
        parser.error("a page holds all claims: name none")
    rows = claim_rows(asked.ids or None, folder)
    if asked.page:
        with replacing(asked.page) as part:
            part.write_text(PAGE_HEAD + format_rows(rows, markdown=True) + "\n", encoding="utf-8", newline="\n")
    else:
        print(format_rows(rows, asked.markdown))
    expected = {claim["id"]: claim["verdict"] for claim in claims()}
    return 0 if all(row["verdict"] == expected[row["id"]] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
