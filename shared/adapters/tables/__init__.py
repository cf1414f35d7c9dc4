"""Azure Tables: the ledger, the index and the rejected messages, over one client."""
