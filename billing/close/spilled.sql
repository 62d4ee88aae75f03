-- One row: the part of a usable sample that lies in the hour before the one it ends in.
-- Units:   ms relative to the start of that hour; rate = utilization x 1e9.
-- Traps:   only the first sample of a stream's hour can begin in the hour before, and no earlier than that hour's last.
CREATE TABLE {spilled:Identifier} ENGINE = Memory AS
SELECT
    this.stream AS stream,
    this.before AS hour,
    first_at + 3600000 AS at,
    greatest(at - first_length, earlier.last_at) AS since,
    first_rate AS rate
FROM (SELECT stream, hour, last_at FROM {reported:Identifier}) AS earlier
ANY RIGHT JOIN
(
    SELECT stream, hour - 1 AS before, first_at, first_length, first_rate
    FROM {reported:Identifier}
    WHERE first_at < first_length AND first_rate >= 0
) AS this ON earlier.stream = this.stream AND earlier.hour = this.before
WHERE since < 3600000
