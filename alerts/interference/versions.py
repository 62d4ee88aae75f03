"""Versions of workloads: a new image, model or driver starts a new baseline."""

from __future__ import annotations

from datetime import datetime

from warehouse.store import Store


def declare_version(
    store: Store, identity: str, version: str, since: datetime, author: str = "", cluster: str = ""
) -> None:
    """From `since` on, the identity (empty: everything) runs the version; saying it again changes nothing.

    Windows of `since` and later are compared with each other alone, until a version that was there before comes back.
    Windows that are measured already keep theirs: measure again from `since` on.
    """
    import pyarrow as pa

    store.insert(
        "interference_versions",
        pa.table(
            {
                "cluster": pa.array([cluster], pa.string()),
                "identity": pa.array([identity], pa.string()),
                "since": pa.array([since], pa.timestamp("ms", "UTC")),
                "version": pa.array([version], pa.string()),
                "author": pa.array([author], pa.string()),
            }
        ),
    )
