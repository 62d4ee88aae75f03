-- Restores.   $what: a database or a table, and as what.   $source: the copy.   $settings: how the server does it.
RESTORE $what FROM $source SETTINGS $settings
