"""Executors run the tasks of sweeps, futures and plans, with the results of one process."""

import os
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import pandas as pd
import pytest
from conftest import BUILD, EXAMPLES, STRAGGLER

import orrery

GRID = {"policy": ["static", "predictive-rebalance"], "run.steps": [12, 0]}
ASKED = {"model": "llama3-8b", "cluster": "dgx-h100", "gpus": [32, 64], "tokens": 1e10,
         "seeds": 10, "global_batch": 256}  # fmt: skip


class RayExecutor(Executor):
    """Ray as an executor of the standard library, in its simplest form."""

    def __init__(self, ray):
        self.ray = ray
        self.waiting = ThreadPoolExecutor(4)

    def submit(self, function, *arguments, **named):
        task = self.ray.remote(function).remote(*arguments, **named)
        return self.waiting.submit(self.ray.get, task)

    def shutdown(self, wait=True, *, cancel_futures=False):
        self.waiting.shutdown(wait=wait, cancel_futures=cancel_futures)


@pytest.fixture(scope="module")
def local():
    return everything(None)


def everything(executor):
    sweep = orrery.sweep(STRAGGLER, GRID, progress=False, executor=executor)
    choices = {"as it is": None, "steered": "predictive-rebalance"}
    futures = orrery.futures(STRAGGLER, at=2.0, count=10, seed=5, executor=executor,
                             choices=choices)  # fmt: skip
    return sweep, futures, orrery.plan(**ASKED, executor=executor)


def check_equal(found, local):
    pd.testing.assert_frame_equal(found[0], local[0])
    pd.testing.assert_frame_equal(found[1], local[1])
    assert found[1].attrs["begun"] == local[1].attrs["begun"]
    assert found[2].to_dict() == local[2].to_dict()


def test_processes_give_the_results_of_this_one(local):
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
        check_equal(everything(executor), local)


def test_errors_of_tasks_come_back():
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as executor:
        with pytest.raises(orrery.UsageError, match="no policy 'nonsense'"):
            orrery.sweep(STRAGGLER, {"policy": ["nonsense"]}, progress=False, executor=executor)
        big = orrery.load(EXAMPLES / "llama3-70b-512-h100.yaml", run__steps=1)
        grid = {"job.layout.pipeline": [4, 1]}
        rows = orrery.sweep(big, grid, progress=False, executor=executor)
        assert list(rows["status"]) == ["ok", "out-of-memory"]
        with pytest.raises(orrery.InputError, match="at the point job.layout.pipeline = 1"):
            orrery.sweep(big, grid, progress=False, impossible="raise", executor=executor)
        with pytest.raises(ValueError, match="record: expected no file"):
            orrery.futures(STRAGGLER, count=1, record="x.log", executor=executor)


class Counting(Executor):
    """An executor that runs tasks at once, and counts them."""

    def __init__(self):
        self.tasks = 0

    def submit(self, function, *arguments, **named):
        self.tasks += 1
        done = Future()
        done.set_result(function(*arguments, **named))
        return done


def test_each_part_is_a_task():
    executor = Counting()
    orrery.plan(**ASKED, executor=executor)
    assert executor.tasks == 2  # two sizes
    orrery.sweep(STRAGGLER, {"run.steps": [2, 3, 0]}, progress=False, executor=executor)
    assert executor.tasks == 2 + 2  # the third point is refused before
    orrery.futures(STRAGGLER, at=1.0, count=20, executor=executor)
    assert executor.tasks == 4 + 3  # eight futures in each


def test_dask_gives_the_results_of_this_process(local, monkeypatch):
    distributed = pytest.importorskip("distributed")
    path = os.pathsep.join([str(BUILD / "python"), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", path)
    size = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**size) as pool:
        with distributed.Client(pool) as client:
            check_equal(everything(client.get_executor()), local)


def test_ray_gives_the_results_of_this_process(local):
    ray = pytest.importorskip("ray")
    environment = {"env_vars": {"PYTHONPATH": str(BUILD / "python")}}
    ray.init(num_cpus=2, include_dashboard=False, runtime_env=environment, log_to_driver=False)
    try:
        with RayExecutor(ray) as executor:
            check_equal(everything(executor), local)
    finally:
        ray.shutdown()
