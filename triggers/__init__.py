"""The triggers of the functions, with one module for each resource. Each function parses a message or request, calls
operations and responds.
"""
