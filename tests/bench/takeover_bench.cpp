// Cost of a takeover: another controller reads the journal of a month's run with 64 ranks, just
// before it would begin again. The steps are in the state; the tail is full.
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>

#include <benchmark/benchmark.h>

#include "live/run/files/journal.hpp"
#include "live/run/files/run_statistics.hpp"

namespace orrery::live {
namespace {

constexpr std::uint32_t kRanks = 64;
constexpr Step kSteps = 30 * 24 * 3600;  // one a second
constexpr std::uint32_t kLosses = 10'000;
constexpr std::uint64_t kSamples = 256;  // sequences of a step

JournalCommit commit(Step step) {
  JournalCommit commit;
  commit.set_step(step);
  commit.set_epoch(kLosses);
  commit.set_at(static_cast<Nanos>(step) * kNanosPerSecond);
  commit.set_samples(kSamples);
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    StepReport& report = *commit.add_reports();
    report.set_step(step);
    report.set_duration(kNanosPerSecond);
    report.set_compute(kNanosPerSecond / 2);
    report.set_loss_sum(2.5);
    report.set_predictions(100);
    for (std::uint64_t i = 0; i < 4; ++i) {
      OpDone& op = *report.add_ops();
      op.set_micro_batch(4 * rank + i);
      op.set_start(123'456'789);
      op.set_duration(250'000'000);
    }
    commit.add_cpu(1);
  }
  return commit;
}

JournalSnapshot after_a_month() {
  JournalSnapshot state;
  JournalCommit one = commit(0);
  one.mutable_reports()->DeleteSubrange(1, one.reports_size() - 1);
  for (Step step = 0; step < kSteps; ++step) {
    one.set_at(static_cast<Nanos>(step + 1) * kNanosPerSecond);
    add_commit(*state.mutable_statistics(), one, kRanks);
  }
  state.set_step(kSteps);
  state.set_memory(std::string(64 << 10, 'x'));
  for (std::uint32_t i = 0; i < kLosses; ++i) {
    Seat& seat = *state.add_joined();
    seat.set_rank(i % kRanks);
    seat.set_life(i / kRanks);
    JournalLoss& loss = *state.add_losses();
    loss.set_index(i);
    loss.mutable_report()->set_cause("rank 17 killed by signal 9 (Killed)");
    loss.mutable_report()->set_resumed_s(i);
  }
  return state;
}

void takeover_of_a_month(benchmark::State& state) {
  const std::string path =
      std::filesystem::temp_directory_path() / ("orrery_takeover." + std::to_string(getpid()));
  const RunRules rules{.ranks = kRanks};
  std::size_t bytes = 0;
  {
    Journal journal(path, "hash", Journal::kDefaultTail, {}, rules);
    journal.begin_anew(after_a_month());
    journal.wait_for_rewrite(std::chrono::seconds(10));
    JournalRecord record;
    for (Step step = kSteps; !journal.is_due(); ++step) {
      *record.mutable_commit() = commit(step);
      journal.append_record(record);
      record.mutable_seen()->mutable_observation()->set_now(static_cast<Nanos>(step));
      journal.append_record(record);
    }
    bytes = journal.size();
  }
  for (auto _ : state) {
    const Journal journal(path, "hash", Journal::kDefaultTail, {}, rules);
    benchmark::DoNotOptimize(journal.state().statistics.steps());
  }
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  state.counters["journal_MiB"] = static_cast<double>(bytes) / (1 << 20);
  state.counters["peak_MiB"] = static_cast<double>(use.ru_maxrss) / 1024;
  std::filesystem::remove(path);
}
BENCHMARK(takeover_of_a_month)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace orrery::live
