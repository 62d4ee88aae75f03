"""The reference scheduler's jobs as pods: an executor that owns them, and the loop that follows ElasticJobs.

Owns:      what an ElasticJob asks of the scheduler, the pods of its ranks, its status and events; when pods that others
           made pass our scheduling gate, and where they go.
Owns not:  decisions (scheduler.cycle), the log (scheduler.records), how the API is talked to (collectors.kubernetes).
Words:     a *world* is one placement of a job, as in scheduler.live; a pod is one rank of one world.

    elastic_jobs    an ElasticJob as a job of the scheduler
    pods            a rank as a pod, and what a pod says of its rank
    executor        what pods there are to be, and what became of them
    status          what an ElasticJob's status says
    reclaims        says on pods that an idle policy takes their GPUs, for the books
    gated_pods      pods of others at our gate as a job, and what lets them in
    gates           the executor of such jobs, before that of ElasticJobs
    admission       follows such pods: submits them, tells them why they wait
    operator        the loop: what is there, what is wanted, what is done
    cluster         the API: watches in the background, calls in the foreground
    calls           what is sent to it
    inventory       which node is in which ComputePool
    virtual         how a ComputePool's devices are given away, and which nodes contradict that
    declared        ComputePools, Queues and Tenants as settings, and which of their promises can be kept
    declarations    keeps the settings to them, and tells them; what their statuses say is in declared_status
    usage           GPU-hours of a job, by the log
    election        which of several operators acts; leadership holds the Lease, standby answers while another acts

See docs/operator.md.
"""
