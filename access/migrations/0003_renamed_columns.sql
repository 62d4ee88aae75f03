-- Statements that people saved name columns of the warehouse, and these got other names with the first release
-- (warehouse/upgrades/0030.sql). All places of a statement change alike, so that it asks what it asked before.
UPDATE saved_queries SET text = replace(text, 'told_tenant', 'reported_tenant');
UPDATE saved_queries SET text = replace(text, 'told_project', 'reported_project');
UPDATE saved_queries SET text = replace(text, 'told_events', 'visible_events');
UPDATE saved_queries SET text = replace(text, 'quiet_since', 'keep_firing_since');
UPDATE saved_queries SET text = replace(text, 'is_said_anew', 'is_renewed');
-- Where it can be the column: a statement without the table's name means something else.
UPDATE saved_queries SET text = replace(text, 'told_at', 'reported_at') WHERE replace(text, 'waiters', '') <> text;
UPDATE saved_queries SET text = replace(text, 'together', 'utilization_sum') WHERE replace(text, 'interference', '') <> text;
