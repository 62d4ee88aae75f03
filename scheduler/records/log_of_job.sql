-- A condition on entries: what happened to the job ?1, plans that concern it included.
(job_id = ?1 AND job_id != '') OR sequence IN (SELECT sequence FROM jobs_of_plan WHERE job_id = ?1)
