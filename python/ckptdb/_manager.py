# SPDX-License-Identifier: Apache-2.0
"""The checkpoint manager for training loops."""

from __future__ import annotations

import inspect
import logging
import os
import weakref
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from types import TracebackType
from typing import Any

from . import _core, _open_managers
from ._arguments import (
    as_policy,
    as_step,
    check_names,
    check_options,
    check_policy,
    check_values,
    config_options,
    config_text,
    dumper,
    request,
    ship_config,
)
from ._core import KeepPolicy, PendingSave, SavePolicy, StepOutcome
from ._custom_table import CustomTable
from ._devices import Devices
from ._errors import (
    FailedPrecondition,
    Internal,
    InvalidArgument,
    Unavailable,
    python_names,
)
from ._evolve import split_functions
from ._object_stores import Target, path_of, url_of
from ._options import ShipOptions
from ._progress import ByteBar
from ._ranks import Connection, Ranks, check_alone, connect, ending, with_hint
from ._records import LoadedRule, RestoreReport, SaveReport, ShipReport
from ._restore import Restore, contents_of
from ._rules import Rule, exclude_parts, rule_of, rules_of
from ._save import Save
from ._state import Registered
from ._step_list import StepList
from ._tables import ArrayTable, as_sharding
from ._thread_safe_calls import ThreadSafeCalls
from ._whole_state import WholeState

_logger = logging.getLogger("ckptdb")

# Options of the configuration that are not JSON, and their names there.
_POLICIES = {"save": "permanent", "ephemeral": "ephemeral", "keep": "keep"}


class Manager(StepList, ThreadSafeCalls):
    """Saves, keeps and restores the state of a training loop.

        state = {"model": model, "optimizer": optimizer, "epoch": 0, "user": users}
        with ckptdb.Manager("ckpt", state,
                            save=ckptdb.save_every_n_steps(100),
                            keep=ckptdb.latest_n(3)) as manager:
            manager.restore_or_start()
            for step in range(manager.global_step, 10_000):
                train()
                if manager.step().preempted:
                    break

    `state` maps names to modules, optimizers and other objects with `state_dict`
    and `load_state_dict`; tensors and arrays; numbers and strings; `Table` and
    `ArrayTable`; objects with `io_state() -> bytes` and `load_io_state(bytes)`; and
    dictionaries, lists and tuples of these. It is looked at anew at each save and
    restore; a restore writes into tensors and arrays where they are, and replaces
    numbers, strings and immutable arrays in the dictionary.

    Options have the names and defaults of the configuration (docs/manager.md), and
    policies may be given as values, as functions for `save_if` and `keep_if`, or in
    its form; `save` is its `permanent`.
    `async_=False` saves in the foreground. `ranks` has the ranks of a job, from
    `ckptdb.torch.ranks` or `ckptdb.mpi.ranks`: all make the same calls in the same
    order, and rank 0 decides, owns the store, and saves what is the same on all.
    `sharding` says which rank has which rows of tables that do not say so.
    `shard=(rank, world_size)`, with `read_only`, restores the part of one rank.
    Tensors of PyTorch on CUDA devices are copied while the training continues, if
    ckptdb was built with CUDA; `staging_bytes` is the memory for this on each device.
    `store` has options of the store, such as {"lease_ms": 1000}.

    `ship` is where each committed step is uploaded in the background: a URL such as
    "s3://models/ctr", another target of `ckptdb.remote`, or a dictionary with the target
    as "to" and other keys of docs/manager.md, such as {"to": target, "keep": latest_n(20)}.
    Uploads neither fail nor delay a save, and are retried while the service does not
    answer; `shipping` returns the progress and the last error. `close` waits up to
    "close_wait" seconds, by default 60, for the newest step, and warns if it was not
    shipped. A missing store is created with the newest step that was shipped to
    `fetch_from`, a URL or another target. If nothing was shipped there, the manager warns
    and begins with an empty store; if the service does not answer, it raises. A store
    with steps is left unchanged. Only rank 0 uses `ship` and `fetch_from`. With
    `read_only`, `path` may be a target, too.

    `progress=True` shows bars on restores, and on saves in the foreground, where tqdm is
    installed. Warnings go to the logger "ckptdb" unless `on_warning` is set. `allow_pickle`
    permits values that are stored only by pickle.

    Leaving the `with` block after the loop saves the last step; after an exception
    it does not. One thread at a time may make calls, except where a method says
    otherwise. Exceptions: subclasses of `ckptdb.Error`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | Target,
        state: MutableMapping[str, Any],
        *,
        save: SavePolicy | Callable[..., Any] | Mapping[str, Any] | str | None = None,
        ephemeral: SavePolicy
        | Callable[..., Any]
        | Mapping[str, Any]
        | str
        | None = None,
        keep: KeepPolicy | Callable[..., Any] | Mapping[str, Any] | str | None = None,
        allow_pickle: bool = False,
        on_warning: Callable[[str], None] | None = None,
        on_saved: Callable[[SaveReport], None] | None = None,
        on_restored: Callable[[RestoreReport], None] | None = None,
        on_shipped: Callable[[ShipReport], None] | None = None,
        on_deleted: Callable[[int], None] | None = None,
        veto_ephemeral: Callable[[int], str | None] | None = None,
        now: Callable[[], float] | None = None,
        ranks: Ranks | None = None,
        sharding: Any = None,
        store: Mapping[str, Any] | None = None,
        read_threads: int | None = None,
        async_: bool = True,
        progress: bool = False,
        shard: tuple[int, int] | None = None,
        staging_bytes: int = 256 << 20,
        ship: Target | ShipOptions | None = None,
        fetch_from: Target | None = None,
        **options: Any,
    ) -> None:
        self.state = state
        self._allow_pickle = allow_pickle
        self._core: _core.Manager = None  # type: ignore[assignment]
        self._kept: list[Any] = []  # memory that a save or a restore uses
        self._restoring: Restore | None = None
        self._warned: set[str] = set()  # of differences
        self._whole = WholeState()
        self._connection: Connection | None = None
        check_options(
            state,
            on_warning=on_warning,
            on_saved=on_saved,
            on_restored=on_restored,
            on_shipped=on_shipped,
            on_deleted=on_deleted,
            veto_ephemeral=veto_ephemeral,
            now=now,
        )
        check_names(options, list(inspect.signature(Manager).parameters))
        self._targets: list[Any] = []  # keeps object stores of Python
        config = {
            **options,
            "path": path_of(path, self._targets),
            "async": async_,
        }
        if ship is not None:
            config["ship"] = ship_config(ship, self._targets)
        if fetch_from is not None:
            config["fetch_from"] = url_of(fetch_from, self._targets)
        self._warn = warn = on_warning or _logger.warning
        self._devices = Devices(
            staging_bytes, options.get("arena_bytes", 1 << 30), warn
        )
        objects: dict[str, Any] = {"on_warning": lambda text: warn(python_names(text))}
        for name, policy in (("save", save), ("ephemeral", ephemeral), ("keep", keep)):
            if isinstance(policy, (SavePolicy, KeepPolicy)) or callable(policy):
                objects[name] = as_policy(name, policy)
            elif policy is not None:
                check_policy(name, policy)
                config[_POLICIES[name]] = policy
        if on_saved is not None:
            saved = on_saved
            objects["on_saved"] = lambda fields: saved(SaveReport._of(fields))
        if on_shipped is not None:
            shipped = on_shipped
            objects["on_shipped"] = lambda fields: shipped(ShipReport(**fields))
        self._on_restored = on_restored
        for name, value in (
            ("on_deleted", on_deleted),
            ("veto_ephemeral", veto_ephemeral),
            ("now", now),
            ("sharding", None if sharding is None else as_sharding(sharding)),
            ("store", dict(store) if store is not None else None),
            ("read_threads", read_threads),
            ("shard", tuple(shard) if shard is not None else None),
        ):
            if value is not None:
                objects[name] = value
        world_size = 1 if ranks is None else ranks.world_size
        self._registered = Registered(state, world_size)
        # Reading these at each step bounds their memory.
        lookups = (getattr(t, "lookups", None) for _, t in self._registered.tables)
        self._lookups = {each for each in lookups if each is not None}
        self._bars = [ByteBar("restore"), ByteBar("save")] if progress else []
        for bar, name in zip(self._bars, ("read_progress", "save_progress")):
            report = bar.report()
            if report is not None and (name == "read_progress" or not async_):
                objects[name] = report
        if isinstance(config.get("evolve"), Mapping):
            config["evolve"], functions = split_functions(
                self._exclude_parts(config["evolve"]), self._registered.tables
            )
            if functions:
                objects["evolve_functions"] = functions
        always = rule_of(config.get("evolve"))
        self._rule_always: Callable[[], Rule] = lambda: always
        self._rule = self._rule_always
        self._read_only = bool(options.get("read_only", False))
        provide = weakref.WeakMethod(self._provide)
        if ranks is not None:
            self._connection = connect(ranks, config)
        elif not self._read_only:
            check_alone(self._registered.tables, sharding)
        try:
            self._core = _core.Manager(
                config_text(config),
                objects,
                lambda step: _call(provide, step),
                [
                    (name, table._core, table._sharding)
                    for name, table in self._registered.tables
                ],
                [
                    (name, dumper(name, each), each.load_io_state)
                    for name, each in self._registered.io_states
                ],
                None if self._connection is None else self._connection.coordinator,
            )
        except BaseException as error:
            self._disconnect(error)
            if ranks is None and isinstance(error, Unavailable):
                raise with_hint(error) from None
            raise
        _open_managers.add(self)

    @classmethod
    def from_config(
        cls,
        config: str | Mapping[str, Any],
        state: MutableMapping[str, Any],
        **options: Any,
    ) -> Manager:
        """A manager with the options of a configuration, JSON or a dictionary;
        `options` come on top of it."""
        fields = config_options(config)
        fields.update(options)
        if "path" not in fields:
            raise InvalidArgument('the configuration has no "path"')
        return cls(fields.pop("path"), state, **fields)

    # Called by the library.

    def _provide(self, step: Any) -> tuple[list[Any], list[Any]]:
        for _, table in self._registered.tables:
            if isinstance(table, ArrayTable):
                table._update()
        if step is None:
            save = Save(self._allow_pickle, self._registered, self._devices)
            save.add_all(self.state)
            self._kept = save.owners
            return save.tensors, save.objects
        rule = self._rule()
        restore = Restore(
            *contents_of(step, rule.names()),
            self._allow_pickle,
            self._registered,
            self._devices,
            rule,
        )
        restore.add_all(self.state)
        self._kept = restore.targets.owners
        self._restoring = restore
        return restore.targets.tensors, restore.objects

    def _exclude_parts(self, evolve: Mapping[str, Any]) -> Mapping[str, Any]:
        tables = {name for name, _ in self._registered.tables}

        def names() -> Iterator[str]:
            save = Save(self._allow_pickle, self._registered, self._devices)
            save.add_all(self.state)
            yield from (tensor[0] for tensor in save.tensors)
            yield from (name for name, _ in save.objects)

        return exclude_parts(evolve, set(self.state) - tables, names)

    def _restore(self, fields: dict[str, Any], or_start: bool) -> RestoreReport:
        self._rule = self._rule_always
        if "evolve" in fields:
            evolve, functions = split_functions(
                self._exclude_parts(fields.pop("evolve")), self._registered.tables
            )
            rule = rule_of(evolve)
            self._rule = lambda: rule
            fields["evolve"] = config_text({"evolve": evolve})
            fields["evolve_functions"] = functions
        return self._write(lambda: self._core.restore(fields, or_start))

    def _write(self, call: Callable[[], dict[str, Any]]) -> RestoreReport:
        """Restores by a call of the library."""
        try:
            with self._whole.restoring(self._core):
                report = RestoreReport._of(call())
                if report.fresh:
                    return report
                self._put_restored(report.loaded)
        finally:
            self._close_bars()
        if self._on_restored is not None:
            try:
                self._on_restored(report)
            except Exception as error:
                raise Internal(
                    f"on_restored raised {type(error).__name__}: {error}"
                ) from error
        return report

    def _close_bars(self) -> None:
        for bar in self._bars:
            bar.close()

    def _put_restored(self, loaded: LoadedRule) -> None:
        restore, self._restoring = self._restoring, None
        if restore is None:
            return
        tensors = {item.name for item in loaded.items if item.loaded}
        objects = self._core.take_loaded()
        self._whole.finish(
            self._core, lambda: restore.finish(self.state, objects, tensors)
        )
        for _, table in self._registered.tables:
            if isinstance(table, CustomTable) and not self._read_only:
                table._mark_lacking()
        for text in restore.differences():
            if text not in self._warned:  # at an earlier step of a follower
                self._warn(f"step {loaded.step} {text}")
            self._warned.add(text)
        self._kept = []

    # The training loop.

    @property
    def global_step(self) -> int:
        """The step trained last: 0, or the restored one, plus one a `step`."""
        return self._core.global_step()

    def restore_or_start(
        self,
        step: int | None = None,
        *,
        best: bool = False,
        path: str | os.PathLike[str] | Target | None = None,
        verify: bool = False,
        fall_back: bool = False,
        evolve: Mapping[str, Any] | None = None,
    ) -> RestoreReport:
        """Begins a training: restores the newest step, or leaves the state as it is
        if the store has no step at all. A damaged step, or one that does not fit the
        state, is an error, so that no run starts over by mistake. Raises
        InvalidArgument for a state that cannot be saved."""
        fields = request(
            step, best, path, False, verify, fall_back, evolve, self._targets
        )
        return self._restore(fields, True)

    def restore(
        self,
        step: int | None = None,
        *,
        best: bool = False,
        path: str | os.PathLike[str] | Target | None = None,
        merge: bool = False,
        verify: bool = False,
        fall_back: bool = False,
        evolve: Mapping[str, Any] | None = None,
    ) -> RestoreReport:
        """Restores a step, by default the newest, from which the training continues.

        `best` restores the step that is best by the option `best`; `path` one of
        another store, or of a URL or another target of `ckptdb.remote`; `merge` keeps
        rows that the step lacks; `verify` checks the whole step first; `fall_back`
        quarantines a damaged step and tries the one before it; `evolve` says how to
        restore a step whose items differ.

        Raises NotFound only if the store has no step, FailedPrecondition with the
        names of all items that do not fit, DataLoss for a damaged step. These change
        nothing, except FailedPrecondition for tied weights that the step has with
        different values: as after a `load_state_dict` that raises, or Ctrl-C, the state
        is then restored only partly, and another restore must succeed before the next
        step."""
        fields = request(
            step, best, path, merge, verify, fall_back, evolve, self._targets
        )
        return self._restore(fields, False)

    def load(
        self, rules: Sequence[Mapping[str, Any]] | str, *, dry_run: bool = False
    ) -> list[LoadedRule]:
        """Loads parts of steps by rules (docs/manager.md), such as
        [{"path": "base", "load": ["model.*"]}]. The training does not continue from
        these steps: the next save is full."""
        if isinstance(rules, Mapping):
            raise InvalidArgument("the rules are a dictionary; expected a list")
        rules = rules if isinstance(rules, str) else list(rules)
        text = rules if isinstance(rules, str) else config_text(rules)
        parsed = rules_of(rules)
        report: list[LoadedRule] = []
        # The library provides the memory of a rule after the reports of those before.
        self._rule = lambda: parsed[len(report)] if parsed else Rule()

        def finish(fields: dict[str, Any]) -> None:
            loaded = LoadedRule._of(fields)
            report.append(loaded)
            if dry_run:
                self._restoring = None
            else:
                self._put_restored(loaded)

        try:
            with self._whole.restoring(self._core):
                self._core.load(text, dry_run, finish)
        finally:
            self._close_bars()
        return report

    def step(
        self,
        metrics: Mapping[str, float] | None = None,
        user_metadata: Mapping[str, str] | None = None,
    ) -> StepOutcome:
        """Counts a trained step, and begins to save it if the schedule says so. The
        state may change as soon as the call returns. Raises the error of an earlier
        save once. `outcome.preempted` says to end the training."""
        self._whole.check()
        for lookups in self._lookups:
            lookups.take()
        try:
            outcome = self._core.step(metrics, user_metadata)
        except TypeError:
            check_values(metrics, user_metadata)
            raise
        if self._kept:  # nothing reads the state any more
            self._kept = []
        return outcome

    def step_to(
        self,
        step: int,
        metrics: Mapping[str, float] | None = None,
        user_metadata: Mapping[str, str] | None = None,
    ) -> StepOutcome:
        """The same for a trainer that counts steps itself: `step` was trained last."""
        self._whole.check()
        for lookups in self._lookups:
            lookups.take()
        try:
            outcome = self._core.step_to(as_step(step), metrics, user_metadata)
        except TypeError:
            check_values(metrics, user_metadata)
            raise
        self._kept = []
        return outcome

    def should_save(
        self, step: int, metrics: Mapping[str, float] | None = None
    ) -> tuple[bool, str]:
        """Whether `step_to` would save that step now, and why."""
        kind, reason = self._core.should_save(as_step(step), dict(metrics or {}))
        return kind != "none", reason

    def save(
        self,
        metrics: Mapping[str, float] | None = None,
        user_metadata: Mapping[str, str] | None = None,
        *,
        overwrite: bool = False,
    ) -> PendingSave:
        """Saves the step trained last, regardless of the schedule. Raises
        AlreadyExists if the step exists, unless `overwrite`."""
        self._whole.check()
        try:
            pending = self._core.save(
                dict(metrics or {}), dict(user_metadata or {}), overwrite
            )
        except TypeError:
            check_values(metrics, user_metadata)
            raise
        self._kept = []
        return pending

    def start_training(self) -> None:
        """Saves the initial step if the option `first_save` requires it."""
        self._whole.check()
        self._core.start_training()

    def finish_training(self) -> None:
        """Saves the last step if it is not saved yet, or makes it permanent,
        and waits until it is durable."""
        self._whole.check()
        self._core.finish_training()

    def abandon_steps(self) -> None:
        """Starts over in a store that has steps, with the state as it is."""
        self._core.abandon_steps()

    # Following another job, with read_only=True.

    def wait_for_step(self, timeout: float) -> RestoreReport:
        """Waits until the store has a newer step than the state, and restores it:
        of tables, only the changes. Raises DeadlineExceeded after `timeout`
        seconds."""
        self.await_step(timeout)
        return self.apply_step()

    def await_step(self, timeout: float) -> int:
        """The first half of `wait_for_step`: waits for a newer step, without using
        the state, and returns its number."""
        return self._core.await_step(timeout)

    def apply_step(self) -> RestoreReport:
        """The second half: restores the step that was waited for, or the newest. A
        server locks its state only for this call."""
        self._rule = self._rule_always
        return self._write(self._core.apply_step)

    # The end.

    def close(self) -> None:
        """Waits for the save in progress, with `ship` also for the newest step to be
        shipped, releases the store, and raises the save's error. Closing twice does
        nothing."""
        self._close(None)

    def _close(self, cause: BaseException | None) -> None:
        if self._core is not None:
            if self._connection is not None and cause is not None:
                self._connection.fail(ending(cause))
            try:
                self._core.close()
                _open_managers.discard(self)
            finally:
                self._disconnect(cause)
        self._kept = []

    def _disconnect(self, cause: BaseException | None) -> None:
        if self._connection is not None:
            self._connection.close(ending(cause))
            self._connection = None

    def __enter__(self) -> Manager:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None and not self._read_only:
            try:
                self.finish_training()
            except BaseException as failed:
                self._close(failed)
                raise
            self.close()
            return
        try:
            self._close(error)
        except Exception as closing:
            if error is None:
                raise
            _logger.warning("closing after an exception: %s", closing)

    def __repr__(self) -> str:
        return f"Manager(step {self.global_step})"

    def __reduce__(self) -> Any:
        raise TypeError(
            "a ckptdb.Manager cannot be pickled; open the store in the other "
            "process, with read_only=True or a Reader"
        )


def _call(method: weakref.WeakMethod[Any], *args: Any) -> Any:
    function = method()
    if function is None:
        raise FailedPrecondition("the manager no longer exists")
    return function(*args)
