"""Processes of jobs on this node: started once each, kept while nobody looks, stopped when nobody answers for them.

Owns:      ranks as processes (processes, keeper), what a node and a scheduler say to each other (wire), the loop that
           makes a node as its scheduler wants it (worker), who else starts processes here (launchers).
Owns not:  who runs where and when (scheduler).
Words:     a *rank* is one replica of a job, one process; an *attempt* is one run of a job; the *world* of an attempt is
           its ranks at one time, with another number after each change of size. A *keeper* is the process beside a rank
           that outlives the agent. A *lease* is how long ranks may run without the scheduler's answer.
"""
