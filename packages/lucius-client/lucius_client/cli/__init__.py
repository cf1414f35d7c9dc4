"""The `lucius` command. It needs the extra `cli`; nothing outside this package does."""
