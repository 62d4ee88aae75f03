-- One row: whether the reader sees all tenants.
SELECT yes FROM sees_all
