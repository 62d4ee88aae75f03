"""Simulates the jobs in a store's books: what more, fewer or shared GPUs would have changed for them.

workload  a group of devices and its jobs, as plain data
reading   reads workloads from a store
what_if   schedules a workload's jobs again, on other devices
apart     the same in a subprocess, with a time limit
"""
