"""OCR: PDFs and images to text."""
