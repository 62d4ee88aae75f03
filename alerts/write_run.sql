-- Records a run of the alert engine; its transitions are seen from then on.
INSERT INTO alert_runs
(
    run, started_at, finished_at, evaluated_until, evaluations, failed, instances, transitions, rules
)
VALUES
(
    {run:UInt64}, {started_at:DateTime64(3, 'UTC')}, {finished_at:DateTime64(3, 'UTC')},
    {evaluated_until:DateTime64(3, 'UTC')}, {evaluations:UInt32}, {failed:UInt32}, {instances:UInt64},
    {transitions:UInt32}, {rules:String}
)
