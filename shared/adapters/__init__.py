"""The ports' implementations over Azure's SDKs, and in memory."""
