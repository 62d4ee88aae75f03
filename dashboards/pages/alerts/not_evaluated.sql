-- One row: a span [span_start, span_end) of the period in which no alert rule was evaluated: before the first run, after the
-- last, or between two that lie further apart than a run looks back.
-- Parameters: start, end DateTime64(3) (UTC); catch_up_seconds UInt32: how far back a run looks
WITH
    (SELECT groupUniqArray(evaluated_until) FROM alert_runs WHERE evaluations > 0) AS instants,
    arraySort(instants) AS until,
    arrayMap(one -> one - toIntervalSecond({catch_up_seconds:UInt32}), arrayPopFront(until)) AS looked_back_to,
    arrayConcat(
        [({start:DateTime64(3,'UTC')}, until[1])],
        arrayZip(arrayPopBack(until), looked_back_to),
        [(until[-1], {end:DateTime64(3,'UTC')})]
    ) AS spans
SELECT
    greatest(span.1, {start:DateTime64(3,'UTC')}) AS span_start,
    least(span.2, {end:DateTime64(3,'UTC')}) AS span_end
FROM (SELECT arrayJoin(spans) AS span)
WHERE notEmpty(until) AND span_start < span_end
ORDER BY span_start
