// A simulated run, or a job replay that is recorded, under one of the example policies in C++:
//   example_decisions POLICY NUMBER SCENARIO.yaml KEY=VALUE...
//   example_decisions POLICY NUMBER TRACE.csv NODES GPUS_PER_NODE LOG
// Prints one JSON object: how many decisions it took and
// the hash of their trace. policies_test.py holds it against the same policy in Python.
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "policies/run/worker.hpp"
#include "sim/replay/job_replay.hpp"
#include "tests/examples/by_name.hpp"
#include "traces/jobs/job_trace.hpp"
#include "traces/scenario/scenario.hpp"

namespace orrery {
namespace {

void print(std::uint64_t decisions, const std::string& trace) {
  fmt::print("{{\"decisions\": {}, \"decision_trace_sha256\": \"{}\"}}\n", decisions, trace);
}

void decide(Policy& policy, const std::string& file, const std::vector<std::string>& more) {
  if (file.ends_with(".csv")) {
    JobReplay replay;
    replay.set_nodes(static_cast<std::uint32_t>(std::stoul(more.at(0))));
    replay.set_gpus_per_node(static_cast<std::uint32_t>(std::stoul(more.at(1))));
    const JobsReport report = sim::replay_jobs(load_job_trace(file), replay, policy, more.at(2));
    return print(report.decisions(), report.decision_trace_sha256());
  }
  RunRequest request;
  *request.mutable_scenario() = load_scenario(file, more).scenario;
  const Report report =
      run_in_worker(ORRERY_BINARY_DIR "/bin/orrery-sim", request, &policy);
  print(report.decisions(), report.decision_trace_sha256());
}

}  // namespace
}  // namespace orrery

int main(int argc, char** argv) {
  try {
    const std::vector<std::string> words(argv + 1, argv + argc);
    const auto policy = orrery::example::by_name(words.at(0), std::stod(words.at(1)));
    orrery::decide(*policy, words.at(2), {words.begin() + 3, words.end()});
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
