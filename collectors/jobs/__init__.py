"""Runs the scheduler's jobs as processes on this node: each starts once, survives a restart of the agent, and is
stopped if the scheduler does not answer for too long.

Owns:      ranks as processes (processes, keeper), the protocol between a node and its scheduler (wire), the loop that
           makes a node match what its scheduler wants (worker), other software that starts processes here (launchers).
Owns not:  which job runs where and when (scheduler).
Words:     a *rank* is one replica of a job, one process; an *attempt* is one run of a job; the *world* of an attempt is
           the set of its ranks at one time, with a new number after each change of size. A *keeper* is the process
           beside
           a rank that outlives the agent. A *lease* is how long ranks may run without an answer of the scheduler.
"""
