// Price of moves of four ranks from one node to the other and back, in live runs of four ranks on
// eight GPUs with steps of 0.25 s: the steps that the job loses to a move, with and without a
// sharded optimizer state, and with and without encrypted links. node_moves_bench [MOVES]
#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "tests/live/slots.hpp"

namespace orrery::live {
namespace {

constexpr double kStepS = 0.25;
constexpr Step kBetween = 12;  // steps from one move to the next decision

/// Times of the moves of one run, in seconds.
struct Prices {
  std::vector<double> lost;      ///< time beyond the committed steps, from the decision on
  std::vector<double> standing;  ///< time without a step before the start on the new GPUs
};

/// Moves all ranks to the other node, `count` times.
Prices measure(std::size_t count, std::vector<std::string> more) {
  Prices prices;
  Nanos decided = -1, last = 0, started = -1;
  std::uint64_t steps = 0;
  bool is_on_first = true;
  Watching policy(kAssigns, [&](const Observation& seen, DecisionList& decisions) {
    if (decided >= 0 && shown<JobStarted>(seen) != nullptr) started = seen.now;
    const auto* done = shown<StepsDone>(seen);
    if (done == nullptr) return;
    if (decided >= 0) ++steps;
    if (started >= 0) {
      prices.lost.push_back(to_seconds(seen.now - decided) - kStepS * static_cast<double>(steps));
      prices.standing.push_back(to_seconds(started - last));
      decided = started = -1;
    }
    last = seen.now;
    const bool due = (done->last + 1) % kBetween == 0;
    if (!due || decided >= 0 || prices.lost.size() >= count) return;
    is_on_first = !is_on_first;
    decided = seen.now;
    steps = 0;
    decisions.add(stand_on(GpuRuns::range({is_on_first ? 0u : 4u}, 4)), "to the other node");
  });
  const auto all = static_cast<int>((count + 1) * 2 * kBetween);
  more.insert(more.begin(), fmt::format("job.pace.micro_batch={} ms", 1000 * kStepS / 2));
  run_in_worker(kProgram, eight_slots(all, more), &policy);
  return prices;
}

int print_prices(std::size_t count) {
  fmt::print("{:<36} {:>5} {:>12} {:>12} {:>14}\n", "four ranks to the other node", "moves",
             "p50 steps", "most steps", "standstill s");
  bool is_reached = true;
  for (const auto& [name, more] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"the whole state on each rank", {}},
           {"sharded optimizer", {"job.layout.shard=optimizer"}},
           {"sharded optimizer, without TLS", {"job.layout.shard=optimizer", "live.tls=false"}}}) {
    Prices prices = measure(count, more);
    if (prices.lost.empty()) return 1;
    std::sort(prices.lost.begin(), prices.lost.end());
    std::sort(prices.standing.begin(), prices.standing.end());
    const std::size_t middle = prices.lost.size() / 2;
    fmt::print("{:<36} {:>5} {:>12.2f} {:>12.2f} {:>14.3f}\n", name, prices.lost.size(),
               prices.lost[middle] / kStepS, prices.lost.back() / kStepS,
               prices.standing[middle]);
    is_reached = is_reached && prices.lost[middle] <= 2 * kStepS;
  }
  fmt::print("goal: p50 at most 2 steps of {} s: {}\n", kStepS, is_reached ? "reached" : "missed");
  return is_reached ? 0 : 1;
}

}  // namespace
}  // namespace orrery::live

int main(int argc, char** argv) {
  const std::size_t count = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 10;
  return orrery::live::print_prices(std::max<std::size_t>(count, 1));
}
