// Cost of a month's faults for a reader that queries the script at every begin and end: 104,000
// links that flap for ten minutes each, over 24 days, on 10,240 NICs.
#include <benchmark/benchmark.h>

#include "core/random.hpp"
#include "tests/traces/sample_cluster.hpp"
#include "traces/scenario/fault_script.hpp"

namespace orrery {
namespace {

constexpr std::uint32_t kNodes = 1280;  // each with 8 NICs
constexpr Nanos kMonth = 24 * 86'400 * kNanosPerSecond;

Scenario flaps(std::int64_t count) {
  Scenario scenario;
  Rng rng(1);
  for (std::int64_t i = 0; i < count; ++i) {
    Fault& fault = *scenario.add_faults();
    fault.set_at_time(static_cast<Nanos>(rng.below(kMonth)));
    fault.set_for_(600 * kNanosPerSecond);
    fault.set_nic(static_cast<std::uint32_t>(rng.below(8 * kNodes)));
    fault.set_rate(0.5);
  }
  return scenario;
}

void month_of_link_faults(benchmark::State& state) {
  const Cluster cluster = testing::sample_cluster(kNodes);
  const Scenario scenario = flaps(state.range(0));
  std::size_t deviating = 0;
  for (auto _ : state) {
    const FaultScript script(scenario, cluster);
    Nanos now = 0;
    for (Step step = 0;; ++step) {
      const auto next = script.next_instant(now);
      if (!next) break;
      benchmark::DoNotOptimize(script.next_strike(step, now, *next));
      benchmark::DoNotOptimize(script.next_step(step));
      now = *next;
      deviating += script.conditions({static_cast<std::int64_t>(step), now}).size();
      benchmark::DoNotOptimize(script.changing_faults(now));
    }
  }
  benchmark::DoNotOptimize(deviating);
}
BENCHMARK(month_of_link_faults)->Arg(16'000)->Arg(104'000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace orrery
