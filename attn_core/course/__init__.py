"""What a class needs around the notebooks."""

from attn_core.course.claims import claim_table, show_claims
from attn_core.course.setup import print_version_differences, versions_unlike_lock

__all__ = ["claim_table", "print_version_differences", "show_claims", "versions_unlike_lock"]
