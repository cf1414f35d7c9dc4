"""Every durable name, in one place: histories on disk refer to them, so they never change, new ones are added."""

#: the orchestration of one job; its instance id is the job's id
JOB = "job"

#: the orchestration of one step of a parallel group; its instance id is `{job's instance id}.s{step index}`
STEP = "step"

#: activities
DISPATCH = "dispatch"
SETTLE = "settle"
