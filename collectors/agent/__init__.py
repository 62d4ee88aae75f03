"""The process on a node: asks each source at its ticks, spools what it says, delivers it, and tells of itself.

Owns:      settings, ticks, which sources there are, what may be missing at the start, /metrics, the loop, and
           the worker of jobs that the settings ask for (`running_jobs`).
Owns not:  how a source is read (its own package), the spool, delivery and what travels (ingest).
Words:     a *source* is what is asked each *interval*; a *tick* is a whole multiple of its interval since 1970 in UTC,
           the same on all nodes, and the time of the rows it gives; a tick is *late* if it began noticeably after its
           time and *missed* if the cycle before was not over.
"""
