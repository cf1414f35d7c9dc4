"""The sweeper: finishes interrupted work, clears ended jobs, counts work in progress."""
