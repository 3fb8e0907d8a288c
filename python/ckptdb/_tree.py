# SPDX-License-Identifier: Apache-2.0
"""Values as JSON, with the places of tensors, and back, without pickle.

None, bool, int, finite floats, str, lists and dictionaries with plain keys are
JSON as they are. Anything else is an object with one key that begins with "$".
"""

from __future__ import annotations

import base64
import collections
import json
import math
import pickle
import sys
from typing import Any

from ._errors import DataLoss, FailedPrecondition, InvalidArgument

FORMAT = 1

_NUMPY_SCALARS = {
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
    "uint64", "float16", "float32", "float64",
}  # fmt: skip


def dumps(node: Any) -> bytes:
    document = {"ckptdb.tree": FORMAT, "value": node}
    return json.dumps(document, separators=(",", ":")).encode()


def loads(data: bytes, name: str) -> Any:
    try:
        document = json.loads(data)
        version = document["ckptdb.tree"]
        value = document["value"]
    except (ValueError, KeyError, TypeError) as error:
        raise DataLoss(
            f'"{name}" is not a value saved from Python; read its bytes with '
            "Step.read_blob"
        ) from error
    if version != FORMAT:
        raise FailedPrecondition(
            f'"{name}" has format {version} of a newer ckptdb; this one reads {FORMAT}'
        )
    return value


def tag_of(node: Any) -> tuple[str, Any] | None:
    """The tag and content of a tagged node."""
    if isinstance(node, dict) and len(node) == 1:
        ((key, content),) = node.items()
        if key.startswith("$"):
            return key, content
    return None


def has_tag(node: Any, *tags: str) -> bool:
    """Whether the node or a part of it has one of these tags."""
    tagged = tag_of(node)
    if tagged is not None:
        return tagged[0] in tags or has_tag(tagged[1], *tags)
    if isinstance(node, dict):
        return any(has_tag(each, *tags) for each in node.values())
    return isinstance(node, list) and any(has_tag(each, *tags) for each in node)


def is_mapping(node: Any) -> bool:
    """Whether the node describes a dictionary."""
    tagged = tag_of(node)
    if tagged is None:
        return isinstance(node, dict)
    return tagged[0] in ("$dict", "$ordered")


_DESCRIPTIONS = {
    "$tensor": "a tensor",
    "$table": "a table",
    "$io_state": "an object with io_state",
    "$module": "a module",
    "$module_of": "a module",
    "$state": "an object with state_dict",
    "$tuple": "a tuple",
    "$set": "a set",
    "$frozenset": "a frozenset",
    "$dict": "a dictionary",
    "$ordered": "a dictionary",
}


def describe(node: Any) -> str:
    """Describes the value that a node was made from, in an error."""
    tagged = tag_of(node)
    if tagged is not None:
        return _DESCRIPTIONS.get(tagged[0], f"a value {tagged[0]}")
    if isinstance(node, (dict, list)):
        return "a dictionary" if isinstance(node, dict) else "a list"
    return "None" if node is None else f"the {type(node).__name__} {node!r}"


def is_plain_mapping(value: dict[Any, Any]) -> bool:
    return all(type(key) is str and not key.startswith("$") for key in value)


def encode_leaf(value: Any, path: str, allow_pickle: bool) -> Any:
    """A value other than a list, tuple, dict, tensor or object with state."""
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"$float": repr(value)}
    if type(value) is complex:
        return {"$complex": [repr(value.real), repr(value.imag)]}
    if isinstance(value, (bytes, bytearray)):
        text = base64.b64encode(value).decode()
        return {"$bytes" if isinstance(value, bytes) else "$bytearray": text}
    special = _encode_numpy(value) or _encode_torch(value)
    if special is not None:
        return special
    if allow_pickle:
        return {"$pickle": base64.b64encode(pickle.dumps(value)).decode()}
    raise InvalidArgument(
        f"{path} has type {type(value).__module__}.{type(value).__qualname__}, "
        "which is stored only by pickle; make it of numbers, strings, lists, "
        "dictionaries and arrays, or pass allow_pickle=True, which executes code "
        "from the store when it is restored"
    )


def encode_key(key: Any, path: str, allow_pickle: bool) -> Any:
    if isinstance(key, tuple):
        return {"$tuple": [encode_key(each, path, allow_pickle) for each in key]}
    return encode_leaf(key, path, allow_pickle)


def decode_key(node: Any, path: str, allow_pickle: bool) -> Any:
    tagged = tag_of(node)
    if tagged is not None and tagged[0] == "$tuple":
        return tuple(decode_key(each, path, allow_pickle) for each in tagged[1])
    return decode_leaf(node, path, allow_pickle)


def _encode_numpy(value: Any) -> Any:
    np = sys.modules.get("numpy")
    if np is None:
        return None
    if isinstance(value, np.generic) and value.dtype.name in _NUMPY_SCALARS:
        text = value.item()
        return {"$numpy": [value.dtype.str, repr(text)]}
    if isinstance(value, np.dtype):
        return {"$numpy_dtype": value.str}
    return None


def _encode_torch(value: Any) -> Any:
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    if isinstance(value, torch.dtype):
        return {"$torch_dtype": str(value).removeprefix("torch.")}
    if isinstance(value, torch.device):
        return {"$torch_device": str(value)}
    return None


def decode_leaf(node: Any, path: str, allow_pickle: bool) -> Any:
    tagged = tag_of(node)
    if tagged is None:
        return node
    tag, content = tagged
    if tag == "$float":
        return float(content)
    if tag == "$complex":
        return complex(float(content[0]), float(content[1]))
    if tag == "$bytes":
        return base64.b64decode(content)
    if tag == "$bytearray":
        return bytearray(base64.b64decode(content))
    if tag == "$numpy":
        import numpy as np

        dtype = np.dtype(content[0])
        value: Any = {"True": True, "False": False}.get(content[1])
        if value is None:
            value = int(content[1]) if dtype.kind in "iu" else float(content[1])
        return dtype.type(value)
    if tag == "$numpy_dtype":
        import numpy as np

        return np.dtype(content)
    if tag == "$torch_dtype":
        import torch

        return getattr(torch, content)
    if tag == "$torch_device":
        import torch

        return torch.device(content)
    if tag == "$pickle":
        if allow_pickle:
            return pickle.loads(base64.b64decode(content))
        raise FailedPrecondition(
            f"{path} was stored by pickle, which executes code when it is loaded; "
            "pass allow_pickle=True if you trust the store"
        )
    raise FailedPrecondition(f"{path} has a value {tag} of a newer ckptdb")


def make_mapping(kind: str, items: list[tuple[Any, Any]]) -> Any:
    if kind == "$ordered":
        return collections.OrderedDict(items)
    return dict(items)
