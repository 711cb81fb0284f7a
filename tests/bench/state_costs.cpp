// Cost of a fork and of a snapshot of a training job: the copy of its TrainingState, a new process
// for the copy, the state's bytes, and the state read from them, each the median of several, at a
// step boundary of a job of 16,384 ranks (or as many as the first argument names) that has lost a
// rank. Prints a table; the exit code is 1 if the copy or the bytes of 16,384 ranks miss their
// goals. ./dev bench state.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "core/error.hpp"
#include "core/process.hpp"
#include "sim/training/loss_events.hpp"
#include "tests/sim/training/lone_job.hpp"

namespace orrery::sim {
namespace {

constexpr int kRanks = 16'384;
/// Goals for kRanks ranks, in milliseconds.
constexpr double kMostForCopy = 1, kMostForBytes = 20;

/// Returns the median of the milliseconds of `count` calls.
double median_ms(int count, const std::function<void()>& call) {
  std::vector<double> all;
  for (int i = 0; i < count; ++i) {
    const auto began = std::chrono::steady_clock::now();
    call();
    const std::chrono::duration<double, std::milli> took =
        std::chrono::steady_clock::now() - began;
    all.push_back(took.count());
  }
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}

/// Forks this process, and waits for the end of the fork, which does nothing.
void fork_and_wait() {
  std::optional<ChildProcess> child = ChildProcess::fork_here();
  if (!child) _exit(0);
  child->wait();
}

/// Prints a row of the table.
void print_row(const char* what, double ms, const std::string& note) {
  fmt::print("| {} | {:.3f} ms | {} |\n", what, ms, note);
}

int run(int ranks) {
  orrery::testing::LoneJob job("  - {at_time: 1 ms, rank: 3, kill: true}\n", {"run.steps=100"},
                               ranks);
  job.start();
  job.run_steps(1);  // cut short by the kill
  job.state().now = job.state().losses.next_noticed();
  notice_losses(job.here, job.state());
  job.run_steps(5);
  std::size_t copies = 0;
  const double copy = median_ms(101, [&] {
    const TrainingState fork = job.state();
    copies += fork.step > 0;
  });
  const double process = median_ms(21, fork_and_wait);
  std::string bytes;
  const double write = median_ms(21, [&] { bytes = job.bytes(); });
  const double read = median_ms(3, [&] { copies += read_state(job.here, bytes).step > 0; });
  ensure(copies == 104, "each copy and each state that was read have steps");
  fmt::print("| {} ranks, {} steps | median | |\n|---|---:|---|\n", ranks, job.state().step);
  print_row("fork: copy of the state", copy, fmt::format("goal: at most {} ms", kMostForCopy));
  print_row("new process for the fork, begun and ended", process, "apart from the goal");
  print_row("snapshot: bytes of the state", write,
            fmt::format("goal: at most {} ms; {} bytes", kMostForBytes, bytes.size()));
  print_row("state from the bytes, with new fits", read, "");
  const bool missed = copy > kMostForCopy || write > kMostForBytes;
  return ranks == kRanks && missed ? static_cast<int>(ErrorKind::goal_missed) : 0;
}

}  // namespace
}  // namespace orrery::sim

int main(int argc, char** argv) {
  return orrery::sim::run(argc > 1 ? std::atoi(argv[1]) : orrery::sim::kRanks);
}
