"""The live scheduler: a thin loop around the same decisions, with a log, an HTTP API and executors.

Owns not:  decisions (scheduler.cycle), the log's format and the meaning of its entries (scheduler.records).
Words:     an *executor* starts and stops jobs somewhere; it may get the same order twice, and carries it out once.

    service                        the loop over the log; http and client are its HTTP API
    executors                      what an executor is; agents, local: jobs on nodes with agents, or on this machine
    admission, payload             which jobs are accepted
    idle, idle_jobs, scaled_jobs   which jobs are idle, and what a job's scaling policy knows
    outbox, callbacks, posting     delivers events to the books, and notifications to a site
    ranks, history, node_tokens    a placement by names; a job's history; which agent may report for which node
"""
