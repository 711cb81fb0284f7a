// Live runs with more GPUs than ranks, for tests.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tests/live/live_run.hpp"
#include "tests/live/watching.hpp"

namespace orrery::live {

inline const std::string kSimulator = ORRERY_BINARY_DIR "/bin/orrery-sim";
inline const Needs kAssigns{.actions = Kinds<Action>::of<Assign, Save>(), .settings = {}};

/// Four ranks on the first of eight GPUs, eight micro-batches a step.
inline RunRequest eight_slots(int steps, const std::vector<std::string>& more = {}) {
  std::vector<std::string> all{brisk_pace(), fmt::format("run.steps={}", steps), "cluster.nodes=2",
                               "elastic=true"};
  all.insert(all.end(), more.begin(), more.end());
  return request(all);
}

/// Returns the request with half the pace, on which no parameters depend.
inline RunRequest quick(RunRequest asked) {
  asked.mutable_scenario()->mutable_job()->mutable_pace()->set_micro_batch(
      Nanos{kBriskPaceMs} * 1'000'000 / 2);
  return asked;
}

/// Returns the parameters after a run of `asked` that nothing disturbs, at a quick pace.
inline std::string calm_parameters(const RunRequest& asked) {
  const Report report = run_in_worker(kProgram, quick(asked));
  EXPECT_EQ(report.steps_completed(), asked.scenario().run().steps());
  return report.parameters_sha256();
}

inline Assign stand_on(GpuRuns gpus, StateFrom state = StateFrom::peer) {
  const auto data = static_cast<std::uint32_t>(gpus.size());
  return {.job = {0}, .gpus = std::move(gpus), .layout = {.data = data}, .state = state};
}

}  // namespace orrery::live
