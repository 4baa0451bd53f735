from __future__ import annotations

import gc

from cronflow.bootstrap.garbage_collection import rare_garbage_collection


def test_garbage_is_searched_rarely_and_afterwards_as_before() -> None:
    before = gc.get_threshold()
    with rare_garbage_collection(1_234):
        assert gc.get_threshold() == (1_234, *before[1:])
    assert gc.get_threshold() == before
