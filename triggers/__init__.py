"""The triggers of the functions, one blueprint per noun: parse, call one operation, respond."""
