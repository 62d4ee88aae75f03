-- The parties' details in a chain, too: whoever can change the seller's bank changes where the money goes.
ALTER TABLE parties
    ADD COLUMN IF NOT EXISTS position UInt64 COMMENT 'in the chain, from 1; 0: of before it',
    ADD COLUMN IF NOT EXISTS previous String COMMENT 'digest of the row before',
    ADD COLUMN IF NOT EXISTS digest   String COMMENT 'sha256 of previous and the content (docs/billing.md)',
    MODIFY ORDER BY (sequence, position);
ALTER TABLE parties MODIFY SETTING non_replicated_deduplication_window = 1000;
