"""The overview of a deployment: counts per minute, and a sentence for each problem."""
