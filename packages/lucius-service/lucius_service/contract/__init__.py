"""The contract kit: plays LUCIUS to a running service in any language, and reports what it keeps of the contract."""
