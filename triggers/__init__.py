"""The functions that the world triggers, one blueprint a noun: parse, call one operation, answer."""
