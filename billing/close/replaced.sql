-- Takes out the rows that reported_anew.sql has replaced.
ALTER TABLE {reported:Identifier}
DELETE WHERE NOT is_anew AND (NOT adds_up OR hour IN {incomplete:Array(UInt32)})
