-- Writes the digest of their content into the rows from before the chain.   $$table, $$content (an expression).
ALTER TABLE $table UPDATE digest = lower(hex(SHA256(concat(previous, '\n', $content)))) WHERE position = 0 SETTINGS mutations_sync = 2
