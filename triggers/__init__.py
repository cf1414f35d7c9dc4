"""The triggers of the functions, one blueprint per noun. Each function parses a message or request, calls one operation
and responds.
"""
