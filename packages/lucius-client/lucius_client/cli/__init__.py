"""The `lucius` command, which needs the extra `cli`."""
