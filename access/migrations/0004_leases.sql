-- One row: work that one server at a time does (access/leader.py). Clocks of servers differ, so that none of them is compared:
-- a server takes over once it has seen the same `renewals` for as long as a lease lasts. renewed_at is for people alone.
CREATE TABLE leases
(
    name       TEXT   NOT NULL PRIMARY KEY,
    holder     TEXT   NOT NULL, -- random, of a process; '': nobody, who asks first gets it
    who        TEXT   NOT NULL, -- that process, for people
    renewals   BIGINT NOT NULL, -- goes up with every renewal and every takeover
    renewed_at BIGINT NOT NULL  -- microseconds since 1970, by the holder's clock
);
INSERT INTO leases (name, holder, who, renewals, renewed_at) VALUES ('background work', '', '', 0, 0);
