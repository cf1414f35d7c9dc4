"""OCR: converts PDFs and images to text."""
