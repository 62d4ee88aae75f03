-- How often an entry stands in the audit.   Parameters: at DateTime64(3); actor, action, object, reason, inputs String.
SELECT count() AS entries
FROM audit
WHERE at = {at:DateTime64(3, 'UTC')} AND actor = {actor:String} AND action = {action:String}
    AND object = {object:String} AND reason = {reason:String} AND inputs = {inputs:String}
