// Cost of a fork and of a snapshot of a training job: the copy of its TrainingState, its bytes, and
// the state read from them, each the median of several, at a step boundary of a job of 16,384 ranks
// (or as many as the first argument names) that has lost a rank. Prints a table; ./dev bench state.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <vector>

#include <fmt/format.h>

#include "sim/training/loss_events.hpp"
#include "tests/sim/training/lone_job.hpp"

namespace orrery::sim {
namespace {

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
  std::string bytes;
  const double write = median_ms(21, [&] { bytes = job.bytes(); });
  const double read = median_ms(3, [&] { copies += read_state(job.here, bytes).step > 0; });
  fmt::print("ranks {}, steps {}: copy {:.3f} ms, write {:.2f} ms ({} bytes), read with new fits "
             "{:.0f} ms\n",
             ranks, job.state().step, copy, write, bytes.size(), read);
  return copies == 104 ? 0 : 1;
}

}  // namespace
}  // namespace orrery::sim

int main(int argc, char** argv) {
  return orrery::sim::run(argc > 1 ? std::atoi(argv[1]) : 16'384);
}
