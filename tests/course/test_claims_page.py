"""The page of claims shows what the ledger says."""

from pathlib import Path

from attn_core.course import claim_table

PAGE = Path(__file__).parents[2] / "docs" / "claims.md"


def test_the_page_of_claims_is_the_ledger():
    assert PAGE.read_text(encoding="utf-8").rstrip("\n").endswith(claim_table(markdown=True))
