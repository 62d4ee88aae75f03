"""The reference scheduler's jobs as pods: an executor that owns them, and the loop that follows ElasticJobs.

Owns:      what an ElasticJob asks of the scheduler, the pods of its ranks, its status and events.
Owns not:  decisions (scheduler.cycle), the log (scheduler.records), how the API is talked to (collectors.kubernetes).
Words:     a *world* is one placement of a job, as in scheduler.live; a pod is one rank of one world.

    elastic_jobs    converts an ElasticJob into a job of the scheduler
    pods            converts a rank into a pod, and reads a rank's state from its pod
    executor        which pods are to be created or deleted, and how attempts end
    status          the status and events of an ElasticJob
    operator        the reconciliation loop
    cluster         the Kubernetes API: watches in the background, calls in the foreground

See docs/operator.md.
"""
