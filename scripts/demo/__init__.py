"""`make demo`: the whole system with real documents."""
