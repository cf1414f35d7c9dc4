"""What is deployed: which files, with which packages, of which durable backend; built and started as Azure does."""
