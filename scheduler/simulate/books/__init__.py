"""The simulator on what the books have: what more, fewer or shared GPUs would have changed for the jobs that ran.

workload  a group of devices and its jobs, as plain data
reading   workloads of a store
what_if   the jobs through the scheduler again, on other devices
apart     the same in a process of its own, bounded in time
"""
