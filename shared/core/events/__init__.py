"""Public events: the form of a transition or log entry in the feed."""
