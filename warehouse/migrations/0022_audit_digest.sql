-- Two who do the same to the same thing within a millisecond are two entries of the audit: its key takes the rest of the
-- entry in. Entries of before have 0 and stay as they are.
ALTER TABLE audit
    ADD COLUMN IF NOT EXISTS digest UInt64 COMMENT 'cityHash64 of actor, reason and inputs; 0 in entries of before it',
    MODIFY ORDER BY (at, action, object, digest);
