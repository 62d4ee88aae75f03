"""A server that receives pushed metrics, with an empty store for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.collectors.receivers.pushing import SENDERS, Pushed, receiving
from tests.ingest.receiving import tokens_file
from tests.stores import emptied
from warehouse.store import Store


@pytest.fixture(scope="module")
def running(shared_store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pushed]:
    with receiving(shared_store, tokens_file(tmp_path_factory.mktemp("tokens"), SENDERS)) as pushed:
        yield pushed


@pytest.fixture
def pushed(running: Pushed) -> Pushed:
    emptied(running.store)
    running.assembler.forget()
    return running
