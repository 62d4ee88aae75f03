-- Gives the rows of before the chain the digest of their content.   $$table, $$content (an expression).
ALTER TABLE $table UPDATE digest = lower(hex(SHA256(concat(previous, '\n', $content)))) WHERE position = 0 SETTINGS mutations_sync = 2
