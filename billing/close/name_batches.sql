-- Names what a close reads beside what the one read that it follows.
INSERT INTO close_batches (run, follows, batches)
SELECT {run:UInt64}, {follows:UInt64}, groupArray(batch)
FROM {fresh:Identifier}
