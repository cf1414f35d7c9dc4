"""What a job costs: the whole app on the local stack, its operations counted."""
