# SPDX-License-Identifier: Apache-2.0
"""Checks that an optimizer's state in a step fits the live optimizer. PyTorch's
`load_state_dict` compares only the sizes of parameter groups."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from . import _arrays

# Hyperparameters of PyTorch's optimizers, except flags that some versions lack.
_HYPERPARAMETERS = frozenset(
    "alpha amsgrad beta2_decay betas centered d dampening eps etas history_size "
    "initial_accumulator_value lambd lr_decay max_eval max_iter momentum momentum_decay "
    "nesterov ns_coefficients ns_steps rho step_sizes t0 tolerance_change "
    "tolerance_grad weight_decay".split()
)
_FLAG = "decoupled_weight_decay"  # by which AdamW differs from Adam
# State that has the shape of its parameter, in PyTorch's own optimizers.
_LIKE_PARAMETER = frozenset(
    "acc_delta ax exp_avg exp_avg_sq exp_inf grad_avg max_exp_avg_sq momentum_buffer "
    "prev square_avg step_size sum".split()
)
_SHOWN = 5

Forms = Mapping[str, tuple[str, tuple[int, ...]]]  # of a step's tensors
Groups = list[dict[str, Any]]


def groups_of(state: Any) -> Groups | None:
    """The parameter groups of an optimizer's state dictionary, or of its description
    in a step; None for other objects."""
    groups = state.get("param_groups") if isinstance(state, Mapping) else None
    if not isinstance(groups, list) or not all(
        isinstance(group, dict) and isinstance(group.get("params"), list)
        for group in groups
    ):
        return None
    return groups


def difference(stored: Groups, live: Groups) -> str:
    """Why the stored groups are not those of the optimizer; empty if they fit."""
    if len(stored) != len(live):
        return (
            f"it has {len(live)} parameter groups, and the step's optimizer had "
            f"{len(stored)}"
        )
    for number, (before, now) in enumerate(zip(stored, live)):
        for compare in (_names, _sizes, _kinds):
            text = compare(before, now)
            if text:
                return f"{text}, in parameter group {number}"
    return ""


def _names(stored: dict[str, Any], live: dict[str, Any]) -> str:
    before, now = names_of(stored), names_of(live)
    if before is None or now is None or sorted(_keys(stored)) == sorted(_keys(live)):
        return ""
    lacking = [name for name in now if name not in before]
    gone = [name for name in before if name not in now]
    return f"the step lacks the parameters {_listed(lacking)}, and has {_listed(gone)}"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{names[:_SHOWN]}{more}"


def _sizes(stored: dict[str, Any], live: dict[str, Any]) -> str:
    before, now = len(stored["params"]), len(live["params"])
    if before == now:
        return ""
    return f"it has {now} parameters, and the step's optimizer had {before}"


def _kinds(stored: dict[str, Any], live: dict[str, Any]) -> str:
    before, now = stored.keys() & _HYPERPARAMETERS, live.keys() & _HYPERPARAMETERS
    if before != now:
        return (
            f"the step was saved with another optimizer: it lacks the options "
            f"{sorted(now - before)}, and has {sorted(before - now)}"
        )
    flags = [stored.get(_FLAG), live.get(_FLAG)]
    # Adam of older versions lacks the flag. Adamax, without it, else equals RAdam.
    if flags[0] == flags[1] or (None in flags and "amsgrad" in before):
        return ""
    if None in flags:
        return (
            "the step was saved with another optimizer: "
            f"{'the step' if flags[0] is None else 'the state'} lacks the option {_FLAG}"
        )
    return (
        f"the step was saved with another optimizer: it has {_FLAG}={flags[0]}, as "
        f"{'AdamW' if flags[0] else 'Adam'}, and the state's has {flags[1]}"
    )


def names_of(group: dict[str, Any]) -> list[str] | None:
    """The names of a group's parameters, in the order of its `params`."""
    names = group["params"]  # of TorchRec's KeyedOptimizer
    if not all(isinstance(name, str) for name in names):
        names = group.get("param_names")
    if not isinstance(names, list) or len(names) != len(group["params"]):
        return None
    return names if len(set(names)) == len(names) else None


def _keys(group: dict[str, Any]) -> list[str]:
    """The names of a group's parameters without the prefixes that
    DistributedDataParallel and torch.compile put before them, if they stay unique."""
    names = names_of(group) or []
    if names == group["params"]:
        return names
    keys = [
        name.removeprefix("module.").replace("_orig_mod.", "").removeprefix("module.")
        for name in names
    ]
    return keys if len(set(keys)) == len(keys) else names


def places_of(stored: Groups, live: Groups) -> dict[int, int]:
    """Maps parameter numbers of the step to those of the optimizer, for parameters
    whose numbers differ. The groups must fit."""
    places: dict[int, int] = {}
    for before, now in zip(stored, live):
        names, wanted = _keys(before), _keys(now)
        if names and wanted and names != wanted:
            numbers = dict(zip(wanted, now["params"]))
            places.update((n, numbers[k]) for n, k in zip(before["params"], names))
    return places


def reorder(state: dict[str, Any], live: Groups) -> None:
    """Puts the parameters of a restored state dictionary into the optimizer's order."""
    for restored, now in zip(state["param_groups"], live):
        names, wanted = _keys(restored), _keys(now)
        if names and wanted:
            numbers = dict(zip(names, restored["params"]))
            restored["params"] = [numbers[name] for name in wanted]
            if "param_names" in restored:
                restored["param_names"] = list(now["param_names"])


def _torch_optimizer(live: Any) -> Any:
    """The optimizer of PyTorch that `live` is or wraps, as Accelerate's does; None for
    other objects."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(live, torch.optim.Optimizer):
        return None
    inner = getattr(live, "optimizer", None)
    return inner if isinstance(inner, torch.optim.Optimizer) else live


def _is_of_torch(optimizer: Any) -> bool:
    """Whether PyTorch defines its class, whose state has the dtype of the parameters."""
    return type(optimizer).__module__.startswith("torch.optim.")


def _parameters(groups: Groups) -> Iterator[Any]:
    for group in groups:
        yield from group["params"]


def misshapen(
    live: Any, forms: Forms, prefix: str, places: Mapping[int, int]
) -> dict[int, dict[str, Any]]:
    """Tensors in the shapes of the parameters, for state that the step has in another
    shape: the library then reports both. PyTorch would fail at the next `step`.
    `prefix` begins the state's names; `places` are the numbers in the optimizer."""
    optimizer = _torch_optimizer(live)
    found: dict[int, dict[str, Any]] = {}
    if optimizer is None or not _is_of_torch(optimizer):
        return found
    torch = sys.modules["torch"]
    parameters = list(_parameters(optimizer.param_groups))
    for name, (dtype, shape) in forms.items():
        number, _, key = name.removeprefix(prefix).partition(".")
        if key not in _LIKE_PARAMETER or not name.startswith(prefix):
            continue
        index = int(number) if number.isdecimal() else len(parameters)
        place = places.get(index, index)
        if place >= len(parameters) or torch.nn.parameter.is_lazy(parameters[place]):
            continue
        if tuple(parameters[place].shape) != shape:
            found.setdefault(index, {})[key] = torch.zeros_like(
                parameters[place],
                dtype=_arrays.torch_dtype(dtype),
                requires_grad=False,
            )
    return found


def keep_dtypes(live: Any, restored: Mapping[str, Any]) -> None:
    """Puts back state that PyTorch's `load_state_dict` has converted to the dtype of its
    parameter, such as the float32 weights of a bf16 parameter. Tensors of PyTorch's own
    optimizers have that dtype, except scalars: others are of a converted model."""
    optimizer = _torch_optimizer(live)
    if optimizer is None:
        return
    own = sys.modules["torch"].optim.Optimizer.load_state_dict
    if type(optimizer).load_state_dict is not own:
        return
    scalars = _is_of_torch(optimizer)
    numbers = _parameters(restored["param_groups"])
    for number, parameter in zip(numbers, _parameters(optimizer.param_groups)):
        state = optimizer.state.get(parameter)
        if state is not None:
            _put_back(state, restored["state"].get(number), scalars)


def _put_back(now: Any, restored: Any, scalars: bool) -> Any:
    """The value `now` of an optimizer's state with tensors in their restored dtypes."""
    if _arrays.is_torch(now) and _arrays.is_torch(restored):
        differs = now.dtype != restored.dtype and not (scalars and restored.dim() > 0)
        return restored.to(now.device) if differs else now
    if isinstance(now, dict) and isinstance(restored, Mapping):
        for key in now.keys() & restored.keys() - {"step"}:  # which PyTorch converts
            now[key] = _put_back(now[key], restored[key], scalars)
    if isinstance(now, list) and isinstance(restored, list):
        now[:] = [_put_back(*pair, scalars) for pair in zip(now, restored)]
    return now
