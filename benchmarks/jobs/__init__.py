"""What a job costs and how long it takes: the whole app on the local stack."""
