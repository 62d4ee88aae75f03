-- Copies tables.   $tables, $target: what, and where to.   $settings: how the server does it.   $base: the setting that
-- names the copy which has the rest; empty: all is copied.
BACKUP $tables TO $target SETTINGS $settings$base
