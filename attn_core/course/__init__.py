"""What a class needs around the notebooks."""

from attn_core.course.claims import claim_table
from attn_core.course.setup import print_version_differences, versions_unlike_lock

__all__ = ["claim_table", "print_version_differences", "versions_unlike_lock"]
