"""The quality of the reference services: made documents, scans of them, questions, and how well they are read."""
