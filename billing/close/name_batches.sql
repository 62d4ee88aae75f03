-- Records the batches that a close reads besides those read by the close that it follows.
INSERT INTO close_batches (run, follows, batches)
SELECT {run:UInt64}, {follows:UInt64}, groupArray(batch)
FROM {fresh:Identifier}
