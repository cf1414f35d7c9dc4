"""PACK: runs of a team's own program, with limits, a live log and artifacts (docs/guides/runs.md)."""
