# SPDX-License-Identifier: Apache-2.0
"""Ranks that die, hang, raise, are preempted or never come."""

from __future__ import annotations

import re
import signal
import textwrap
import threading
import time

import pytest

import ckptdb

pytest.importorskip("numpy")
torch = pytest.importorskip("torch")
if not torch.distributed.is_available():
    pytest.skip("PyTorch without torch.distributed", allow_module_level=True)

from job import Job, run  # noqa: E402

DEADLINE = 4  # seconds; the library adds one for the owner's answer
LATE = 4  # what ranks that have failed take to agree, on a busy machine


# A trainer whose third save one rank never finishes: its io state waits.
TRAINER = """
import threading
class Position:
    def io_state(self):
        if manager.global_step == 3 and rank == bad:
            print("in the save", flush=True)
            misbehave()
        return b"rank %d" % rank
    def load_io_state(self, data):
        pass

state = {"weight": torch.full((1000,), float(0)), "position": Position()}
manager = ckptdb.Manager(path, state, save=ckptdb.save_every_n_steps(1),
                         ranks=ckptdb.torch.ranks(deadline=deadline),
                         io_state_resize="owners")
report = manager.restore_or_start()
print("restored", report.step, state["weight"][0].item())
begin = time.monotonic()
try:
    for step in range(3):
        state["weight"] += 1
        begin = time.monotonic()
        manager.step()
        manager.wait_until_finished()
except ckptdb.Error as error:
    print(f"{type(error).__name__} after {time.monotonic() - begin:.1f} s: {error}")
    sys.exit(3)
"""


def failed(printed: str) -> tuple[str, float, str]:
    """The class of a rank's error, the seconds until it, and its text."""
    match = re.search(r"^(\w+) after ([\d.]+) s: (.*)$", printed, re.M)
    assert match, printed
    return match[1], float(match[2]), match[3]


@pytest.mark.parametrize("bad", [0, 1])
def test_a_killed_rank_is_named_and_the_step_before_remains(tmp_path, path, bad):
    job = Job(
        tmp_path,
        3,
        "def misbehave(): time.sleep(60)\n" + TRAINER,
        path=path,
        bad=bad,
        deadline=DEADLINE,
    )
    job.await_line(bad, "in the save")
    time.sleep(0.5)  # the others wait for it
    job.processes[bad].send_signal(signal.SIGKILL)
    codes = [3, 3, 3]
    codes[bad] = -signal.SIGKILL
    assert job.wait() == codes
    for rank in {0, 1, 2} - {bad}:
        kind, seconds, text = failed(job.printed(rank))
        assert kind == "DeadlineExceeded"
        assert f"rank {bad} of 3 is missing" in text
        assert seconds < DEADLINE + LATE
    restored = run(
        tmp_path,
        2,
        "def misbehave(): pass\n" + TRAINER,
        path=path,
        bad=-1,
        deadline=60,
    )
    assert all("restored 2 2.0" in text for text in restored)


def test_a_rank_that_hangs_is_named_at_the_deadline(tmp_path, path):
    code = """
    def misbehave():
        time.sleep(25)
        print("continues", flush=True)
    """
    begin = time.monotonic()
    job = Job(
        tmp_path,
        2,
        textwrap.dedent(code) + TRAINER,
        path=path,
        bad=1,
        deadline=DEADLINE,
    )
    job.await_line(1, "in the save")
    # Nothing holds the exit of the rank that failed.
    assert job.processes[0].wait(2 * DEADLINE + 3 * LATE) == 3
    kind, seconds, text = failed(job.printed(0))
    assert kind == "DeadlineExceeded"
    assert "rank 1 of 2 is missing" in text
    assert DEADLINE <= seconds < DEADLINE + 1 + LATE
    assert "continues" not in job.printed(1)
    # The late rank learns the same, although the other has ended.
    assert job.wait()[1] == 3
    kind, _, late = failed(job.printed(1))
    assert kind == "DeadlineExceeded"
    assert "rank 1 of 2 is missing" in late
    assert time.monotonic() - begin < 90


def test_a_rank_that_raises_in_a_save_fails_it_on_all_ranks(tmp_path, path):
    job = Job(
        tmp_path,
        2,
        "def misbehave(): raise KeyError('no position')\n" + TRAINER,
        path=path,
        bad=1,
        deadline=60,
    )
    assert job.wait() == [3, 3]
    for rank in (0, 1):
        kind, _, text = failed(job.printed(rank))
        assert kind == "Internal"
        assert "rank 1" in text
        assert "no position" in text
    with ckptdb.Reader(path) as reader:
        assert [record.step for record in reader.steps()] == [1, 2]


def notices_of(world: int) -> list:
    from ckptdb.torch._ranks import _Notices

    store = torch.distributed.HashStore()
    return [_Notices(store, "job", rank, world) for rank in range(world)]


def test_the_cause_of_a_failure_wins_over_its_echo():
    failed, other = notices_of(2)
    await_others = failed._await

    def await_slowly(*args):
        missing = await_others(*args)
        time.sleep(0.3)  # the other is the first to write the common text
        return missing

    failed._await = await_slowly
    errors = []
    thread = threading.Thread(
        target=lambda: errors.append(failed.failure("a cable was cut"))
    )
    thread.start()
    while not other.has_failed():
        time.sleep(0.001)
    errors.append(other.failure(None))
    thread.join()
    assert [str(error) for error in errors] == ["rank 0 of 2: a cable was cut"] * 2


def test_an_operation_that_ends_when_its_wait_times_out_has_succeeded():
    from ckptdb.torch._ranks import _Collectives

    class Work:
        """Ends just after the first wait for it has timed out."""

        waits = 0

        def wait(self, timeout):
            self.waits += 1
            if self.waits == 1:
                raise RuntimeError("Operation timed out!")

        def is_completed(self):
            return self.waits > 0

    work = Work()
    _Collectives([None, None], notices_of(2)[0], 60)._run(lambda: work)
    assert work.waits == 2


def test_the_others_learn_why_a_rank_has_ended(tmp_path, path):
    code = """
    state = {"weight": torch.zeros(10)}
    try:
        with ckptdb.Manager(path, state, save=ckptdb.save_every_n_steps(1),
                            ranks=ckptdb.torch.ranks(deadline=30)) as manager:
            manager.restore_or_start()
            for step in range(4):
                if step == 2 and rank == 0:
                    raise ZeroDivisionError("by the trainer")
                manager.step()
    except ckptdb.DeadlineExceeded as error:
        print(error)
    """
    job = Job(tmp_path, 2, code, path=path)
    assert job.wait() == [1, 0]
    assert "ZeroDivisionError: by the trainer" in job.printed(0)
    expected = "rank 0 of 2 is missing: rank 0 raised ZeroDivisionError: by the trainer"
    assert expected in job.printed(1)


@pytest.mark.parametrize("bad", [0, 1])
def test_the_others_learn_the_error_of_a_state(tmp_path, path, bad):
    code = """
    class Loader:
        def state_dict(self):
            if rank == bad:
                raise ZeroDivisionError("of the loader")
            return {"n": 1}
        def load_state_dict(self, state):
            pass
    try:
        with ckptdb.Manager(path, {"loader": Loader()},
                            save=ckptdb.save_every_n_steps(1),
                            ranks=ckptdb.torch.ranks(deadline=30)) as manager:
            manager.restore_or_start()
            for step in range(4):
                manager.step()
    except ckptdb.Error as error:
        print(type(error).__name__, error)
    """
    printed = run(tmp_path, 2, code, path=path, bad=bad)
    why = "raised ZeroDivisionError: of the loader"
    assert printed[bad].startswith("Internal") and why in printed[bad]
    expected = rf"DeadlineExceeded rank {bad} of 2.*: .*raised Internal: .*{why}"
    assert re.search(expected, printed[1 - bad]), printed


def test_an_abort_has_the_reason_of_the_library():
    from ckptdb.torch._ranks import _Collectives

    class Work:
        def wait(self, timeout):
            raise RuntimeError("Operation timed out!")

        def is_completed(self):
            return False

    for why, expected in (
        ("rank 0: no space is left", "rank 0 of 2: no space is left"),
        (
            "rank 0: a collective was aborted because not all ranks joined it in time",
            "rank 0 of 2: no collective was joined within 60 s",
        ),
    ):
        notices, other = notices_of(2)
        other._set("alive", 1)
        collectives = _Collectives([None, None], notices, 60)
        collectives.abort(why)
        with pytest.raises(ckptdb.DeadlineExceeded) as caught:
            collectives._wait(Work())
        assert str(caught.value) == expected


def test_a_rank_that_does_not_open_the_manager_is_named(tmp_path, path):
    code = """
    if rank == 1:
        sys.exit(5)
    begin = time.monotonic()
    try:
        ckptdb.Manager(path, {"weight": torch.zeros(3)},
                       ranks=ckptdb.torch.ranks(deadline=2))
    except ckptdb.DeadlineExceeded as error:
        assert time.monotonic() - begin < 10
        print(error)
    """
    job = Job(tmp_path, 3, code, path=path)
    assert job.wait() == [0, 5, 0]
    for rank in (0, 2):
        assert "rank 1 of 3 did not open the manager within 2 s" in job.printed(rank)


def test_a_preempted_rank_ends_all(tmp_path, path):
    code = """
    state = {"weight": torch.zeros(3)}
    with ckptdb.Manager(path, state, save=ckptdb.save_at_steps([]),
                        ranks=ckptdb.torch.ranks(deadline=60)) as manager:
        manager.restore_or_start()
        for step in range(1000):
            if rank == 1 and step == 4:
                manager.set_preempted()
            if manager.step().preempted:
                break
        print("ended", manager.global_step)
    """
    printed = run(tmp_path, 2, code, path=path)
    steps = {re.search(r"ended (\d+)", text)[1] for text in printed}
    assert len(steps) == 1
    assert int(steps.pop()) < 1000
    with ckptdb.Reader(path) as reader:
        assert len(reader.steps()) == 1


# Ranks exchange notices from step 7 to 12 and from step 62 to 112.
EXCHANGES = """
state = {"weight": torch.zeros(3)}
manager = ckptdb.Manager(path, state, save=ckptdb.save_at_steps([10000]),
                         ranks=ckptdb.torch.ranks(deadline=deadline))
manager.restore_or_start()
begin = time.monotonic()
def train(last):
    global begin
    for step in range(manager.global_step, last):
        begin = time.monotonic()
        manager.step()
"""


@pytest.mark.parametrize("at", [50, 70])
def test_a_rank_that_dies_around_the_beginning_of_an_exchange_is_named(
    tmp_path, path, at
):
    code = """
    try:
        train(at)
        if rank == 1:
            os.kill(os.getpid(), 9)
        train(2000)
    except ckptdb.Error as error:
        print(f"{type(error).__name__} after {time.monotonic() - begin:.1f} s: {error}")
        sys.exit(3)
    """
    job = Job(
        tmp_path,
        3,
        "import os\n" + EXCHANGES + textwrap.dedent(code),
        path=path,
        at=at,
        deadline=DEADLINE,
    )
    assert job.wait() == [3, -signal.SIGKILL, 3]
    for rank in (0, 2):
        kind, seconds, text = failed(job.printed(rank))
        assert kind == "DeadlineExceeded"
        assert "rank 1 of 3 is missing" in text
        assert seconds < DEADLINE + LATE


@pytest.mark.parametrize("late", [0, 1])
def test_ranks_close_at_any_time_while_an_exchange_is_in_progress(tmp_path, path, late):
    code = """
    train(6)
    if rank == late:
        time.sleep(3)  # the others have ended
    train(8)
    begin = time.monotonic()
    manager.close()
    assert time.monotonic() - begin < 5
    print("closed")
    """
    for printed in run(
        tmp_path,
        3,
        EXCHANGES + textwrap.dedent(code),
        path=path,
        late=late,
        deadline=60,
    ):
        assert "closed" in printed


def test_a_preemption_during_an_exchange_reaches_all_ranks_at_the_next(tmp_path, path):
    code = """
    train(70)
    if rank == 1:
        manager.set_preempted()
    outcome = manager.step()
    while not outcome.preempted and manager.global_step < 3000:
        outcome = manager.step()
    print("ended", manager.global_step)
    manager.close()
    """
    printed = run(
        tmp_path, 2, EXCHANGES + textwrap.dedent(code), path=path, deadline=60
    )
    ended = [int(re.search(r"ended (\d+)", text)[1]) for text in printed]
    assert ended[0] == ended[1]
    assert 112 < ended[0] <= 1112


def test_a_manager_outlives_the_groups_of_the_trainer(tmp_path, path):
    code = """
    manager = ckptdb.Manager(path, {"weight": torch.zeros(3)},
                             save=ckptdb.save_every_n_steps(1),
                             ranks=ckptdb.torch.ranks(deadline=20))
    manager.restore_or_start()
    dist.barrier()
    dist.destroy_process_group()
    manager.step()
    manager.close()
    """
    run(tmp_path, 2, code, path=path)
    with ckptdb.Reader(path) as reader:
        assert [record.step for record in reader.steps()] == [1]
