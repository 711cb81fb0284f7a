// Course of a training run as its log tells it, for sim/forecast/run_twin: committed steps, losses
// and slow ranks up to an instant. The log may still be growing, and each of its records is read
// once. One thread; nanoseconds of the policy clock.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/ids.hpp"
#include "policies/record/encoding.hpp"
#include "policies/record/log_reader.hpp"
#include "policies/record/samples_book.hpp"
#include "topologies/cluster.hpp"

namespace orrery::sim {

/// Commit of one step.
struct StepCommit {
  Step step = 0;
  Nanos at = 0;      ///< instant of the commit
  Nanos length = 0;  ///< duration of the step; of steps that were reported together the mean
  bool calm = true;  ///< false: ranks were lost, or the job was placed anew, since the step before
};

/// Course of the run's only job up to an instant.
struct RunCourse {
  Nanos now = 0;                         ///< instant of the newest observation
  std::vector<StepCommit> commits;       ///< steps in the order of their commits, some repeated
  std::uint64_t losses = 0;              ///< instants at which ranks were lost
  std::map<std::uint32_t, double> slow;  ///< factor on the compute time, of ranks above the others
  std::optional<Nanos> ended;            ///< instant at which the job was complete
};

/// Reader of the course of one log. Calls that are not part of the course yet wait in memory. For
/// example, while a log has calls up to 25 s, has_call_after(20 s) is true and course_at(20 s) has
/// the steps of the first 20 s.
class RunCourseReader {
 public:
  /// Opens the log; `cluster`, that of the log, must outlive this object. Throws as read_header().
  RunCourseReader(const std::string& log, const Cluster& cluster);

  /// Returns true if the log has a complete call later than `until`, so that none up to `until` can
  /// follow. Reads on until then. Throws bad_input for a damaged record.
  bool has_call_after(Nanos until);
  /// Returns the course up to `until`, which never decreases. Call after has_call_after(until), or
  /// of a complete log at any time; kNever: the whole course. A rank is slow if the newest
  /// micro-batch times that a policy has read are at least 10% above the median of the ranks; a
  /// loss of the rank forgets it. The reference is valid until the next call. Throws bad_input for
  /// an impossible record.
  const RunCourse& course_at(Nanos until);
  /// Returns true if the footer of the log was read.
  bool is_complete() const { return is_complete_; }

 private:
  bool read_call();
  void add_call(const CallRecord& call);
  void add_event(const Event& event, Nanos now);

  LogReader log_;
  ObservationReader reader_;
  SamplesBook samples_;
  std::deque<CallRecord> waiting_;  ///< calls after the course
  RunCourse course_;
  std::map<std::uint32_t, double> times_s_;  ///< newest micro-batch time of each rank
  bool is_calm_ = true, is_complete_ = false;
};

/// End of a log that may still be growing.
struct LogTail {
  Nanos newest = -1;         ///< instant of the newest complete call; -1: none
  bool is_complete = false;  ///< the log has a footer
};
/// Returns the end of the log. A record that is cut short is not written yet. Throws bad_input if
/// the file cannot be opened.
LogTail read_tail(const std::string& log);

}  // namespace orrery::sim
