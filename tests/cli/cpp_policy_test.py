"""A policy in C++ that is built outside of Orrery, as `orrery new policy --cpp` writes it."""

import json
import os
import subprocess
import sys

import pytest
from conftest import BRISK, BUILD, EXAMPLES, ROOT, STRAGGLER, orrery
from recorded_run_test import SCENARIO, rehearse

sys.path.insert(0, str(BUILD / "python"))
KILL = EXAMPLES / "kill-one-rank.yaml"
OTHERS = """
#include <memory>
#include <stdexcept>

#include "lost_ranks.hpp"

class Fails : public LostRanks {
 public:
  void observe(orrery::Context& context, const orrery::Observation& seen,
               orrery::DecisionList& decisions) override {
    LostRanks::observe(context, seen, decisions);
    if (seen.sequence == 3) throw std::runtime_error("my map has no such key");
  }
};

int main() { return orrery::serve_policy_program(API, [] { return std::make_unique<Fails>(); }); }
"""
MORE = """
orrery_add_policy(fails others.cpp)
target_compile_definitions(fails PRIVATE API=orrery::kPolicyApi)
orrery_add_policy(of-tomorrow others.cpp)
target_compile_definitions(of-tomorrow PRIVATE API=7)
"""


def succeed(*command, **more):
    result = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=280, **more
    )
    assert result.returncode == 0, f"{result.stdout}\n{result.stderr}"
    return result.stdout


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """The generated project, built against the installed package, beside two programs more."""
    folder = tmp_path_factory.mktemp("outside")
    installed = folder / "installed"
    succeed("cmake", "--install", BUILD, "--component", "policy", "--prefix", installed)
    written = orrery("new", "policy", "lost-ranks", "--cpp", "-o", folder)
    assert written.returncode == 0, written.stderr
    made = folder / "lost_ranks"
    assert sorted(path.name for path in made.iterdir()) == [
        "CMakeLists.txt", "README.md", "lost_ranks.cpp", "lost_ranks.hpp", "lost_ranks_test.cpp",
    ]  # fmt: skip
    (made / "others.cpp").write_text(OTHERS)
    with (made / "CMakeLists.txt").open("a") as lists:
        lists.write(MORE)
    succeed("cmake", "-S", made, "-B", made / "build", f"-DCMAKE_PREFIX_PATH={installed}",
            f"-DORRERY_POLICY_FOLDER={folder / 'by-name'}")  # fmt: skip
    succeed("cmake", "--build", made / "build", "--parallel", 2)
    return made


def test_its_test_passes(project):
    assert "100% tests passed" in succeed("ctest", "--test-dir", project / "build")


def test_it_names_no_header_of_the_sources(project):
    used = (project / "build" / "CMakeFiles" / "lost-ranks.dir" / "flags.make").read_text()
    assert str(BUILD.parent / "policies") not in used and "installed/include" in used


def test_it_decides_the_same_in_both_worlds_and_replays(project, tmp_path):
    traces = set()
    for world in ("simulate", "live"):
        log = tmp_path / world
        result = orrery(world, KILL, "--policy", project / "build" / "lost-ranks", "--record", log,
                        "--json")  # fmt: skip
        assert result.returncode == 0, result.stderr
        report = json.loads(result.stdout)
        assert report["decisions"] == 1 and report["failures"]
        assert report["ranks_at_end"] in (None, 3)  # the simulator does not count them
        traces.add(report["decision_trace_sha256"])
        replay = orrery("replay", log, "--policy", project / "build" / "lost-ranks", "--json")
        assert replay.returncode == 0, replay.stdout + replay.stderr
        refused = orrery("replay", log)
        assert f"--policy {project / 'build' / 'lost-ranks'}" in refused.stderr
    assert len(traces) == 1


def test_it_runs_by_name_and_beside_others(project, tmp_path):
    unknown = orrery("simulate", KILL, "--policy", "lost-ranks")
    assert unknown.returncode == 2 and "there is no policy 'lost-ranks'" in unknown.stderr
    succeed("cmake", "--install", project / "build")
    os.environ["ORRERY_POLICY_PATH"] = f"/nowhere:{project.parent / 'by-name'}"
    try:
        log = tmp_path / "log"
        given = ["--policy", "lost-ranks", "--policy", "checkpoint-interval"]
        result = orrery("simulate", KILL, *given, "--record", log, "--json")
        assert result.returncode == 0, result.stderr
        assert json.loads(result.stdout)["decisions"] >= 1
        assert orrery("replay", log, *given).returncode == 0
        live = orrery("live", KILL, *BRISK, *given, "--json")
        assert live.returncode == 0, live.stderr
        assert json.loads(live.stdout)["decisions"] >= 1
        check_other_commands(tmp_path)
    finally:
        del os.environ["ORRERY_POLICY_PATH"]


def check_other_commands(folder):
    """The other commands that docs/cpp-policies.md names start the program by its name."""
    (row,) = json.loads(
        orrery("compare-policies", KILL, "--policies", "lost-ranks", "--json").stdout
    )
    assert (row["policy"], row["decisions"]) == ("lost-ranks", 1)
    scenario, trace = folder / "survival.yaml", folder / "jobs.csv"
    scenario.write_text(SCENARIO)
    rehearsed = rehearse("--scenario", scenario, "--policy", "lost-ranks", "--json")
    assert json.loads(rehearsed.stdout)["simulation"]["decisions"] >= 1, rehearsed.stderr
    # The policy decides about losses only: all jobs wait.
    trace.write_text("job_id,submit_s,num_gpus,duration_s\na,0,1,60\n")
    cluster = ["--nodes", 1, "--gpus-per-node", 2, "--policy", "lost-ranks"]
    jobs = orrery("jobs", trace, *cluster)
    assert jobs.returncode == 1
    assert "1 of 1 jobs never ran under lost-ranks" in jobs.stderr
    live = orrery("live", "--jobs", trace, *cluster, "--json")
    assert live.returncode == 0, live.stderr
    report = json.loads(live.stdout)
    assert report["equal"] and (report["jobs"], report["starts"]) == (1, 0)
    # A program without PyTorch has no step that a policy could observe.
    run = orrery("run", "--policy", "lost-ranks", "--", "true")
    assert "orrery run: policies lost-ranks in mode drive" in run.stderr, run.stderr


def test_another_version_is_refused_by_name(project):
    result = orrery("simulate", KILL, "--policy", project / "build" / "of-tomorrow")
    assert result.returncode == 3
    assert "of-tomorrow: expected a policy of API version 0, found version 7; build" in (
        result.stderr
    )


def test_an_exception_names_policy_call_and_instant(project):
    given = ["--policy", project / "build" / "fails"]
    result = orrery("simulate", KILL, *given)
    assert result.returncode == 3
    assert "fails failed in call 3 at " in result.stderr
    assert "my map has no such key" in result.stderr
    result = orrery("simulate", KILL, *given, "--on-policy-error", "static", "--json")
    assert result.returncode == 0, result.stderr
    assert "my map has no such key" in json.loads(result.stdout)["hand_over"]["policy_failure"]


def test_what_is_no_policy_is_refused(project, tmp_path):
    result = orrery("simulate", KILL, "--policy", "/bin/true")
    assert result.returncode == 3
    assert "/bin/true: expected a policy, which is a program built with" in result.stderr
    result = orrery("simulate", KILL, "--policy", tmp_path / "absent")
    assert result.returncode == 3 and "found no executable file" in result.stderr
    alone = subprocess.run([project / "build" / "lost-ranks"], capture_output=True, text=True)
    assert alone.returncode == 2 and "orrery simulate SCENARIO --policy" in alone.stderr


def test_the_build_folder_is_a_package_too(project, tmp_path):
    succeed("cmake", "-S", project, "-B", tmp_path, f"-DCMAKE_PREFIX_PATH={BUILD}")
    succeed("cmake", "--build", tmp_path, "--target", "lost-ranks")
    result = orrery("simulate", KILL, "--policy", tmp_path / "lost-ranks", "--json")
    assert json.loads(result.stdout)["decisions"] == 1, result.stderr


OUTSIDE = ROOT / "tests" / "cli" / "outside"
IN_PYTHON = ROOT / "tests" / "python" / "outside_policies.py"
SPARES = ["run.steps=30", "job.global_batch=8", "job.pace.micro_batch=20 ms",
          "job.sequence_length=8", "cluster.nodes=2", "survival.replacement=300 ms",
          "faults=[{at_step: 16, gpu: 1, down: true}]"]  # fmt: skip
SLOW_GPU = [*SPARES[:-1], "job.global_batch=16", "run.steps=24",
            "faults=[{at_step: 6, gpu: 2, rate: 0.33}]"]  # fmt: skip
SLOW_LINK = ["run.steps=24", "job.pace.micro_batch=40 ms", "live.link_rate=2 MB/s"]
#: Policies in C++ and the scenario in which each decides.
SAME = {
    "hot-spares": (STRAGGLER, SPARES),
    "guard": (STRAGGLER, SLOW_GPU),
    "deep-compression": (EXAMPLES / "compressed-4-ranks.yaml", SLOW_LINK),
}


@pytest.fixture(scope="module")
def programs(project):
    """Three policies, each in a project of `orrery new policy`, built against the package."""
    folder, installed, made = project.parent, project.parent / "installed", {}
    for name in SAME:
        assert orrery("new", "policy", name, "--cpp", "-o", folder).returncode == 0
        file = name.replace("-", "_")
        source = folder / file
        (source / f"{file}.hpp").write_text((OUTSIDE / f"{file}.hpp").read_text())
        succeed("cmake", "-S", source, "-B", source / "build", f"-DCMAKE_PREFIX_PATH={installed}")
        succeed("cmake", "--build", source / "build", "--target", name)
        made[name] = source / "build" / name
    return made


def decisions_of(log):
    """Decisions with their reasons, their outcomes, and the reasons of the outcomes."""
    from orrery import read_log  # the module, not the command line

    columns = ["action", "setting", "parameters", "why", "outcome", "reason"]
    return read_log(log).decisions[columns].astype(str).values.tolist()


@pytest.mark.parametrize("name", list(SAME))
def test_a_policy_in_cpp_decides_as_the_one_in_python(programs, name, tmp_path):
    """Those in Python decide alike in both worlds: tests/python/outside_policies_test.py and
    slot_policies_test.py."""
    scenario, changes = SAME[name]
    in_python = f"{IN_PYTHON}:{name.title().replace('-', '')}"
    sets = [word for change in changes for word in ("--set", change)]
    traces, decided = set(), []
    runs = [("simulate", programs[name]), ("live", programs[name]), ("simulate", in_python)]
    for number, (world, policy) in enumerate(runs):
        log = tmp_path / str(number)
        result = orrery(world, scenario, "--policy", policy, "--record", log, "--json", *sets)
        assert result.returncode == 0, result.stderr
        traces.add(json.loads(result.stdout)["decision_trace_sha256"])
        decided.append(decisions_of(log))
        replayed = orrery("replay", log, "--policy", policy)
        assert replayed.returncode == 0, replayed.stderr
    assert decided[0] and decided[0] == decided[1] == decided[2]
    assert all(row[3] for row in decided[0])  # each says why
    assert len(traces) == 1
