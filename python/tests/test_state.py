# SPDX-License-Identifier: Apache-2.0
"""State of numbers, arrays, dictionaries and objects, without PyTorch."""

from __future__ import annotations

import collections
import copy
import math

import numpy as np
import pytest

import ckptdb

from conftest import save_now

DTYPES = [
    "float64", "float32", "float16", "int64", "int32", "int16", "int8",
    "uint64", "uint32", "uint16", "uint8", "bool",
]  # fmt: skip


def random_array(dtype: str, shape, seed: int = 1):
    """An array of any bytes, such as NaN with payloads."""
    generator = np.random.default_rng(seed)
    if dtype == "bool":
        return generator.integers(0, 2, shape).astype(bool)
    count = math.prod(shape) * np.dtype(dtype).itemsize
    return generator.integers(0, 256, count, np.uint8).view(dtype).reshape(shape)


def round_trip(store, value, live):
    """Saves a value, and restores it where `live` was."""
    store.save({"value": value})
    state = {"value": live}
    store.restore(state)
    return state["value"]


class Loader:
    """An object with state_dict and load_state_dict."""

    def __init__(self, **values) -> None:
        self.values = values
        self.fails = False

    def state_dict(self):
        return self.values

    def load_state_dict(self, values) -> None:
        if self.fails:
            raise ValueError("the loader refuses its state")
        self.values = dict(values)


class PerRank:
    def __init__(self, data: bytes) -> None:
        self.data = data

    def io_state(self) -> bytes:
        return self.data

    def load_io_state(self, data: bytes) -> None:
        self.data = data


# Arrays


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_keep_their_bytes(store, dtype):
    shapes = [(), (1,), (7,), (3, 5), (0,), (4, 0, 2)]
    arrays = {f"a{i}": random_array(dtype, shape) for i, shape in enumerate(shapes)}
    store.save(arrays)
    state = {name: np.zeros(array.shape, dtype) for name, array in arrays.items()}
    live = dict(state)
    store.restore(state)
    with ckptdb.Reader(store.path) as reader, reader.latest() as step:
        for name, array in arrays.items():
            assert state[name] is live[name], "an array is restored in place"
            for got in (live[name], step.read(name)):
                assert (got.dtype, got.shape) == (array.dtype, array.shape)
                assert got.tobytes() == array.tobytes(), array.shape


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a[:, ::2],
        lambda a: a.T,
        lambda a: a[::-1],
        lambda a: a[1:, 1:],
        lambda a: np.broadcast_to(a[0], a.shape),
    ],
)
def test_views_are_stored_by_their_values(store, view):
    array = view(np.arange(48, dtype="f4").reshape(6, 8))
    assert not array.flags.c_contiguous
    store.save({"value": array})
    np.testing.assert_array_equal(store.read("value"), array)


def test_restores_into_views(store):
    store.save({"value": np.arange(12, dtype="f4").reshape(3, 4)})
    whole = np.full((3, 8), -1, "f4")
    live = whole[:, ::2]
    state = {"value": live}
    store.restore(state)
    assert state["value"] is live
    np.testing.assert_array_equal(live, np.arange(12).reshape(3, 4))
    np.testing.assert_array_equal(whole[:, 1::2], -1)


def test_big_endian_arrays(store):
    array = np.arange(5, dtype=">f8") + 0.5
    live = np.zeros(5, ">f8")
    assert round_trip(store, array, live) is live
    np.testing.assert_array_equal(live, array)
    assert store.read("value").dtype == np.dtype("<f8")
    np.testing.assert_array_equal(store.read("value"), array)


def test_read_only_arrays_are_replaced(store):
    array = np.arange(5.0)
    live = np.zeros(5)
    live.flags.writeable = False
    restored = round_trip(store, array, live)
    assert restored is not live
    np.testing.assert_array_equal(restored, array)
    np.testing.assert_array_equal(live, 0)


def test_an_array_that_was_replaced_is_saved(path):
    state = {"w": np.zeros(4)}
    with ckptdb.Manager(path, state, save=ckptdb.save_every_n_steps(1)) as manager:
        manager.step()
        state["w"] = np.ones((2, 3))
        manager.step()
    with ckptdb.Reader(path) as reader:
        with reader.open(1) as step:
            np.testing.assert_array_equal(step.read("w"), np.zeros(4))
        with reader.open(2) as step:
            np.testing.assert_array_equal(step.read("w"), np.ones((2, 3)))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.zeros(3, complex), r"complex128 cannot be stored.*a\.view\(a\.real"),
        (np.array(["a"]), "<U1 cannot be stored; the dtypes are f64"),
        (np.array([None]), "object cannot be stored"),
        (np.zeros(2, "datetime64[s]"), "datetime64"),
        (np.zeros(2, [("a", "f4")]), "cannot be stored"),
        (np.ma.masked_array([1.0, 2.0], [True, False]), "masked array"),
    ],
)
@pytest.mark.parametrize("nested", [False, True])
def test_refuses_arrays_that_cannot_be_stored(path, value, words, nested):
    state = {"bad": {"one": value} if nested else value}
    name = "bad.one" if nested else "bad"
    with ckptdb.Manager(path, state, save=ckptdb.save_at_steps([])) as manager:
        with pytest.raises(ckptdb.InvalidArgument, match=words) as caught:
            save_now(manager)
        assert f'state "{name}"' in str(caught.value)
        state["bad"] = 1  # for the save at the end


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"w": np.zeros(3, complex)}, "complex128 cannot be stored"),
        ({"x": object()}, "stored only by pickle"),
        ({"sparse": 1}, "choose another one"),
    ],
)
def test_a_training_does_not_start_with_a_state_that_cannot_be_saved(
    path, state, words
):
    with ckptdb.Manager(path, state, save=ckptdb.save_every_n_steps(100)) as manager:
        with pytest.raises(ckptdb.InvalidArgument, match=words):
            manager.restore_or_start()
        state.clear()
        assert manager.restore_or_start().fresh


# Other values


VALUES = [
    None, True, False, 0, -1, 2**70, 0.1, -0.0, math.inf, -math.inf, 1e-310,
    "", "text", "ünï \U0001f600 \x00", "\ud800", b"", b"\x00\xff", 1 + 2j,
    complex(math.inf, -0.0), bytearray(b"abc"), (), (1, 2), [], [1, [2, ()]],
    {}, {"a": {"b": [1.5, None]}}, {1: 2, -3: "x"}, {1.5: 1, None: 2, True: 3},
    {"$float": "1"}, {"a": 1, "$b": 2}, {(1, "a"): 1, (): 2}, {b"k": 1},
    {1, 2, 3}, set(), frozenset({"a"}), {(1, 2), (3,)}, {frozenset({1})},
    collections.OrderedDict([("b", 1), ("a", 2)]),
    np.float32(0.1), np.float64(0.1), np.float16(0.1), np.int8(-3),
    np.uint64(2**64 - 1), np.bool_(True), np.float32("inf"),
    np.dtype("float32"), np.dtype(">i4"),
]  # fmt: skip


@pytest.mark.parametrize("live", ["none", "other", "nested"])
def test_values_keep_their_types(store, live):
    nested = live == "nested"
    stored = {
        f"v{i}": {"in": [value]} if nested else value for i, value in enumerate(VALUES)
    }
    store.save(stored)
    place = {"none": None, "other": 12, "nested": {"in": ["x", "y"]}}[live]
    state = {name: copy.deepcopy(place) for name in stored}
    store.restore(state)
    with ckptdb.Reader(store.path) as reader, reader.latest() as step:
        for name, value in zip(stored, VALUES):
            for got in [state[name], step.read(name)]:
                got = got["in"][0] if nested else got
                assert type(got) is type(value), value
                assert got == value
                assert repr(got) == repr(value)  # also the sign of zero, and orders


def test_nan_is_restored(store):
    assert math.isnan(round_trip(store, math.nan, 0.0))
    restored = round_trip(store, [np.float32("nan")], [0])
    assert math.isnan(restored[0]) and type(restored[0]) is np.float32


def test_dictionaries_are_restored_in_place(store):
    inner = {"rate": 0.1, "gone": 1}
    live = {"keep": inner, "list": [1, 2, 3]}
    items = live["list"]
    state = {"value": live}
    store.save({"value": {"keep": {"rate": 0.5, "new": "x"}, "list": [4]}})
    store.restore(state)
    assert state["value"] is live and live["keep"] is inner and live["list"] is items
    assert live == {"keep": {"rate": 0.5, "new": "x"}, "list": [4]}


def test_sets_are_restored_in_place(store):
    live = {1, 9}
    assert round_trip(store, {1, 2}, live) is live
    assert live == {1, 2}


def test_order_of_dictionaries_is_restored(store):
    saved = collections.OrderedDict([("b", 1), ("a", 2)])
    live = collections.OrderedDict([("a", 0), ("b", 0)])
    assert round_trip(store, saved, live) is live
    assert list(live) == ["b", "a"]
    plain = {"a": 0, "b": 0}
    round_trip(store, {"b": 1, "a": 2}, plain)
    assert list(plain) == ["b", "a"]


def test_namedtuples(store):
    Point = collections.namedtuple("Point", "x y")
    restored = round_trip(store, Point(np.ones(2), 3), Point(np.zeros(2), 0))
    assert type(restored) is Point and restored.y == 3
    np.testing.assert_array_equal(restored.x, 1)
    assert type(store.read("value")) is tuple


def test_dictionaries_of_tensors_grow(store):
    saved = {"a": np.ones(2), "more": {7: np.full(3, 7, "i4")}, "n": 1}
    state = {"value": {"a": np.zeros(2)}}
    store.save({"value": saved})
    store.restore(state)
    value = state["value"]
    np.testing.assert_array_equal(value["a"], 1)
    assert value["more"][7].dtype == np.int32
    np.testing.assert_array_equal(value["more"][7], 7)
    assert value["n"] == 1
    np.testing.assert_array_equal(store.read("value.more.7"), 7)


def test_scalar_arrays_in_dictionaries(store):
    live = {"s": np.array(0.0)}
    round_trip(store, {"s": np.array(2.5)}, live)
    assert live["s"].shape == () and live["s"] == 2.5


class Unusual:
    def __init__(self, number) -> None:
        self.number = number

    def __eq__(self, other) -> bool:
        return type(other) is Unusual and other.number == self.number


class Text(str):
    pass


@pytest.mark.parametrize("value", [Unusual(1), Text("x"), range(3), np.longdouble(1)])
def test_values_that_need_pickle_are_refused(path, value):
    state = {"epoch": {"odd": value}}
    with ckptdb.Manager(path, state, save=ckptdb.save_at_steps([])) as manager:
        with pytest.raises(ckptdb.InvalidArgument) as caught:
            save_now(manager)
        state.clear()
    message = str(caught.value)
    assert 'state "epoch.odd"' in message
    assert type(value).__qualname__ in message
    assert "allow_pickle=True" in message


def test_pickle_is_executed_only_where_it_is_allowed(store):
    store.save({"value": [Unusual(3), {Text("k"): 1}]}, allow_pickle=True)
    state = {"value": None}
    with pytest.raises(ckptdb.FailedPrecondition, match="allow_pickle=True"):
        store.restore(state)
    assert state == {"value": None}
    with pytest.raises(ckptdb.FailedPrecondition, match="allow_pickle=True"):
        store.read("value")
    store.restore(state, allow_pickle=True)
    assert state["value"] == [Unusual(3), {"k": 1}]
    with ckptdb.Reader(store.path, allow_pickle=True) as reader:
        with reader.latest() as step:
            assert step.read("value") == [Unusual(3), {"k": 1}]


def test_state_that_contains_itself_is_refused(path):
    loop = [1]
    loop.append(loop)
    state = {"loop": None}
    with ckptdb.Manager(path, state, save=ckptdb.save_at_steps([])) as manager:
        state["loop"] = loop
        with pytest.raises(ckptdb.InvalidArgument, match='"loop" contains itself'):
            save_now(manager)
        state["loop"] = 1
    state["loop"] = loop
    with pytest.raises(ckptdb.InvalidArgument, match='"loop" contains itself'):
        ckptdb.Manager(path, state, save=ckptdb.save_at_steps([]))


# Names


@pytest.mark.parametrize(
    ("state", "places"),
    [
        (
            {"a.b": np.zeros(1), "a": {"b": np.zeros(1)}},
            ["state['a.b']", "state['a']['b']"],
        ),
        (
            {"x": {1: np.zeros(1), "1": np.zeros(1)}},
            ["state['x'][1]", "state['x']['1']"],
        ),
        (
            {"l": [np.zeros(1)], "l.0": np.zeros(2)},
            ["state['l'][0]", "state['l.0']"],
        ),
        (
            {"o": Loader(w=np.zeros(1)), "o.w": np.zeros(1)},
            ["state['o'].state_dict()['w']", "state['o.w']"],
        ),
    ],
)
def test_names_that_clash_are_refused(path, state, places):
    with ckptdb.Manager(path, state, save=ckptdb.save_at_steps([])) as manager:
        with pytest.raises(ckptdb.InvalidArgument) as caught:
            save_now(manager)
        for place in places:
            assert place in str(caught.value)
        state.clear()


def test_tables_that_clash_are_refused(path):
    state = {"a.b": ckptdb.Table({"v": "f32"}), "a": {"b": np.zeros(1)}}
    with ckptdb.Manager(path, state, save=ckptdb.save_at_steps([])) as manager:
        with pytest.raises(ckptdb.InvalidArgument, match="a.b") as caught:
            save_now(manager)
        assert "state['a']['b']" in str(caught.value)
        del state["a"]
    other = {"t.u": ckptdb.Table({"v": "f32"}), "t": [], "s": 1}
    other["t"] = {"u": ckptdb.Table({"v": "f32"})}
    with pytest.raises(ckptdb.InvalidArgument, match="t.u"):
        ckptdb.Manager(path + "2", other)


@pytest.mark.parametrize("name", [3, None, ("a",)])
def test_names_must_be_text(path, name):
    with pytest.raises(ckptdb.InvalidArgument, match="expected a str"):
        ckptdb.Manager(path, {name: 1})


@pytest.mark.parametrize("name", ["", "dense", "global_step", "ckptdb.x"])
def test_reserved_names_are_refused(path, name):
    with ckptdb.Manager(path, {name: 1}, save=ckptdb.save_at_steps([])) as manager:
        with pytest.raises(ckptdb.InvalidArgument, match="name"):
            save_now(manager)
        manager.state.clear()


# Steps that do not fit


def test_a_wrong_shape_is_named(store):
    store.save({"w": np.zeros((2, 3)), "d": {"v": np.zeros(4)}})
    state = {"w": np.full((3, 2), 7.0), "d": {"v": np.zeros(4)}}
    with pytest.raises(ckptdb.FailedPrecondition, match=r'"w".*\[2, ?3\]') as caught:
        store.restore(state)
    assert "[3" in str(caught.value)
    np.testing.assert_array_equal(state["w"], 7.0)
    state = {"w": np.zeros((2, 3)), "d": {"v": np.full(5, 7.0)}}
    with pytest.raises(ckptdb.FailedPrecondition, match='"d.v"'):
        store.restore(state)
    np.testing.assert_array_equal(state["d"]["v"], 7.0)


def test_a_wrong_dtype_is_named(store):
    store.save({"w": np.zeros(3, "f4")})
    with pytest.raises(ckptdb.FailedPrecondition, match='"w".*f32'):
        store.restore({"w": np.zeros(3, "f8")})
    state = {"w": np.ones(3, "f8")}
    store.restore(state, restore={"evolve": {"cast": True}})
    np.testing.assert_array_equal(state["w"], 0)


@pytest.mark.parametrize("nested", [False, True])
def test_an_added_tensor_is_named_and_can_evolve(store, nested):
    def state(**arrays):
        return {"d": dict(arrays), "n": 1} if nested else {**arrays, "n": 1}

    store.save(state(old=np.ones(2)))
    new = state(old=np.zeros(2), added=np.full(3, 5.0))
    name = "d.added" if nested else "added"
    with pytest.raises(ckptdb.FailedPrecondition, match=f'"{name}"'):
        store.restore(new)
    arrays = new["d"] if nested else new
    np.testing.assert_array_equal(arrays["old"], 0)
    store.restore(new, restore={"evolve": {}})
    np.testing.assert_array_equal(arrays["old"], 1)
    np.testing.assert_array_equal(arrays["added"], 5.0)


def test_an_added_number_is_named_and_can_evolve(store):
    store.save({"n": 1})
    state = {"n": 0, "epoch": 7}
    with pytest.raises(ckptdb.FailedPrecondition, match="epoch"):
        store.restore(state)
    assert state == {"n": 0, "epoch": 7}
    store.restore(state, restore={"evolve": {}})
    assert state == {"n": 1, "epoch": 7}


def test_a_removed_tensor_warns(store):
    store.save({"w": np.ones(2), "gone": np.ones(3)})
    warnings = []
    state = {"w": np.zeros(2)}
    report = store.restore(state, on_warning=warnings.append)
    np.testing.assert_array_equal(state["w"], 1)
    assert any("gone" in warning for warning in warnings)
    assert report.loaded.unexpected and "gone" in report.loaded.unexpected[0]


def test_excluded_entries_keep_their_values(store):
    store.save(
        {"w": np.ones(4), "v": np.ones(2), "n": 1, "m": 1, "d": {"x": np.ones(2)}}
    )
    read_only = np.full(2, 8.0)
    read_only.flags.writeable = False
    whole = np.full(8, 9.0)
    state = {"w": whole[::2], "v": read_only, "n": 7, "m": 7, "d": {"x": np.zeros(2)}}
    view = state["w"]
    store.restore(state, restore={"evolve": {"exclude": ["w", "v", "n"]}})
    assert state["w"] is view and state["v"] is read_only
    np.testing.assert_array_equal(whole, 9.0)
    assert (state["n"], state["m"]) == (7, 1)
    np.testing.assert_array_equal(state["d"]["x"], 1)


def test_renamed_entries(store):
    store.save({"old": np.ones(2), "n": 5, "d": {"w": np.full(2, 3.0), "k": 4}})
    state = {"new": np.zeros(2), "m": 0, "e": {"w": np.zeros(2), "k": 0}}
    names = {"new": "old", "m": "n", "e": "d", "e.w": "d.w"}
    store.restore(state, restore={"evolve": {"oname": names}})
    np.testing.assert_array_equal(state["new"], 1)
    np.testing.assert_array_equal(state["e"]["w"], 3)
    assert (state["m"], state["e"]["k"]) == (5, 4)


def test_kinds_of_values_may_not_change(store):
    store.save({"x": {"w": np.zeros(2)}, "o": Loader(a=1)})
    with pytest.raises(ckptdb.FailedPrecondition, match='"o".*object with state_dict'):
        store.restore({"x": {"w": np.zeros(2)}, "o": 3})
    with pytest.raises(ckptdb.FailedPrecondition, match='"x"'):
        store.restore({"x": np.zeros(2), "o": Loader()})


# Objects with state


def test_state_dicts(store):
    saved = Loader(position=7, buffer=np.arange(3), names=["a"])
    live = Loader(position=0, buffer=np.zeros(3, "i8"), names=[])
    state = {"loader": live}
    store.save({"loader": saved})
    store.restore(state)
    assert state["loader"] is live
    assert live.values["position"] == 7 and live.values["names"] == ["a"]
    np.testing.assert_array_equal(live.values["buffer"], [0, 1, 2])
    read = store.read("loader")
    assert read["position"] == 7
    np.testing.assert_array_equal(read["buffer"], [0, 1, 2])


def test_state_dicts_in_dictionaries(store):
    store.save({"all": {"loader": Loader(position=7), "io": 1}})
    state = {"all": {"loader": Loader(), "io": 0}}
    store.restore(state)
    assert state["all"]["loader"].values == {"position": 7}
    assert store.read("all") == {"loader": {"position": 7}, "io": 1}


def test_io_states(store):
    saved, nested = PerRank(b"\x00rank"), PerRank(b"second")
    store.save({"io": saved, "d": {"io": nested, "n": 1}})
    state = {"io": PerRank(b""), "d": {"io": PerRank(b""), "n": 0}}
    store.restore(state)
    assert state["io"].data == b"\x00rank" and state["d"]["io"].data == b"second"
    with ckptdb.Reader(store.path) as reader, reader.latest() as step:
        assert step.read_blob("io_state/io") == b"\x00rank"


def test_io_state_must_return_bytes(path):
    class Bad(PerRank):
        def io_state(self):
            return "text"

    state = {"io": Bad(b"")}
    manager = ckptdb.Manager(path, state, save=ckptdb.save_at_steps([]))
    with pytest.raises(ckptdb.Internal, match="io_state") as caught:
        manager.save().wait_committed()
    assert isinstance(caught.value.__cause__, TypeError)
    assert "expected bytes" in str(caught.value.__cause__)
    manager.close()


def test_tables_and_io_states_cannot_be_added_later(path):
    table = ckptdb.Table({"v": "f32"})
    state = {"t": table, "d": {}}
    manager = ckptdb.Manager(path, state, save=ckptdb.save_at_steps([]))
    for change, name in [
        (lambda: state.update(u=ckptdb.Table({"v": "f32"})), "u"),
        (lambda: state.update(t=ckptdb.Table({"v": "f32"})), "t"),
        (lambda: state["d"].update(io=PerRank(b"")), "d.io"),
    ]:
        change()
        with pytest.raises(ckptdb.FailedPrecondition, match=f'"{name}"'):
            save_now(manager)
        state.update(t=table, d={})
        state.pop("u", None)
    manager.close()


def test_an_object_that_refuses_its_state(store):
    store.save({"loader": Loader(position=7), "w": np.ones(2)})
    loader = Loader(position=1)
    loader.fails = True
    state = {"loader": loader, "w": np.zeros(2)}
    with ckptdb.Manager(
        store.path, state, save=ckptdb.save_every_n_steps(1)
    ) as manager:
        with pytest.raises(ckptdb.Internal, match="refuses its state"):
            manager.restore_or_start()
        for call in [
            manager.step,
            manager.save,
            manager.start_training,
            manager.finish_training,
            lambda: manager.step_to(9),
        ]:
            with pytest.raises(ckptdb.FailedPrecondition, match="restore again"):
                call()
        loader.fails = False
        manager.restore_or_start()
        assert loader.values == {"position": 7}
        manager.step()
        assert manager.global_step == 2
