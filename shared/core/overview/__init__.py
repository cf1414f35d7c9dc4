"""The overview of a deployment: counts by minute, and a sentence for each problem."""
