"""Statements that analysts and their tools send, over two small tables, `t` and `u` (`SETUP`), and the views."""

from __future__ import annotations

SETUP = (
    "CREATE TABLE t (a UInt64, b Nullable(Int64), c String, d DateTime('UTC'), e Array(Int64), f Float64, "
    "g Tuple(x Int64, y String), m Map(String, Int64)) ENGINE = ReplacingMergeTree ORDER BY a SAMPLE BY a",
    "CREATE TABLE u (a UInt64, c String, p Decimal(18, 4)) ENGINE = MergeTree ORDER BY a",
    "INSERT INTO t SELECT number, if(number % 3, number, NULL), ['x', 'y', 'o''brien'][number % 3 + 1], "
    "toDateTime('2026-10-01', 'UTC') + number * 3600, range(number % 4), number / 7, (number, 'g'), map('k', number) FROM numbers(20)",
    "INSERT INTO u SELECT number * 2, ['x', 'y'][number % 2 + 1], number / 4 FROM numbers(12)",
)
HONEST = (
    *r"""
SELECT 1
select a, b as c2, -1, - 1, -a, not a = b, a or b and not a, b is null, b is not null, a between 1 and 2, a > 3 ? b : 7 from t
SELECT case when a > 3 then 1 else 2 end, case a when 1 then 2 end, CASE WHEN a > 2 THEN 'x' WHEN b > 1 THEN 'y' END AS e2 FROM t
SELECT a::String, cast(a as String), CAST(a, 'String'), '2026-10-01'::Date, -1::Int8, [1,2]::Array(UInt8), (a)::Int32 FROM t
SELECT a::Nullable(Decimal(18, 4)), cast(e as Array(Int32)), d::DateTime64(3, 'UTC'), 'a'::Enum8('a' = 1, 'b' = -2) FROM t
SELECT cast((1, 'x') as Tuple(a UInt8, b LowCardinality(String))), cast('x' as FixedString(3)) FROM t
SELECT a::int, a::BIGINT, a::float, a::double, c::text, c::varchar(10), a::bool FROM t
SELECT d + interval 1 day, d - interval '2 hour', d + interval '1' week, d + interval (a+1) hour, d + INTERVAL a MINUTE FROM t
SELECT date '2026-10-01', timestamp '2026-10-01 00:00:00', extract(day from d), EXTRACT(YEAR FROM d), extract(c, 'x') FROM t
SELECT trim(both 'x' from c), trim(leading 'x' FROM c), trim(c), ltrim(c), substring(c from 1 for 2), substring(c, 1, 2), position('a' in c), position(c, 'a') FROM t
SELECT * except (a), * except a from t
SELECT * except ('^[ab]$') from t
SELECT * replace (a + 1 as a), * apply(toString) from t
SELECT * REPLACE STRICT a + 1 AS a FROM u
SELECT * apply toString from u
SELECT * apply(x -> toString(x)) from u
SELECT * APPLY x -> concat(toString(x), '!') APPLY length FROM u
SELECT columns('^[ab]$') except b, t.*, columns(a, b) apply max from t group by all
SELECT COLUMNS('a') APPLY(quantile(0.5)) FROM t
SELECT t.* EXCEPT (g, m) FROM t
SELECT sum(a) over (partition by c order by a rows between unbounded preceding and current row) from t order by a
SELECT sum(a) over w, lagInFrame(a, 1) over w, row_number() over () from t window w as (partition by c order by a) order by a
SELECT sum(a) OVER (w ROWS 1 PRECEDING) FROM t WINDOW w AS (ORDER BY a), v AS () ORDER BY a
SELECT max(a) OVER (ORDER BY a RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING) FROM t ORDER BY a
SELECT any(b) respect nulls, first_value(b) ignore nulls, sum(a) filter(where a > 2), count() filter (where b is null) from t
SELECT any(b) RESPECT NULLS OVER (ORDER BY a) FROM t ORDER BY a
SELECT a FROM t AS x FINAL SAMPLE 1/10 OFFSET 1/2
SELECT count() FROM t SAMPLE 0.5
SELECT a, k FROM t ARRAY JOIN e AS k, e AS l ORDER BY a, k
SELECT a, k FROM t LEFT ARRAY JOIN e AS k ORDER BY a, k
SELECT count() FROM t PREWHERE a > 2 WHERE b > 3
SELECT c, count() AS n FROM t GROUP BY c WITH TOTALS HAVING n > 1 ORDER BY c
SELECT a, rank() OVER (ORDER BY a) AS r FROM t QUALIFY r < 3 ORDER BY a
SELECT a FROM t ORDER BY b DESC NULLS FIRST, a ASC
SELECT a, c FROM t ORDER BY c COLLATE 'en', a DESCENDING
SELECT a * 3 AS n FROM t ORDER BY n WITH FILL FROM 0 TO 30 STEP 1
SELECT a * 3 AS n, a AS s FROM t ORDER BY n WITH FILL INTERPOLATE (s AS s + 1)
SELECT a FROM t ORDER BY a LIMIT 1 BY c LIMIT 3
SELECT a FROM t ORDER BY a LIMIT 1, 2
SELECT a FROM t ORDER BY a LIMIT 2 OFFSET 1
SELECT c FROM t ORDER BY c LIMIT 5 WITH TIES
SELECT a FROM t ORDER BY a LIMIT 1, 2 BY c LIMIT 3
SELECT a FROM t ORDER BY a OFFSET 1 ROW FETCH FIRST 3 ROWS ONLY
SELECT c FROM t ORDER BY c FETCH NEXT 5 ROWS WITH TIES
SELECT TOP 3 a FROM t ORDER BY a
SELECT c, count() FROM t GROUP BY ROLLUP(c) ORDER BY c
SELECT c, a % 2 AS h, count() FROM t GROUP BY c, h WITH ROLLUP WITH TOTALS ORDER BY c, h
SELECT c, a % 2 AS h, count(), grouping(c) FROM t GROUP BY GROUPING SETS ((c), (c, h), ()) ORDER BY c, h
SELECT c, a % 2 AS h, count() FROM t GROUP BY CUBE(c, h) ORDER BY ALL
SELECT c, count() FROM t GROUP BY ALL ORDER BY ALL DESC
WITH 1 AS x, y AS (SELECT 2 AS z), (p, q) -> p + q AS f SELECT f(x, z) FROM y
WITH x -> x * 2 AS double SELECT double(a), arrayMap(double, e) FROM t
WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT sum(n) FROM r
WITH (SELECT max(a) FROM t) AS top SELECT a FROM t WHERE a = top
WITH multiIf(1, 2, 3) AS x SELECT x
WITH toDate('2026-10-01') AS day, t.a AS k SELECT day, k FROM t
WITH a1 AS (SELECT multiIf(1, 2, 3) AS x), b1 AS (SELECT k.x FROM a1 AS k) SELECT * FROM b1
WITH a1 AS MATERIALIZED (SELECT 1 AS x) SELECT * FROM a1
WITH a1 (x, y) AS (SELECT 1, 2) SELECT y FROM a1
WITH x AS (WITH y AS (SELECT 1 AS k) SELECT k FROM y) SELECT * FROM x
SELECT 1 UNION ALL SELECT 2 UNION DISTINCT SELECT 3
SELECT 1 EXCEPT SELECT 2 INTERSECT SELECT 3
(SELECT 1) UNION ALL (SELECT 2 LIMIT 1)
SELECT 1 UNION ALL (SELECT 2 UNION ALL SELECT 3)
SELECT count() FROM ((SELECT a FROM t) UNION ALL (SELECT a FROM u))
SELECT t.a, p FROM t JOIN u USING a ORDER BY a
SELECT t.a, u.p FROM t LEFT JOIN u ON t.a = u.a ORDER BY a
SELECT t.a FROM t GLOBAL ANY LEFT JOIN u USING (a) ORDER BY a
SELECT t.a FROM t LEFT ANY JOIN u USING (a, c) ORDER BY a
SELECT t.a, p FROM t ASOF JOIN u ON t.c = u.c AND t.a >= u.a ORDER BY a
SELECT t.a, p FROM t ASOF LEFT JOIN u USING (c, a) ORDER BY a
SELECT count() FROM t, u
SELECT count() FROM t CROSS JOIN u
SELECT count() FROM t LEFT SEMI JOIN u ON t.a = u.a
SELECT count() FROM t LEFT ANTI JOIN u USING a
SELECT count() FROM t FULL OUTER JOIN u ON t.a = u.a
SELECT count() FROM (SELECT a FROM t) PASTE JOIN (SELECT a AS z FROM u)
SELECT a IN (1), a IN (1, 2), a IN (SELECT a FROM u), a NOT IN (1, 2), a GLOBAL IN (SELECT a FROM u), (a, c) IN ((0, 'x'), (1, 'y')), a IN [1, 2] FROM t
SELECT toUInt64(2) IN w FROM (SELECT [1, 2] AS w)
SELECT a FROM t WHERE (a, c) IN (SELECT a, c FROM u) AND c GLOBAL NOT IN (SELECT 'z') ORDER BY a
SELECT c LIKE 'x%', c ILIKE 'X', c NOT LIKE 'y', c NOT ILIKE 'Y', a == 1, a <> 1, a != 1, c || c || 'z', a div 2, a mod 3, a % 2, b <=> 1 FROM t
SELECT b is distinct from 1, b is not distinct from 2, c regexp 'x', a = 1 is true FROM t
SELECT {p:String}, {n:UInt8} + 1, {l:Array(UInt8)}
SELECT 0x1F, 1e5, 1.5, 5., inf, nan, -inf, NULL, true, False, 18446744073709551616, 1.0, 1_000, 0b11
SELECT 'a\'b''c\n\\', 'Zürich 学术', $$it's$$, '', '\x41\t', 'a -- b /* c */ ; d'
SELECT EXISTS (SELECT 1), (SELECT 1), a = ANY (SELECT a FROM u), a > ALL (SELECT 1), NOT EXISTS (SELECT 1 WHERE 0) FROM t
FROM t SELECT max(a)
SELECT DISTINCT c FROM t ORDER BY c
SELECT DISTINCT ON (c) c, 1 FROM t ORDER BY c
SELECT date_add(day, 1, d), date_add(t.d, interval 1 day), date_diff('day', d, d), dateDiff(hour, d, d), toStartOfInterval(d, interval 1 hour), timestampadd(minute, 5, d) FROM t
SELECT if(a > 1, 1, 2), multiIf(a > 1, 1, a > 2, 2, 3), and(a, b, 1), or(a, b), not(a), xor(a, 1), plus(a, 1), tupleElement(g, 'x'), isNull(b), negate(a) FROM t
SELECT count(distinct c), count(*), count(), sum(distinct a), quantile(0.5)(a), quantilesIf(0.5, 0.9)(a, a > 2), sumOrNullIf(a, a > 2), uniqExactArray(e) FROM t
SELECT arrayMap((x, y) -> x + y, e, e), arrayMap(x -> x, e), arrayFilter(x -> x in (1, 2), e), arraySort((x) -> -x, e), arraySum(e), arrayCount(x -> x > 1, e) FROM t
SELECT arrayReduce('sum', e), arrayReduce('quantile(0.5)', e), arrayFold((acc, x) -> acc + x, e, toInt64(0)) FROM t
SELECT g.x, g.y, g.1, (g).2, e[1], m['k'], [1, 2][1], (1, 'x').2, tuple(1, 2).1, t.g.x FROM t
SELECT count() FROM numbers(10) AS n, (SELECT 1) AS x
SELECT * FROM values('a Int8, b String', (1, 'x'), (2, 'y'))
SELECT count() FROM (VALUES (1, 2), (3, 4))
SELECT 1 AS `a b`, 2 AS "c d", t.`a`, "t"."c" FROM t
SELECT toStartOfInterval(d, INTERVAL 1 HOUR) AS h, sum(a) AS s FROM t GROUP BY h, t.c AS z ORDER BY h, s LIMIT 10 FORMAT JSONEachRow
SELECT now() - interval 1 day < now(), today() - 7 < today(), formatDateTime(d, '%Y-%m', 'UTC'), lower(c), splitByChar(',', c), JSONExtractString('{"a":"b"}', 'a') FROM t
SELECT a > 1 ? b : 1, not a, not (a), - (a), 1 - -1, a - 1, a-1, a -1 FROM t
SELECT a and b and 1 or 0 or a, a + a * 2 - a / 3, (a + a) * 2, not a in (1), not b is null, a < 3 = 1 FROM t
SELECT any(c) AS c1, groupArray(10)(a) AS xs, topK(3)(c), argMax(c, a), sumIf(a, b > 1 and c = 'x'), countIf(a > 1), uniq(a, c) FROM t
SELECT a FROM t WHERE c = 'x' AND NOT (a IN (1, 2)) AND b IS NOT NULL ORDER BY a
SELECT 1 ; ;
SELECT version(), timezone(), currentDatabase()
SELECT toTypeName(a), toColumnTypeName(a) FROM t LIMIT 1
SELECT throwIf(a > 100, 'too many') FROM t
SELECT x.a FROM (SELECT a FROM t) AS x WHERE x.a > 3 ORDER BY x.a
SELECT (a AS k) + k, k FROM t ORDER BY k
SELECT (1, ), tuple(), [], [[1], []], (1, (2, 3)) FROM t
SELECT interval, format, date, first FROM (SELECT 1 AS interval, 2 AS format, 3 AS date, 4 AS first)
SELECT left(c, 1), right(c, 1), replace(c, 'x', 'y'), format('{}-{}', c, c), any(c), in(a, (1, 2)) FROM t GROUP BY c, a
EXPLAIN SELECT a FROM t
EXPLAIN PIPELINE header = 1 SELECT a FROM t
EXPLAIN SYNTAX SELECT a FROM t
EXPLAIN indexes = 1, actions = 1 SELECT a FROM t WHERE a = 3
EXPLAIN QUERY TREE SELECT a FROM t
DESCRIBE TABLE t
DESC t
DESCRIBE (SELECT a FROM t)
DESCRIBE numbers(3)
EXISTS TABLE t
EXISTS t
SHOW CREATE TABLE t
SHOW COLUMNS FROM t LIKE 'a%'
SHOW FULL COLUMNS FROM t
""".strip().split("\n"),
    "SELECT a /* one ' */, -- two `\n c /* three */ FROM t ORDER BY a;",
)
PARAMS = {"p": "o'brien", "n": "4", "l": "[1,2]"}
CLIENTS = (
    "SELECT version(), timezone()",
    "SELECT name, value, readonly as readonly FROM system.settings LIMIT 10000",
    "SELECT name, value, readonly FROM system.settings",
    "SELECT displayName(), version(), revision(), timezone()",
    "SELECT displayName(), version(), timezone()",
    "SELECT value FROM system.settings WHERE name = 'max_threads'",
    "SELECT 1 FORMAT Native",
    "SELECT currentUser()",
    "SELECT currentDatabase()",
    "SHOW DATABASES",
    "SHOW TABLES",
    "SHOW TABLES FROM gpuledger LIKE 'v_%'",
    "SHOW FULL TABLES FROM gpuledger",
    "DESCRIBE TABLE `gpuledger`.`v_charges`",
    "SELECT name FROM system.databases ORDER BY name",
    "SELECT name, engine, comment FROM system.tables WHERE database = 'gpuledger' ORDER BY name",
    "SELECT name, type, comment FROM system.columns WHERE database = 'gpuledger' AND table = 'v_charges'",
    "SELECT t.name AS name, count() FROM system.tables AS t JOIN system.columns AS c ON t.name = c.table GROUP BY name",
    "SELECT * FROM information_schema.tables LIMIT 3",
    "SELECT table_name FROM INFORMATION_SCHEMA.TABLES WHERE table_schema = 'gpuledger'",
    "SELECT name, is_aggregate FROM system.functions",
    "SELECT name FROM system.data_type_families",
    "SELECT number FROM schema_migrations",
)
"""What clickhouse-connect, clickhouse-go, Grafana's data source and our own commands ask about the schema."""
