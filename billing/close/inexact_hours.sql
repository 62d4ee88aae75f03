-- One row: an hour in which the sums of some streams are not exact.   is_most: those of most streams.
SELECT hour, 2 * countIf(NOT adds_up) > count() AS is_most
FROM {reported:Identifier}
GROUP BY hour
HAVING NOT min(adds_up)
