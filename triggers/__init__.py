"""The triggers of the functions, with one blueprint for each resource. Each function parses a message or request, calls
one operation and responds.
"""
