-- Adds a backup to a catalog.   Params:  name: the backup's.   manifest: what it says, as JSON.
INSERT INTO $catalog (name, manifest) SELECT {name:String}, {manifest:String}
