// What a live run adds up to: committed steps, micro-batches, bytes on the wire, CPU. It is fed
// with what the ranks say and what is committed, goes into the report, and survives its controller
// by way of the journal. Called by the live backend; one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "live/control.pb.h"
#include "live/run/account/cpu_meter.hpp"
#include "live/run/account/ledger.hpp"
#include "live/run/account/run_statistics.hpp"
#include "live/run/files/journal.hpp"
#include "live/training/wire_count.hpp"
#include "traces/report.pb.h"
#include "traces/run.pb.h"
#include "traces/scenario.pb.h"

namespace orrery::live {

/// Of a step, all ranks together.
std::uint32_t micro_batches_of(const Job& job);

class RunAccount {
 public:
  /// `scenario` outlives this. `progress` is told how far the run is; may be empty.
  explicit RunAccount(const Scenario& scenario, std::function<void(const Progress&)> progress = {});

  void hello(std::uint32_t rank, std::uint32_t life) { cpu_.hello(rank, life); }
  void heard(std::uint32_t rank, std::uint32_t life, const ProgressSample& sample);
  /// `bytes`: see WireCount.
  void sent(std::uint32_t rank, std::uint32_t life, std::uint64_t bytes) {
    wire_.sent(rank, life, bytes);
  }
  /// What a rank has done of a step, final or not.
  void executed(const StepReport& report);
  /// Reports of all ranks, by rank; `ranks` of them had a gradient in codes by these rules.
  void committed(Step step, std::span<const StepReport> reports, std::span<const CodecRule> rules,
                 std::uint32_t ranks, Nanos now);
  void tell_progress() const;
  /// What was done of that step is thrown away.
  void discarded(Step step) { ledger_.discarded(step); }

  std::uint64_t steps() const { return statistics_.steps(); }
  /// Until the newest commit.
  Nanos elapsed() const { return statistics_.elapsed(); }
  double newest_loss() const { return statistics_.newest_loss(); }
  /// That the ranks kept busy, on average.
  double busy_cores() const;

  void fill(Report& report) const;
  /// To go on with in another process.
  void keep(JournalSnapshot& now) const;
  void keep(JournalCommit& commit) const;
  void restore(const Past& past);

 private:
  const Step steps_;  ///< of the whole run
  const std::function<void(const Progress&)> progress_;
  const bool coded_;  ///< gradients may travel in codes
  Ledger ledger_;
  RunStatistics statistics_;
  WireCount wire_;
  CpuMeter cpu_;
};

}  // namespace orrery::live
