-- One row: how often an entry stands in the audit.   Params:  at; actor, action, object, reason, inputs.
SELECT count() AS entries
FROM audit
WHERE at = {at:DateTime64(3, 'UTC')} AND actor = {actor:String} AND action = {action:String}
    AND object = {object:String} AND reason = {reason:String} AND inputs = {inputs:String}
