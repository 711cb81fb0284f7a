// Telemetry that was read before, for replays, for policies in another process and for policies
// that decide in a thread of their own. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "policies/seam/sample_columns.hpp"
#include "traces/trace.pb.h"

namespace orrery {

/// Telemetry that was read before, stored in the parts in which it was read: the rows and the
/// columns of tables, the collectives and the summaries of jobs. Owns the data behind the spans,
/// which are valid until clear().
class SamplesBook : public ColumnSamples {
 public:
  RankSummary summary(JobId job, std::uint32_t latest) override;
  std::span<const CollectiveSample> collectives(JobId job) override;

  /// Removes all stored telemetry and the missed request.
  void clear() {
    clear_tables();
    answers_.clear();
    missed_ = false;
  }
  /// Adds the telemetry of one read; of several reads of one part (of a summary: also with the same
  /// number of slowest ranks) the first counts. Throws bad_input for impossible values, such as an
  /// unknown origin or a column with another number of samples than its table has rows.
  void add(const SamplesRead& read);
  /// Returns the first request since clear() for telemetry that was neither stored nor fetched;
  /// null if no request was missed.
  const SamplesRead* missing_read() const { return missed_ ? &wish_ : nullptr; }

 protected:
  /// Handles a request for telemetry that is not stored. An override adds the telemetry with add();
  /// the default remembers the request for missing_read(), and the request gets an empty answer.
  virtual void fetch_samples(const SamplesRead& wish) {
    if (!missed_) wish_ = wish;
    missed_ = true;
  }
  std::shared_ptr<const SampleRows> make_rows(SampleTable table, JobId job) override;
  std::shared_ptr<const SampleColumn> make_column(SampleField field, JobId job) override;

 private:
  /// Collectives or a summary of one read.
  struct Answer {
    SamplesRead::What what{};
    JobId job;
    std::uint32_t asked = 0;  ///< requested number of slowest ranks, for a summary
    RankSummary summary;
    std::vector<RankSample> latest;
    std::vector<CollectiveSample> collectives;
  };
  const Answer& find_answer(SamplesRead::What what, JobId job, std::uint32_t latest = 0);
  void check_table(SampleTable table, JobId job) const;

  std::vector<std::unique_ptr<Answer>> answers_;
  SamplesRead wish_;
  bool missed_ = false;
};

}  // namespace orrery
