// Kill -9 at random moments: runs of four ranks in which one after the other is killed and replaced
// must lose nothing, repeat nothing and end with the bits of an undisturbed run. Prints how long
// it took until all survivors knew, worked again, and a replacement worked with them.
//   ORRERY_SURVIVAL="RUNS KILLS"  more of it (./dev soak: 50 20)
//   ORRERY_SEED=N                 another schedule
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "core/error.hpp"
#include "core/process.hpp"
#include "core/random.hpp"
#include "policies/parameters.pb.h"
#include "policies/worker.hpp"
#include "traces/scenario.hpp"

namespace orrery::live {
namespace {

constexpr double kFirst = 0.3, kBetween = 0.35, kSpread = 0.3, kAfter = 1.0;  // seconds
constexpr double kStep = 0.040;  // shortest
const google::protobuf::Descriptor* const kLinked = RecoverParameters::descriptor();

/// `kills` ranks, each at a moment of its own; the run lasts at least until all are replaced.
Report run(int kills, Rng rng, int steps) {
  std::vector<std::string> faults;
  double at = kFirst;
  for (int i = 0; i < kills; ++i, at += kBetween + kSpread * rng.uniform()) {
    faults.push_back(fmt::format("{{rank: {}, at_time: {} ns, kill: true}}", rng.below(4),
                                 static_cast<std::int64_t>(at * 1e9)));
  }
  ensure(kLinked != nullptr, "the scenario's parameters are linked in");
  RunRequest request;
  *request.mutable_scenario() =
      load_scenario(std::string(ORRERY_SOURCE_DIR) + "/examples/kill-one-rank.yaml",
                    {"job.global_batch=8", "job.pace.micro_batch=20 ms",
                     fmt::format("run.steps={}", steps),
                     fmt::format("faults=[{}]", fmt::join(faults, ", "))})
          .scenario;
  request.set_mode("drive");
  request.set_fabric("grpc");
  return run_in_worker(std::string(ORRERY_BINARY_DIR) + "/bin/orrery-live", request);
}

void print(const char* what, std::vector<double> seconds) {
  if (seconds.empty()) return;
  std::sort(seconds.begin(), seconds.end());
  const auto at = [&](double share) {
    return 1e3 * seconds[static_cast<std::size_t>(share * static_cast<double>(seconds.size() - 1))];
  };
  fmt::print("{:<32} p50 {:7.1f} ms   p99 {:7.1f} ms   of {}\n", what, at(0.5), at(0.99),
             seconds.size());
}

TEST(Survival, KillsAtRandomMomentsLoseNothing) {
  int runs = 2, kills = 25;
  if (const char* given = std::getenv("ORRERY_SURVIVAL")) {
    std::istringstream(given) >> runs >> kills;
  }
  const char* seed = std::getenv("ORRERY_SEED");
  const std::uint64_t first = seed ? std::strtoull(seed, nullptr, 10) : 1;
  const int steps = static_cast<int>((kFirst + kills * (kBetween + kSpread) + kAfter) / kStep);
  const Report calm = run(0, Rng(0), steps);
  std::vector<double> known, working, replaced;
  int happened = 0;
  for (int i = 0; i < runs; ++i) {
    const std::uint64_t schedule = first + static_cast<std::uint64_t>(i);
    SCOPED_TRACE(fmt::format("ORRERY_SEED={}", schedule));
    const Report report = run(kills, Rng(schedule), steps);
    EXPECT_EQ(report.steps_completed(), static_cast<std::uint64_t>(steps));
    EXPECT_EQ(report.micro_batches_lost(), 0u);
    EXPECT_EQ(report.micro_batches_repeated(), 0u);
    EXPECT_EQ(report.parameters_sha256(), calm.parameters_sha256());
    EXPECT_EQ(report.failures_size(), kills);
    happened += report.failures_size();
    for (const FailureReport& failure : report.failures()) {
      EXPECT_EQ(failure.lost_steps(), 0u);
      known.push_back(failure.known_s() - failure.time_s());
      working.push_back(failure.working_s() - failure.time_s());
      if (failure.has_replaced_s()) replaced.push_back(failure.replaced_s() - failure.time_s());
    }
  }
  fmt::print("{} kills in {} runs, from the kill on:\n", happened, runs);
  print("until all survivors know", known);
  print("until they train again", working);
  print("until a replacement is in step", replaced);
}

}  // namespace
}  // namespace orrery::live
