// An observation as Python sees it: a copy, because a notebook may keep what it was shown longer
// than the call lasts. Rows are packed for NumPy; a missing sample is NaN. GIL held throughout.
#pragma once

#include <string>
#include <vector>

#include <pybind11/pybind11.h>

#include "policies/policy.hpp"

namespace orrery::python {

class Observed {
 public:
  explicit Observed(const Observation& seen);

  double now() const { return to_seconds(now_); }
  std::uint64_t epoch() const { return epoch_; }
  std::uint64_t sequence() const { return sequence_; }
  /// (class name in orrery.events, its fields) for each event, in order.
  pybind11::list events() const;
  pybind11::bytes ranks() const { return ranks_; }
  pybind11::bytes devices() const { return devices_; }
  pybind11::bytes links() const { return links_; }
  const std::vector<JobInfo>& jobs() const { return jobs_; }

 private:
  Nanos now_;
  std::uint64_t epoch_, sequence_;
  std::vector<Event> events_;
  std::string ranks_, devices_, links_;  // rows of the dtypes in orrery/_policy.py
  std::vector<JobInfo> jobs_;
};

/// Where a policy written in Python puts its decisions. Dead once its observe() has returned.
class Decisions {
 public:
  explicit Decisions(DecisionList& list) : list_(&list) {}
  void close() { list_ = nullptr; }

  void shift_microbatches(std::uint32_t job, std::vector<std::uint32_t> per_replica, Step at_step,
                          const std::string& why);
  void wake_at(double seconds, const std::string& why);
  void rest() { list().rest(); }
  std::size_t size() const { return list().items().size(); }

 private:
  DecisionList& list() const;

  DecisionList* list_;
};

}  // namespace orrery::python
