# SPDX-License-Identifier: Apache-2.0
"""Arguments of a manager: checked, and as the extension takes them."""

from __future__ import annotations

import difflib
import json
import math
import operator
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any

from . import _core
from ._core import KeepPolicy, SavePolicy
from ._errors import InvalidArgument
from ._object_stores import path_of, url_of
from ._options import ManagerOptions


def check_options(state: Any, **callbacks: Any) -> None:
    if not isinstance(state, MutableMapping):
        raise InvalidArgument(
            f"the state is a {type(state).__name__}; expected a dictionary of names "
            "to values"
        )
    for name, callback in callbacks.items():
        if callback is not None and not callable(callback):
            raise InvalidArgument(f"{name} is {callback!r}; expected a function")


def check_names(options: Mapping[str, Any], parameters: Sequence[str]) -> None:
    known = [*parameters, *ManagerOptions.__annotations__]
    for name in options:
        if name in ManagerOptions.__annotations__:
            continue
        near = difflib.get_close_matches(name, known, 1)
        hint = f'; did you mean "{near[0]}"?' if near else ""
        raise InvalidArgument(f'a manager has no option "{name}"{hint}')


def as_step(step: Any) -> int:
    """The step as an int. Raises InvalidArgument if it does not fit 64 bits."""
    try:
        number = operator.index(step)
    except TypeError:
        number = -1
    if 0 <= number < 1 << 63:
        return number
    raise InvalidArgument(f"the step is {step!r}; expected an int from 0 to 2**63 - 1")


def as_count(name: str, value: Any, least: int = 0) -> int:
    """A whole number as an int of 64 bits; also a float, such as 50e6."""
    whole = value
    if isinstance(value, float) and value.is_integer():
        whole = int(value)
    try:
        number = operator.index(whole)
    except TypeError:
        number = least - 1
    if least <= number < 1 << 63:
        return number
    raise InvalidArgument(
        f"{name} is {value!r}; expected a whole number from {least} to 2**63 - 1"
    )


def as_seconds(name: str, value: Any, *, above_zero: bool = True) -> float:
    try:
        seconds = float(value) if not isinstance(value, str) else math.nan
    except (TypeError, OverflowError):
        seconds = math.nan
    if math.isfinite(seconds) and (seconds > 0 or (seconds == 0 and not above_zero)):
        return seconds
    limit = "above 0" if above_zero else "from 0"
    raise InvalidArgument(f"{name} is {value!r}; expected a number of seconds {limit}")


def check_policy(name: str, policy: Any) -> None:
    """Refuses a number, which is not a policy in the configuration's form either."""
    if isinstance(policy, (int, float)):
        call = "latest_n" if name == "keep" else "save_every_n_steps"
        raise InvalidArgument(
            f"{name} is {policy!r}; expected a policy, such as "
            f"{name}=ckptdb.{call}({policy!r})"
        )


def as_policy(name: str, policy: Any) -> SavePolicy | KeepPolicy:
    """A policy of the kind that this option takes."""
    kind = KeepPolicy if name == "keep" else SavePolicy
    if isinstance(policy, kind):
        return policy
    if isinstance(policy, (SavePolicy, KeepPolicy)):
        raise InvalidArgument(
            f"{name} is a {type(policy).__name__}; expected a {kind.__name__}"
        )
    label = getattr(policy, "__name__", type(policy).__name__)
    make = _core.keep_if if name == "keep" else _core.save_if
    made: SavePolicy | KeepPolicy = make(label, policy)
    return made


def ship_config(ship: Any, kept: list[Any]) -> dict[str, Any]:
    """The option `ship` in the configuration's form; `kept` keeps its target."""
    config = dict(ship) if isinstance(ship, Mapping) else {"to": ship}
    if "to" in config:
        config["to"] = url_of(config["to"], kept)
    keep = config.get("keep")
    if callable(keep):
        raise InvalidArgument(
            "ship: keep is a function, which an object store's policy cannot call; "
            "pass a policy, such as ckptdb.latest_n(20)"
        )
    if isinstance(keep, KeepPolicy):
        config["keep"] = json.loads(_core.retention_json(keep))["keep"]
    return config


def check_values(metrics: Any, user_metadata: Any) -> None:
    """Raises InvalidArgument for a metric or an entry of a wrong type."""
    for what, values, kind in (
        ("metric", metrics, float),
        ("user_metadata", user_metadata, str),
    ):
        if values is None:
            continue
        if not isinstance(values, Mapping):
            raise InvalidArgument(f"{what} is {values!r}; expected a dictionary")
        for name, value in values.items():
            try:
                fits = isinstance(name, str) and (
                    isinstance(value, str) if kind is str else float(value) is not None
                )
            except (TypeError, ValueError, OverflowError):
                fits = False
            if not fits or (kind is float and isinstance(value, str)):
                raise InvalidArgument(
                    f"{what} {name!r} is {value!r}; expected a {kind.__name__}"
                )


def dumper(name: str, each: Any) -> Callable[[], bytes]:
    def dump() -> bytes:
        data = each.io_state()
        if not isinstance(data, bytes):
            raise TypeError(
                f'io_state of "{name}" returned {type(data).__name__}; expected bytes'
            )
        return data

    return dump


def config_text(config: Any) -> str:
    try:
        return json.dumps(config)
    except TypeError as error:
        raise InvalidArgument(
            f"an option has a value of the wrong type: {error}"
        ) from None


def config_options(config: str | Mapping[str, Any]) -> dict[str, Any]:
    """The options of `Manager` that a configuration sets."""
    try:
        fields = json.loads(config) if isinstance(config, str) else dict(config)
    except ValueError as error:
        raise InvalidArgument(
            f"the configuration is not JSON: {error}; pass its text, or a dictionary"
        ) from None
    if "permanent" in fields:
        fields["save"] = fields.pop("permanent")
    if "async" in fields:
        fields["async_"] = fields.pop("async")
    return fields


def request(
    step: int | None,
    best: bool,
    path: Any,
    merge: bool,
    verify: bool,
    fall_back: bool,
    evolve: Mapping[str, Any] | None,
    kept: list[Any],
) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "best": best,
        "merge": merge,
        "verify": verify,
        "fall_back": fall_back,
    }
    if step is not None:
        fields["step"] = as_step(step)
    if path is not None:
        fields["path"] = path_of(path, kept)
    if evolve is not None:
        fields["evolve"] = evolve
    return fields
