"""The agent, the process on a node: reads each source at its ticks, spools the rows, delivers them, and reports on
itself.

Owns:      settings, ticks, which sources to read, which privileges are missing at the start, /metrics, the loop, and
           the worker for jobs, if the settings ask for it (`running_jobs`).
Owns not:  how a source is read (its own package), the spool, delivery and the wire format (ingest).
Words:     a *source* is read once in each *interval*; a *tick* is a whole multiple of its interval since 1970 in UTC,
           the same on all nodes, and the timestamp of the rows it gives; a tick is *late* if it began noticeably after
           its time, and *missed* if the cycle before was not over.
"""
