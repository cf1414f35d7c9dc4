"""Usage and receipts."""
