"""Jobs from creation to terminal state: replies, lists and dead letters."""
