-- The claims of disputes that the next close decides again (billing.close.unsettled).
CREATE TABLE {unsettled:Identifier} (claim UInt64) ENGINE = Memory
