"""SIS: questions answered from a document's passages, each answer with its score and citation."""
