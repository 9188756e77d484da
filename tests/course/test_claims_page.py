"""The page of claims shows what the ledger says."""

from pathlib import Path

from attn_core.course.__main__ import main

PAGE = Path(__file__).parents[2] / "docs" / "claims.md"


def test_the_page_of_claims_is_what_make_claims_writes(tmp_path):
    assert main(["claims", "--page", str(tmp_path / "claims.md")]) == 0
    assert (tmp_path / "claims.md").read_bytes() == PAGE.read_bytes()
