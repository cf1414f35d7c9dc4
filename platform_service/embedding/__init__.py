"""EMBEDDING: splits text into passages with vectors."""
