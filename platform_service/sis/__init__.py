"""SIS: answers questions from the passages of a document, with a score and a citation for each answer."""
