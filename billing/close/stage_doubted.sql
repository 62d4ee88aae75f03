-- Streams and hours whose samples must be read; usually few.
CREATE TABLE {doubted:Identifier}
(
    stream UInt64,
    hour   UInt32
)
ENGINE = Memory
