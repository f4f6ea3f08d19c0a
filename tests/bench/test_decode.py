"""A step of a decoder writes one token to a cache that is given away, and no more."""

from __future__ import annotations

import numpy as np
from bench.decode import bytes_written, decoder, donated, feeds

import intaglio

LAYERS, WIDTH, HEADS, PLACES = 2, 64, 2, 32


def test_a_step_writes_one_token() -> None:
    graph, caches = decoder(LAYERS, WIDTH, HEADS, PLACES), donated(LAYERS)
    model, plain = intaglio.load(graph, donate=caches), intaglio.load(graph)
    token = 2 * LAYERS * WIDTH * 4
    assert bytes_written(model, caches) == token
    assert bytes_written(plain, caches) == token * (1 + PLACES)
    for past in (3, 4, 30):
        given = feeds(model, past)
        before = {name: given[name].copy() for name in caches}
        wanted = plain.run({name: array.copy() for name, array in given.items()})
        found = model.run(given)
        np.testing.assert_array_equal(found["y"], wanted["y"])
        for name, made in caches.items():
            assert found[made] is given[name]
            np.testing.assert_array_equal(found[made], wanted[made])
            changed = (found[made] != before[name]).any(axis=(0, 1, 3))
            assert np.flatnonzero(changed).tolist() == [past]


def test_memory_is_that_of_one_cache() -> None:
    graph, caches = decoder(LAYERS, WIDTH, HEADS, PLACES), donated(LAYERS)
    cache = 2 * LAYERS * WIDTH * PLACES * 4
    held = [intaglio.load(graph, donate=given).memory_plan(T=8).outputs for given in (caches, None)]
    assert held == [WIDTH * 4, WIDTH * 4 + cache]
