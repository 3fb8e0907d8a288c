# SPDX-License-Identifier: Apache-2.0
"""Arrays and trees of JAX."""

from __future__ import annotations

import collections

import numpy as np
import pytest

import ckptdb

from conftest import save_now

jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")

Moments = collections.namedtuple("Moments", "mean var")
Empty = collections.namedtuple("Empty", "")


def tree(scale):
    return {
        "dense": {"w": jnp.arange(6.0).reshape(2, 3) * scale, "b": jnp.ones(3) * scale},
        "moments": (Moments(jnp.full(2, scale), jnp.zeros((0, 3))), Empty(), None),
        "list": [jnp.float32(scale), jnp.bfloat16(scale), {"step": jnp.int32(scale)}],
        "half": jnp.full((3,), scale, jnp.bfloat16),
        "eighth": jnp.full((3,), scale, jnp.float8_e4m3fn),
        "flags": jnp.array([True, False]),
    }


def assert_same_tree(left, right):
    leaves, structure = jax.tree.flatten(left)
    others, other = jax.tree.flatten(right)
    assert structure == other
    for a, b in zip(leaves, others):
        assert isinstance(a, jax.Array) and isinstance(b, jax.Array)
        assert a.dtype == b.dtype and a.shape == b.shape
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def test_trees_are_restored(store):
    saved = tree(2)
    store.save({"params": saved, "step": jnp.int32(7), "top": jnp.arange(4)})
    state = {"params": tree(0), "step": jnp.int32(0), "top": jnp.zeros(4, jnp.int32)}
    store.restore(state)
    assert_same_tree(state["params"], saved)
    assert isinstance(state["step"], jax.Array) and state["step"] == 7
    assert isinstance(state["top"], jax.Array)
    assert state["top"].tolist() == [0, 1, 2, 3]


def test_trees_that_change_between_saves(path):
    state = {"params": tree(0)}
    with ckptdb.Manager(path, state, save=ckptdb.save_every_n_steps(1)) as manager:
        for step in range(1, 4):
            state["params"] = jax.tree.map(lambda leaf: leaf, tree(step))
            manager.step()
    with ckptdb.Reader(path) as reader:
        for number in range(1, 4):
            with reader.open(number) as step:
                assert_same_tree(step.read_tree("params", like=tree(0)), tree(number))


def test_read_tree_without_an_example(store):
    saved = tree(3)
    store.save({"params": saved})
    with ckptdb.Reader(store.path) as reader, reader.latest() as step:
        got = step.read_tree("params")
        assert_same_tree(got["dense"], saved["dense"])
        assert type(got["moments"]) is tuple and len(got["moments"]) == 3
        w = step.read("params.dense.w")
        np.testing.assert_array_equal(w, saved["dense"]["w"])
        like = {**tree(0), "dense": {"w": np.zeros((2, 3)), "b": jnp.zeros(3)}}
        got = step.read_tree("params", like=like)
        assert type(got["dense"]["w"]) is np.ndarray
        with pytest.raises(ckptdb.InvalidArgument, match="structure"):
            step.read_tree("params", like={**tree(0), "more": jnp.zeros(1)})
        with pytest.raises(ckptdb.InvalidArgument, match="structure"):
            step.read_tree("params", like={"dense": tree(0)["dense"]})
        shorter = {**tree(0), "list": tree(0)["list"][:2]}
        with pytest.raises(ckptdb.InvalidArgument, match=r"params\.list"):
            step.read_tree("params", like=shorter)


def test_wrong_shapes_are_named(store):
    store.save({"params": tree(1)})
    other = tree(0)
    other["dense"]["w"] = jnp.zeros((3, 2))
    with pytest.raises(ckptdb.FailedPrecondition, match='"params.dense.w"'):
        store.restore({"params": other})


def test_keys_and_complex_arrays_are_refused(path):
    state = {"key": jax.random.key(0)}
    with ckptdb.Manager(path, state, save=ckptdb.save_at_steps([])) as manager:
        with pytest.raises(ckptdb.InvalidArgument, match='"key".*key_data'):
            save_now(manager)
        state["key"] = jnp.ones(2, jnp.complex64)
        with pytest.raises(ckptdb.InvalidArgument, match='"key".*complex64'):
            save_now(manager)
        state["key"] = jax.random.key_data(jax.random.key(0))


def test_out_of_jax_is_replaced(store):
    store.save({"w": jnp.arange(3)})
    out = jnp.zeros(3, jnp.int32)
    got = store.read("w", out=out)
    assert isinstance(got, jax.Array) and got.tolist() == [0, 1, 2]
    assert out.tolist() == [0, 0, 0]
