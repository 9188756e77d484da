"""What makes explorers work on pages without a kernel."""
