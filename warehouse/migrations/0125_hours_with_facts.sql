-- Whether an hour still counts as closed stands here, once, and not in each statement that asks.

ALTER TABLE closed_hours
    ADD COLUMN IF NOT EXISTS has_facts Bool ALIAS inputs != 0 OR content != 0
        COMMENT 'false: later facts have emptied it, so it is as an hour in which there never was one';

ALTER TABLE samples COMMENT COLUMN told_otherwise
    'the batch, where its rows may have keys of rows reported before; a hash of the row, where its key occurs more than once in its batch; else 0';
