-- Ends a statement that works by itself.   Params:  id: its name, as in `started`.
KILL QUERY WHERE query_id IN (SELECT query_id FROM system.backups WHERE id = {id:String}) ASYNC
