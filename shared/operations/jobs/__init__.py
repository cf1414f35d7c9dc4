"""A job from its creation to its end, its replies, lists and dead letters."""
