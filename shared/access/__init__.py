"""Access rules: callers and their tenants, callback tokens, stream tickets, references, and webhook URLs and
signatures.
"""
