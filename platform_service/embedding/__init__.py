"""EMBEDDING: text to passages with vectors."""
