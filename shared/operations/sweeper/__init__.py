"""The sweeper: finishes what was left half done, clears ended jobs, counts work in progress."""
