"""Jobs from creation to end: replies, lists and dead letters."""
