"""Usage, and breakdowns of time and operations."""
