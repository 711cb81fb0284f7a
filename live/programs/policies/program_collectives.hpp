// Collectives of a program under policies: tables for NCCL's tuner plugin in its ranks, and samples
// from the profiler plugin. Used by program_backend; `orrery run` names the plugins and the files
// in the environment of the ranks. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "live/nccl/report_receiver.hpp"
#include "live/programs/policies/collective_book.hpp"
#include "traces/workload/collective.hpp"

namespace orrery::live {

/// Files between `orrery run` and the plugins in the ranks. A rank with PyTorch has a table of its
/// own, which changes between two steps (python/orrery/programs/collectives.py). All others read
/// one table, and wait for it before their first communicator: NCCL hangs if ranks choose
/// differently.
class ProgramCollectives {
 public:
  /// Creates the socket of the reports at `reports`. `table`: path of the common table; the tables
  /// of plans have a dot and their number behind it. Throws as ReportReceiver.
  ProgramCollectives(std::string table, const std::string& reports);

  /// Removes the common table and forgets ranks and collectives, because all ranks start again.
  void begin_attempt();
  /// Reads the reports that have arrived.
  void read_reports();
  /// Returns the ranks of the program whose processes have loaded NCCL.
  const std::set<std::size_t>& loaded_ranks() const { return loaded_; }
  /// Returns the samples since the last call, with the number of a step.
  std::vector<CollectiveSample> drain_samples(Step step) { return book_.drain_samples(step); }

  /// Writes the table of a plan, and returns the text of the plan, for example "table 2". Throws an
  /// environment Error if the file cannot be written.
  std::string write_plan(const CollectiveTable& table);
  /// Writes the common table, or one without rules if `table` is null, unless it is written
  /// already. Throws as write_plan().
  void write_common_table(const CollectiveTable* table);
  /// Returns true if write_common_table() has written in this attempt.
  bool has_common_table() const { return is_written_; }

 private:
  const std::string table_;
  ReportReceiver receiver_;
  CollectiveBook book_;
  std::set<std::size_t> loaded_;
  std::uint64_t plans_ = 0;
  bool is_written_ = false;
};

}  // namespace orrery::live
