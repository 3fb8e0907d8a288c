# SPDX-License-Identifier: Apache-2.0
"""The exceptions of ckptdb: one class for each status code of the library."""

from __future__ import annotations

import re

from . import _core

# How the library's messages name options, calls and policies.
_OPTION = re.compile(
    r"\b(?:ManagerOptions|RestoreRequest|SaveRequest|SaveSpec|StoreOptions|"
    r"ReadOptions|TableOptions|EvolvePolicy|RemoteOptions|PushOptions|FetchOptions|"
    r"VerifyRemoteOptions|CollectOptions|ShipperOptions)::(?:\w+(?:::|\.))*(\w+)"
)
_OPTIONS = {"schedule": "save", "to": "ship"}
_NAMES = {
    "rows come from Insert and Find": "rows come from insert and find",
    "set evolve, which renames items, fills and converts slots, and leaves unchanged new "
    "items and those that it excludes": "pass evolve={} to leave new items unchanged, or "
    'one that also excludes changed items ({"exclude": [names]}), renames '
    "items and fills slots",
    "set cast, which converts it": 'evolve={"cast": True} converts it',
    "give ModelState::AddTable or sharding": "give the table or the manager sharding=",
    "TableSharding::BySlices()": '"slices"',
    "such as TableSharding::ByModulo()": 'such as "modulo"',
    "ByModulo()": '"modulo"',
    "ByFunction(name, rank_of)": '("function", name, f)',
    "ByRange(rows)": '("range", rows)',
    "TableSharding::ByRange": 'sharding=("range", ...)',
    "Replicated()": '"replicated"',
    "give a tensor that is divided among ranks a TensorState::global_shape": "make a "
    "tensor that is divided among ranks a DTensor",
    "register it on all ranks, or as an io state if ranks differ": "put it into the "
    "state of all ranks; an object with io_state and load_io_state is saved by each rank",
    "call MarkUpserted for each row that changes": "call mark for each row that "
    'changes; scores of a KVTable with changes="scores" must not fall: give changed rows '
    'higher ones, or use changes="marks"',
    "call Restore, or WaitForStep to follow the store": "call restore, or wait_for_step "
    "to follow the store",
    "push with take_over (--take-over) to replace them": "push with take_over=True to "
    "replace them",
    "build it with CKPTDB_REMOTE=ON": "pass a store of obstore instead, such as "
    "obstore.store.S3Store",
    "ckptdb remote push": "ckptdb.remote.push",
    "ckptdb remote fetch URL STORE": "ckptdb.remote.fetch",
    "set busy to kWait": 'set busy to "wait"',
    "WaitUntilFinished": "wait_until_finished",
    "MarkUpserted": "mark",
    "EvolvePolicy": "evolve",
    "schedule.permanent": "save",
    "schedule.ephemeral": "ephemeral",
    "SaveAtSteps({})": "save_at_steps([])",
    "AbandonSteps": "abandon_steps",
    "FinishTraining": "finish_training",
    "SetPreempted": "set_preempted",
    "RestoreOrStart": "restore_or_start",
    "StartTraining": "start_training",
    "StepTo": "step_to",
}
_NAME = re.compile(r"\b(?:" + "|".join(re.escape(name) for name in _NAMES) + r")(?!\w)")

# A position in the JSON text into which Python converts its arguments.
_PLACE = re.compile(r" \(line 1, column \d+\)$")


def python_names(text: str) -> str:
    """A message of the library with the names that Python has."""
    text = _PLACE.sub("", text)
    text = _OPTION.sub(lambda option: _OPTIONS.get(option[1], option[1]), text)
    return _NAME.sub(lambda name: _NAMES[name[0]], text)


class Error(Exception):
    """An error of the library. Its text names the offending value, the limit and
    the remedy. If Python code that the library called has raised, that exception
    is the `__cause__`."""

    code: str = "unknown"
    _number = 2  # of the status code


class Cancelled(Error):
    """The call was ended by a cancellation or a preemption."""

    code = "cancelled"


class InvalidArgument(Error, ValueError):
    """An argument or an option is not valid. Nothing has changed."""

    code = "invalid_argument"


class DeadlineExceeded(Error, TimeoutError):
    """A wait took longer than its timeout or deadline."""

    code = "deadline_exceeded"


class NotFound(Error, KeyError):
    """A step, an item or a store does not exist."""

    code = "not_found"

    def __str__(self) -> str:
        return Exception.__str__(self)  # KeyError would show a repr


class AlreadyExists(Error):
    """The step exists already."""

    code = "already_exists"


class PermissionDenied(Error, PermissionError):
    """The file system refuses the access."""

    code = "permission_denied"


class ResourceExhausted(Error):
    """The disk is full, or there is too little memory or too few open files."""

    code = "resource_exhausted"


class FailedPrecondition(Error):
    """The state of the store or the manager does not permit the call."""

    code = "failed_precondition"


class Aborted(Error):
    """Another process removed or changed data that the call used."""

    code = "aborted"


class OutOfRange(Error, IndexError):
    """A number is outside of the valid range."""

    code = "out_of_range"


class Unimplemented(Error, NotImplementedError):
    """The operation is not available."""

    code = "unimplemented"


class Internal(Error):
    """Code that the library called has raised, or the library has a defect."""

    code = "internal"


class Unavailable(Error):
    """Another process owns the store, or an I/O error occurred. `holder` names the
    owner's process and host, or is None."""

    code = "unavailable"
    holder: str | None = None


class DataLoss(Error):
    """Stored data is damaged or missing. The text names the step and the file."""

    code = "data_loss"


_BY_NUMBER: dict[int, type[Error]] = {
    1: Cancelled,
    3: InvalidArgument,
    4: DeadlineExceeded,
    5: NotFound,
    6: AlreadyExists,
    7: PermissionDenied,
    8: ResourceExhausted,
    9: FailedPrecondition,
    10: Aborted,
    11: OutOfRange,
    12: Unimplemented,
    13: Internal,
    14: Unavailable,
    15: DataLoss,
}


for _number, _type in _BY_NUMBER.items():
    _type._number = _number


def _make(number: int, message: str, holder: str | None) -> Error:
    error = _BY_NUMBER.get(number, Error)(python_names(message))
    if isinstance(error, Unavailable):
        error.holder = holder
    return error


_core._set_make_error(_make)
