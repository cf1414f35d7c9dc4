"""Public events: what a transition or a log entry is in the feed."""
