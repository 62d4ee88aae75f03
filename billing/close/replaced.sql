-- Takes out the rows that reported_anew.sql has replaced.
ALTER TABLE {reported:Identifier}
DELETE WHERE NOT is_anew AND (NOT adds_up OR hour IN {whole_hours:Array(UInt32)})
