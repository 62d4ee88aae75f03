-- Claims of disputes (billing.close.unsettled).   again: the next close decides them; else it does not look at them, although
-- they have no end.
CREATE TABLE {unsettled:Identifier} (claim UInt64, again Bool) ENGINE = Memory
