# SPDX-License-Identifier: Apache-2.0
"""Policies, and those that are Python functions."""

from __future__ import annotations

import time

import pytest

import ckptdb

from test_callbacks import caused_by_own, fail


def test_policies_compose(path):
    state = {"n": 0}
    save = (
        ckptdb.save_every_n_steps(3) | ckptdb.save_at_steps([4, 7])
    ) & ~ckptdb.save_at_steps([6])
    keep = ckptdb.latest_n(1) | ckptdb.keep_steps([3]) | ckptdb.best_n("auc", 1)
    with ckptdb.Manager(path, state, save=save, keep=keep) as manager:
        outcomes = []
        for step in range(1, 11):
            outcome = manager.step(metrics={"auc": 1.0 if step == 4 else 0.5})
            outcomes.append(outcome.saved)
            assert outcome.step == step and outcome.preempted is False
            assert outcome.kind == ("permanent" if outcome.saved else "none")
            assert (outcome.save is not None) == outcome.saved
        assert [i + 1 for i, saved in enumerate(outcomes) if saved] == [3, 4, 7, 9]
        manager.wait_until_finished()
        assert [r.step for r in manager.steps()] == [3, 4, 9]
        saved, kept = manager.explain(4)
        assert "listed steps" in saved and "auc" in kept
        assert isinstance(save, ckptdb.SavePolicy) and isinstance(
            keep, ckptdb.KeepPolicy
        )
        assert isinstance(outcome, ckptdb.StepOutcome)
        assert manager.should_save(12, {})[0] and not manager.should_save(11)[0]


@pytest.mark.parametrize(
    "make",
    [
        lambda: ckptdb.save_every_n_steps(0),
        lambda: ckptdb.save_at_or_after_every_n_steps(-1),
        lambda: ckptdb.save_every_n_seconds(0),
        lambda: ckptdb.save_continuously(-1.0),
        lambda: ckptdb.save_at_steps([-1]),
        lambda: ckptdb.latest_n(-1),
        lambda: ckptdb.keep_every_n_steps(0),
        lambda: ckptdb.keep_nearest_to_every_n_steps(0),
        lambda: ckptdb.keep_every_n_seconds(-1),
        lambda: ckptdb.keep_for_n_seconds(-1),
        lambda: ckptdb.best_n("", 1),
        lambda: ckptdb.best_n("auc", -1),
        lambda: ckptdb.latest_of(ckptdb.keep_all(), -1),
    ],
)
def test_policies_check_their_numbers(make):
    with pytest.raises(ckptdb.InvalidArgument):
        make()


def test_a_policy_cannot_be_of_the_other_kind():
    with pytest.raises(TypeError):
        ckptdb.save_every_n_steps(1) | ckptdb.latest_n(1)
    with pytest.raises(TypeError):
        ckptdb.latest_of(ckptdb.save_initially(), 1)


@pytest.mark.parametrize(
    "save",
    [
        ckptdb.save_at_or_after_every_n_steps(2),
        ckptdb.save_every_n_seconds(1e6),
        ckptdb.save_continuously(),
        ckptdb.save_initially(),
    ],
)
def test_other_save_policies(path, save):
    with ckptdb.Manager(path, {"n": 0}, save=save, first_save="always") as manager:
        for _ in range(3):
            manager.step()
            manager.wait_until_finished()
        assert manager.steps()


@pytest.mark.parametrize(
    ("keep", "kept"),
    [
        (ckptdb.keep_all(), [1, 2, 3, 4, 5]),
        (ckptdb.keep_every_n_steps(2), [2, 4, 5]),
        (ckptdb.keep_nearest_to_every_n_steps(4), [1, 4, 5]),
        (ckptdb.keep_every_n_seconds(1e6), [1, 5]),
        (ckptdb.keep_for_n_seconds(1e6), [1, 2, 3, 4, 5]),
        (ckptdb.latest_of(ckptdb.keep_steps([1, 2, 3]), 2), [2, 3, 5]),
        (ckptdb.best_n("m", 2, lower_is_better=True), [1, 2, 5]),
        (ckptdb.best_n("x", 2, keep_without_metric=False), [5]),
    ],
)
def test_keep_policies(path, keep, kept):
    with ckptdb.Manager(
        path, {"n": 0}, save=ckptdb.save_every_n_steps(1), keep=keep
    ) as manager:
        for step in range(1, 6):
            manager.step(metrics={"m": float(step)})
        manager.wait_until_finished()
        assert [r.step for r in manager.steps()] == kept


def test_functions_as_policies(path):
    contexts, infos = [], []

    def saves(context: ckptdb.SaveContext) -> bool:
        history = [info.step for info in context.history()]
        contexts.append(
            (context.step, context.preempted, dict(context.metrics), history)
        )
        assert abs(context.now - time.time()) < 60
        assert context.last is None or context.last.step < context.step
        assert context.saving in (True, False)
        return context.step % 2 == 0

    def keeps(info: ckptdb.StepInfo) -> bool:
        infos.append(info.step)
        assert abs(info.time - time.time()) < 60 and not info.ephemeral
        return info.metrics["m"] > 2

    def keeps_all(steps, now):
        assert abs(now - time.time()) < 60
        return [info.step == 2 for info in steps]

    keep = ckptdb.keep_if("high", keeps) | ckptdb.keep_function("second", keeps_all)
    with ckptdb.Manager(
        path, {"n": 0}, save=ckptdb.save_if("even", saves), keep=keep
    ) as manager:
        for step in range(1, 9):
            manager.step(metrics={"m": 3.0 if step == 4 else 1.0})
            manager.wait_until_finished()
        assert [r.step for r in manager.steps()] == [2, 4, 8]
        assert "even" in manager.explain(4)[0] and "high" in manager.explain(4)[1]
    assert contexts[0] == (1, False, {"m": 1.0}, [])
    assert contexts[-1][3] == [2, 4, 6] and 6 in infos


@pytest.mark.parametrize("policy", ["save", "keep_if", "keep_function", "result"])
def test_exceptions_of_policies(path, policy):
    options = {
        "save": {"save": ckptdb.save_if("own", fail)},
        "keep_if": {"keep": ckptdb.keep_if("own", fail)},
        "keep_function": {"keep": ckptdb.keep_function("own", fail)},
        "result": {"keep": ckptdb.keep_function("own", lambda steps, now: 5)},
    }[policy]
    options.setdefault("save", ckptdb.save_every_n_steps(1))
    manager = ckptdb.Manager(path, {"n": 0}, **options)
    with pytest.raises(ckptdb.Error) as caught:
        for _ in range(3):
            manager.step()
            manager.wait_until_finished()
    assert "own" in str(caught.value)
    if policy != "result":
        assert type(caught.value) is ckptdb.Internal and caused_by_own(caught)
    manager.close()
