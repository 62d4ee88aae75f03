-- Notes in the audit what a sender did.   Parameters: at DateTime64(3); actor, action, object, reason, inputs String.
INSERT INTO audit (at, actor, action, object, reason, inputs, digest)
SELECT {at:DateTime64(3, 'UTC')}, {actor:String}, {action:String}, {object:String}, {reason:String}, {inputs:String},
       cityHash64({actor:String}, {reason:String}, {inputs:String})
