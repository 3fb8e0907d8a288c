# SPDX-License-Identifier: Apache-2.0
"""`ckptdb import` and `export --recis` on checkpoint directories of RecIS, with and
without PyTorch, which only the dense files need."""

from __future__ import annotations

import collections
import json
import pathlib
import shutil
import subprocess

import numpy as np
import pytest

import ckptdb

_BESIDE = pathlib.Path(ckptdb.__file__).parents[2] / "bin" / "ckptdb"
TOOL = str(_BESIDE) if _BESIDE.exists() else shutil.which("ckptdb")
pytestmark = pytest.mark.skipif(TOOL is None, reason="the command is not installed")

ALL = 65536  # slices
SERVING = "torch_rank_weights_embs_table_multi_shard.json"
TYPES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "int64": "I64",
    "int32": "I32", "int16": "I16", "int8": "I8", "uint64": "U64", "uint32": "U32",
    "uint16": "U16", "uint8": "U8", "bool": "bool",
}  # fmt: skip


def run(*words, code=0):
    result = subprocess.run(
        [str(TOOL), *map(str, words)], capture_output=True, text=True, timeout=60
    )
    assert result.returncode == code, result.stdout + result.stderr
    return result.stdout if code == 0 else result.stderr


def write_file(path, arrays):
    """Writes a file of safetensors as RecIS does: blocks follow each other without
    alignment, and the header is padded."""
    header, data = {}, b""
    for name, array in arrays.items():
        header[name] = {
            "dtype": TYPES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [len(data), len(data) + array.nbytes],
            "dense": "part_" not in name,
        }
        data += array.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def read_file(path):
    data = path.read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    dtypes = {kind.upper(): name for name, kind in TYPES.items()}
    arrays = {}
    for name, block in json.loads(data[8:begin]).items():
        first, end = block["data_offsets"]
        array = np.frombuffer(data[begin + first : begin + end], dtypes[block["dtype"]])
        arrays[name] = array.reshape(block["shape"])
    return arrays


class Checkpoint:
    """A directory with one checkpoint, written as by `world` ranks with `parallel`
    files each. Tables are {name: (ids, {slot: values})}; dense are the tensors beside
    them. With `inside`, files have the names that RecIS uses in memory, as old ones."""

    def __init__(self, folder, tables, dense=(), *, world=1, parallel=4, inside=False):
        self.folder = folder / "ckpt_8"
        self.folder.mkdir(parents=True)
        (folder / "checkpoint").write_text("ckpt_4\nckpt_8\n")
        self.files = collections.defaultdict(dict)
        self.keys = {}
        self.of = world * parallel
        bounds = [rank * ALL // world for rank in range(world + 1)]
        for rank in range(world):
            begin, end = bounds[rank : rank + 2]
            blocks = {}
            for table, (ids, slots) in tables.items():
                slices = ids.astype(np.uint64) % ALL
                mine = (begin <= slices) & (slices < end)
                for slot, values in [("id", ids), *slots.items()]:
                    name = f"{table}.{slot}/part_{rank}_{world}"
                    key = f"{table}@{slot}^{begin}@{end}@{ALL}"
                    if inside:
                        name = key
                    else:
                        self.keys[name] = key
                    blocks[name] = values[mine]
            if rank == 0:
                blocks |= {f"{name}^ ": value for name, value in dict(dense).items()}
            for turn, (name, values) in enumerate(blocks.items()):
                self.files[rank * parallel + turn % parallel][name] = values
        self.index = {
            "file_index": {self.name(file): file for file in self.files},
            "block_index": {n: file for file, a in self.files.items() for n in a},
        }
        self.write()

    def name(self, file):
        return f"model-{file:06d}-of-{self.of:06d}.safetensors"

    def write(self):
        for file, arrays in self.files.items():
            write_file(self.folder / self.name(file), arrays)
        (self.folder / "index").write_text(json.dumps(self.index))
        (self.folder / "tensorkey.json").write_text(json.dumps(self.keys, indent=4))
        (self.folder / SERVING).write_text("{}")

    def add_dense_files(self, torch, world):
        state = collections.OrderedDict(w=torch.arange(6.0))
        torch.save(state, self.folder / "model.pt")
        torch.save({"global_step": torch.tensor([8])}, self.folder / "extra.pt")
        for rank in range(world):
            position = {"reader": {"position": rank}}
            torch.save(position, self.folder / f"io_state_{rank}.pt")
        (self.folder / "io_state_count").write_text(str(world))


def load(folder):
    """Returns the tables and dense blocks of the newest checkpoint, as Checkpoint takes
    them, and checks that the indexes agree with the files."""
    ckpt = folder / (folder / "checkpoint").read_text().split()[-1]
    keys = json.loads((ckpt / "tensorkey.json").read_text())
    index = json.loads((ckpt / "index").read_text())
    assert sorted(index["file_index"].values()) == list(range(len(index["file_index"])))
    names = {number: name for name, number in index["file_index"].items()}
    files = {number: read_file(ckpt / name) for number, name in names.items()}
    assert sum(map(len, files.values())) == len(index["block_index"])
    blocks = {name: files[file][name] for name, file in index["block_index"].items()}
    parts = collections.defaultdict(lambda: collections.defaultdict(dict))
    for name, key in keys.items():
        (table, slot), slices = key.split("^")[0].split("@"), key.split("^")[1]
        begin, end, all_slices = map(int, slices.split("@"))
        assert all_slices == ALL and name.startswith(f"{table}.{slot}/part_")
        if slot == "id":
            owner = blocks[name].astype(np.uint64) % ALL
            assert ((begin <= owner) & (owner < end)).all()
        parts[table][slot][begin, end] = blocks[name]
    tables = {}
    for table, slots in parts.items():
        for each in slots.values():
            bounds = sorted(each)
            assert bounds[0][0] == 0 and bounds[-1][1] == ALL
            assert all(a[1] == b[0] for a, b in zip(bounds, bounds[1:]))
        whole = {s: np.concatenate([e[b] for b in sorted(e)]) for s, e in slots.items()}
        tables[table] = (whole.pop("id"), whole)
    dense = {n.removesuffix("^ "): v for n, v in blocks.items() if n not in keys}
    return tables, dense


def assert_same(tables, expected):
    assert tables.keys() == expected.keys()
    for name, (ids, slots) in tables.items():
        want_ids, want = expected[name]
        order, want_order = np.argsort(ids), np.argsort(want_ids)
        assert (ids[order] == want_ids[want_order]).all()
        assert slots.keys() == want.keys()
        for slot, values in slots.items():
            assert values.dtype == want[slot].dtype, slot
            assert values.shape == want[slot].shape, slot
            assert values[order].tobytes() == want[slot][want_order].tobytes()


def sample_tables(rng):
    """Tables of all sizes, slots of each dtype and shape, of two optimizers, with names
    that begin with each other."""
    tables = {}
    for name, rows in [("user", 1001), ("user.deep", 77), ("none", 0), ("one", 1)]:
        ids = rng.choice(np.iinfo(np.int64).max, rows, replace=False)
        ids *= rng.choice([-1, 1], rows)
        slots = {
            "seen": rng.random((rows, 3)) < 0.5,
            "embedding": rng.random((rows, 4), np.float32),
            "sparse_adam_exp_avg": rng.random((rows, 4), np.float32),
            "sparse_adam_exp_avg_sq": rng.random((rows, 4), np.float32),
            "adagrad_acc": rng.random((rows, 1), np.float32),
            "step_filter": rng.integers(0, 99, (rows, 1)),
            "count": rng.integers(0, 99, rows, np.int32),
            "matrix": rng.random((rows, 2, 3), np.float32),
        }
        for dtype in TYPES:
            bits = rng.integers(0, 2, (rows, 5), np.uint8)
            slots[f"of_{dtype}"] = bits.astype(dtype)
        tables[name] = (ids, slots)
    return tables


@pytest.mark.parametrize(
    "world, parallel, inside",
    [(1, 1, False), (2, 4, False), (3, 5, True), (7, 16, False)],
)
def test_round_trips_are_exact(tmp_path, path, world, parallel, inside):
    rng = np.random.default_rng(3)
    tables = sample_tables(rng)
    dense = {
        "sparse_adam@step": np.array([5], np.int64),
        "scalar": np.array(0.5, np.float32),
        "empty": np.zeros((0, 4), np.float16),
        "odd": np.array([True, False, True]),
    }
    Checkpoint(
        tmp_path / "in", tables, dense, world=world, parallel=parallel, inside=inside
    )
    run("import", tmp_path / "in", "--step", 8, "-s", path)
    source = path
    for again, other in enumerate([1, 2, 5]):
        out = tmp_path / f"out{other}"
        run("export", 8, "--recis", out, "--world", other, "-s", source)
        loaded, loaded_dense = load(out)
        assert_same(loaded, tables)
        assert loaded_dense.keys() == dense.keys()
        for name, value in dense.items():
            assert loaded_dense[name].dtype == value.dtype
            assert loaded_dense[name].shape == value.shape
            assert loaded_dense[name].tobytes() == value.tobytes()
        source = f"{path}{again}"
        run("import", out, "--step", 8, "-s", source)
    digests = [
        json.loads(run("digest", 8, "--json", "-s", each))["model_digest"]
        for each in (path, source)
    ]
    assert digests[0] == digests[1]


@pytest.mark.parametrize("world", [1, 3])
def test_dense_files(tmp_path, path, world):
    torch = pytest.importorskip("torch")
    tables = {"user": (np.arange(9), {"embedding": np.ones((9, 2), np.float32)})}
    written = Checkpoint(tmp_path / "in", tables, world=world)
    written.add_dense_files(torch, world)
    # These would be a table in other files.
    state = {"a.ids": torch.arange(3), "a.weight": torch.rand(3, 2)}
    state |= torch.nn.Linear(2, 2).state_dict()
    torch.save(state, written.folder / "model.pt")
    run("import", tmp_path / "in", "--step", 8, "-s", path)
    run("export", 8, "--recis", tmp_path / "out", "--world", 2, "-s", path)
    assert_same(load(tmp_path / "out")[0], tables)
    out = tmp_path / "out" / "ckpt_8"
    model = torch.load(out / "model.pt")
    assert model.keys() == state.keys()
    assert all(torch.equal(model[name], state[name]) for name in state)
    others = [f for f in written.folder.iterdir() if f.name.startswith(("ex", "io"))]
    assert len(others) == world + 2
    assert all((out / f.name).read_bytes() == f.read_bytes() for f in others)
    serving = json.loads((out / SERVING).read_text())
    assert serving["a.weight"]["shape"] == [3, 2] and serving["a.weight"]["dense"]
    embedding = serving["user.embedding/part_1_2"]
    assert embedding["dtype"] == "float32" and embedding["dimension"] == 2
    assert embedding["hashmap_key"] == "user.id/part_1_2"


def simple(folder, **options):
    ids = np.array([5, -3, 70000, 9])
    slots = {
        "embedding": np.arange(8, dtype=np.float32).reshape(4, 2),
        "exp_avg": np.arange(8, dtype=np.float32).reshape(4, 2),
    }
    dense = {"beta": np.ones(2, np.float32)}
    return Checkpoint(folder, {"user": (ids, slots)}, dense, **options)


def test_what_a_killed_save_left_is_ignored(tmp_path, path):
    written = simple(tmp_path / "in", world=2)
    # Files from another number of ranks, and from an unfinished save.
    old = written.folder / "model-000001-of-000099.safetensors"
    shutil.copy(written.folder / written.name(0), old)
    for name in ("index.tmp", "ckpt-0000000-0000001.data.tmp"):
        (written.folder / name).write_bytes(b"half")
    (tmp_path / "in" / "checkpoint").write_bytes(b"ckpt_4\r\nckpt_8 \r\n \r\n")
    (written.folder / "notes.txt").write_text("kept")
    run("import", tmp_path / "in", "--step", 8, "-s", path)
    run("export", 8, "--recis", tmp_path / "out", "-s", path)
    made = {f.name for f in (tmp_path / "out" / "ckpt_8").iterdir()}
    assert "notes.txt" in made and not any(name.endswith(".tmp") for name in made)
    assert len(load(tmp_path / "out")[0]["user"][0]) == 4


@pytest.mark.parametrize("form", [list, lambda names: {str(i): n for i, n in names}])
def test_other_forms_of_the_index(tmp_path, path, form):
    written = simple(tmp_path / "in", world=2)
    names = sorted((i, name) for name, i in written.index["file_index"].items())
    if form is list:
        written.index["file_index"] = [name for _, name in names]
    else:
        written.index["file_index"] = form(names)
    written.write()
    assert "4 rows" in run("import", tmp_path / "in", "--step", 8, "-s", path)


def test_dense_name_that_looks_like_a_part(tmp_path, path):
    written = simple(tmp_path / "in")
    # RecIS leaves out the slice in the file, not in the index.
    file = written.index["block_index"].pop("beta^ ")
    written.files[file]["a/part_0"] = written.files[file].pop("beta^ ")
    written.index["block_index"]["a/part_0^ "] = file
    written.write()
    run("import", tmp_path / "in", "--step", 8, "-s", path)
    with ckptdb.Reader(path) as reader, reader.open(8) as step:
        assert (step.read("a/part_0") == 1).all()


def only_model(folder, torch):
    torch.save({"w": torch.ones(2)}, folder / "model.pt")
    (folder / "index").write_text('{"file_index": {}, "block_index": {}}')
    (folder / "tensorkey.json").write_text("{}")


def test_without_tables(tmp_path, path):
    torch = pytest.importorskip("torch")
    only_model(tmp_path, torch)
    assert "1 tensors" in run("import", tmp_path, "--step", 1, "-s", path)
    run("export", 1, "--recis", tmp_path / "out", "-s", path)
    assert torch.equal(
        torch.load(tmp_path / "out" / "ckpt_1" / "model.pt")["w"], torch.ones(2)
    )


def _rename(files, old, new):
    for arrays in files.values():
        if old in arrays:
            arrays[new] = arrays.pop(old)


def _part(slot, rank=0):
    return f"user.{slot}/part_{rank}_2"


def _set(written, slot, values, rank=0):
    for arrays in written.files.values():
        if _part(slot, rank) in arrays:
            arrays[_part(slot, rank)] = values


def _drop(written, name):
    for arrays in written.files.values():
        arrays.pop(name, None)


def _slices(written, text, rank=0):
    for slot in ("id", "embedding", "exp_avg"):
        written.keys[_part(slot, rank)] = f"user@{slot}^{text}"


def _text(name, text):
    return lambda written: (written.folder / name).write_text(text)


def _twice(written):
    first, second, *_ = written.files.values()
    second.update(first)


def _cut(written):
    file = written.folder / written.name(0)
    file.write_bytes(file.read_bytes()[:-1])


# A change before or after the files are written, the exit code, a part of the error.
BAD = {
    "no index": (lambda w: (w.folder / "index").unlink(), 3, "index"),
    "index is a list": (_text("index", "[]"), 1, "JSON object"),
    "index is cut": (_text("index", '{"file_index": {'), 1, "JSON object"),
    "no blocks in the index": (
        _text("index", '{"file_index": {"model-000000-of-000008.safetensors": 0}}'),
        1,
        "block_index",
    ),
    "no file in the index": (
        _text("index", '{"file_index": [], "block_index": {}}'), 1, "names none",
    ),
    "file without number": (
        _text("index", '{"file_index": {"a": -1}, "block_index": {}}'), 1, '"a" is -1',
    ),
    "no keys": (lambda w: (w.folder / "tensorkey.json").unlink(), 3, "tensorkey"),
    "key is a number": (_text("tensorkey.json", '{"%s": 1}' % _part("id")), 1, "text"),
    "key without table": (
        _text("tensorkey.json", '{"%s": "@id^0@1@65536"}' % _part("id")), 1, "expected",
    ),
    "keys are cut": (_text("tensorkey.json", "{"), 1, "tensorkey.json"),
    "file is cut": (_cut, 3, "truncated"),
    "newest leaves the folder": (_text("../checkpoint", "../in\n"), 1, "../in"),
    "newest is missing": (_text("../checkpoint", "ckpt_9\n"), 2, "ckpt_9"),
    "no newest": (_text("../checkpoint", " \n"), 1, "not the name"),
}  # fmt: skip
BAD_BLOCKS = {
    "gap": (lambda w: _slices(w, "40000@65536@65536", 1), 3, "32768"),
    "overlap": (lambda w: _slices(w, "9@65536@65536", 1), 3, "32768"),
    "end": (lambda w: _slices(w, "32768@65535@65536", 1), 3, "65535"),
    "beyond": (lambda w: _slices(w, "32768@65537@65536", 1), 1, "expected"),
    "other count": (lambda w: _slices(w, "0@1024@1024"), 1, "expected"),
    "same slices": (lambda w: _slices(w, "0@32768@65536", 1), 1, "a second block"),
    "no ids": (lambda w: _drop(w, _part("id")), 3, "in no file"),
    "float ids": (lambda w: _set(w, "id", np.ones(3, np.float32)), 1, "f32"),
    "many ids": (lambda w: _set(w, "id", np.arange(9)), 1, "same number of rows"),
    "scalar slot": (
        lambda w: _set(w, "exp_avg", np.array(1, np.float32)), 1, "[rows, ...]",
    ),
    "other dtype": (
        lambda w: _set(w, "exp_avg", np.zeros((3, 2), np.float64)), 1, "other ranks",
    ),
    "other shape": (
        lambda w: _set(w, "exp_avg", np.zeros((3, 2, 1), np.float32)), 1, "one shape",
    ),
    "wide": (
        lambda w: _set(w, "exp_avg", np.zeros((3, 9), np.float32)), 1, "one shape",
    ),
    "same id on a rank": (lambda w: _set(w, "id", np.array([5, 5, 9])), 1, "duplicate"),
    "same id elsewhere": (lambda w: _set(w, "id", np.array([5]), 1), 1, "duplicate"),
    "block in two files": (_twice, 1, "a second block"),
    "slot on one rank": (
        lambda w: w.keys.update({_part("exp_avg"): "user@other^0@32768@65536"}),
        3,
        "different slots",
    ),
}  # fmt: skip


@pytest.mark.parametrize("bad", [*BAD, *BAD_BLOCKS])
def test_bad_directories(tmp_path, path, bad):
    written = simple(tmp_path / "in", world=2)
    change, code, text = (BAD | BAD_BLOCKS)[bad]
    change(written)
    if bad in BAD_BLOCKS:
        written.write()
    error = run("import", tmp_path / "in", "--step", 8, "-s", path, code=code)
    assert text in error
    assert bad in BAD_BLOCKS or str(tmp_path) in error
    run("ls", "-s", path, code=2 if not pathlib.Path(path).exists() else 0)


@pytest.mark.parametrize(
    "tables, text",
    [
        ({"user": ["a@b"]}, "reserves"),
        ({"us^er": ["a"]}, "reserves"),
        ({"user": ["id"]}, "names the ids"),
        ({"a": ["b.c"], "a.b": ["c"]}, "two blocks"),
    ],
)
def test_names_that_cannot_be_exported(tmp_path, store, tables, text):
    state = {}
    for name, slots in tables.items():
        state[name] = ckptdb.Table({slot: ("f32", 1) for slot in slots})
        state[name].insert(np.arange(3))
    store.save(state)
    words = ("export", "latest", "--recis", tmp_path / "out", "-s", store.path)
    error = run(*words, code=1)
    assert text in error
    assert not (tmp_path / "out").exists()


def test_mutated_directories_never_crash(tmp_path, path):
    rng = np.random.default_rng(5)
    written = simple(tmp_path / "in", world=2)
    files = sorted(f for f in written.folder.iterdir() if f.suffix != ".pt")
    codes = collections.Counter()
    for turn in range(60):
        file = files[turn % len(files)]
        whole = file.read_bytes()
        bad = bytearray(whole)
        for at in rng.integers(0, len(bad), rng.integers(1, 4)):
            bad[at] = rng.choice([0, 34, 44, 48, 57, 91, 123, 125, 255, bad[at] ^ 1])
        if turn % 7 == 0:
            del bad[rng.integers(0, len(bad)) :]
        file.write_bytes(bad)
        words = ["import", str(tmp_path / "in"), "--step", str(turn), "-s", path]
        result = subprocess.run([str(TOOL), *words], capture_output=True, timeout=60)
        codes[result.returncode] += 1
        assert result.returncode in (0, 1, 3), result.stderr
        assert (result.returncode == 0) == (result.stderr == b"")
        file.write_bytes(whole)
    assert codes[1] > 9 and codes[3] > 1 and codes[0] > 1
