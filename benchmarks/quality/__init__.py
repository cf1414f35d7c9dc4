"""Measures the quality of the reference services with generated documents, their scans, and questions."""
