// Moves of one rank to a warm spare, in one live run of four ranks on eight GPUs: the time from
// the decision to the end of the first step on the new GPU, p50 and p99. Exit code 1 if p99 is
// above the goal, or if fewer moves were measured. slots_bench [MOVES]
#include <algorithm>
#include <cstdlib>
#include <vector>

#include <fmt/format.h>

#include "tests/live/slots.hpp"

namespace orrery::live {
namespace {

constexpr double kGoalS = 0.5;
// Steps from one move to the next: the GPU that the rank has left gets another warm process.
constexpr Step kBetween = 80;

/// Returns the value below which `share` of the sorted `values` are.
double quantile(const std::vector<double>& values, double share) {
  const auto at = static_cast<std::size_t>(share * static_cast<double>(values.size() - 1) + 0.5);
  return values[at];
}

/// Times of the moves of one run, in seconds.
struct Moves {
  std::vector<double> started, first_step;
};

/// Moves rank 3 to the next of GPUs 3 to 7, `count` times.
Moves measure(std::size_t count) {
  Moves moves;
  Nanos decided = -1;
  bool has_started = false;
  std::uint32_t gpu = 3;
  Watching policy(kAssigns, [&](const Observation& seen, DecisionList& decisions) {
    if (decided >= 0 && !has_started && shown<JobStarted>(seen) != nullptr) {
      has_started = true;
      moves.started.push_back(to_seconds(seen.now - decided));
    }
    const auto* done = shown<StepsDone>(seen);
    if (done == nullptr) return;
    if (has_started) {
      moves.first_step.push_back(to_seconds(seen.now - decided));
      decided = -1;
      has_started = false;
    }
    const bool due = (done->last + 1) % kBetween == 0;
    if (!due || decided >= 0 || moves.first_step.size() >= count) return;
    gpu = gpu == 7 ? 3 : gpu + 1;
    decided = seen.now;
    decisions.add(stand_on({{0}, {1}, {2}, {gpu}}), "to the next spare");
  });
  const auto steps = static_cast<int>((count + 1) * kBetween);
  run_in_worker(kProgram, eight_slots(steps, {"survival.warm=4"}), &policy);
  return moves;
}

int print_moves(std::size_t count) {
  Moves moves = measure(count);
  if (moves.first_step.size() != count) {
    fmt::print(stderr,
               "slots_bench: expected {} moves with a first step within {} steps each, found {}: "
               "run it on a machine without other work\n",
               count, kBetween, moves.first_step.size());
    return 1;
  }
  std::sort(moves.started.begin(), moves.started.end());
  std::sort(moves.first_step.begin(), moves.first_step.end());
  const double p99 = quantile(moves.first_step, 0.99);
  fmt::print("moves to a warm spare: {}\n", moves.first_step.size());
  fmt::print("{:<36} {:>8} {:>8} {:>8}\n", "from the decision to", "p50 s", "p99 s", "most s");
  for (const auto& [name, values] : {std::pair("the rank's start", &moves.started),
                                     std::pair("the end of its first step", &moves.first_step)}) {
    fmt::print("{:<36} {:>8.3f} {:>8.3f} {:>8.3f}\n", name, quantile(*values, 0.5),
               quantile(*values, 0.99), values->back());
  }
  fmt::print("goal: p99 of the first step at most {} s: {}\n", kGoalS,
             p99 <= kGoalS ? "reached" : "missed");
  return p99 <= kGoalS ? 0 : 1;
}

}  // namespace
}  // namespace orrery::live

int main(int argc, char** argv) {
  const std::size_t count = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 100;
  return orrery::live::print_moves(std::max<std::size_t>(count, 1));
}
