"""Public cluster traces as records: the recorded schedule as it was, on the machines of the trace.

Owns:      reading the files as their publishers ship them, placing the jobs of a trace that names no device.
Owns not:  the files. They are public; each module says where they come from.
Words:     *telemetry* of a replay is drawn from published distributions, since no trace holds both a schedule and
           the device telemetry of the same jobs. The samples say so in `utilization_source`.
"""
