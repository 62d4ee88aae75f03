-- Writes a revision of a silence; the last one is in force.   Params:  matchers: JSON.
INSERT INTO alert_silences (id, revision, matchers, starts_at, ends_at, author, reason, created_at)
VALUES
(
    {id:String}, {revision:UInt32}, {matchers:String}, {starts_at:DateTime64(3, 'UTC')}, {ends_at:DateTime64(3, 'UTC')},
    {author:String}, {reason:String}, {now:DateTime64(3, 'UTC')}
)
