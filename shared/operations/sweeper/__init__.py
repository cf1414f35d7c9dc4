"""The sweeper: finishes what was left half done, clears what is over, counts what is under way."""
