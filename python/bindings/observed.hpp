// An observation as Python sees it: read when it is asked for, and only while the call lasts; what
// was read is a copy. And where a policy written in Python puts its decisions. GIL held throughout.
#pragma once

#include <optional>
#include <string>

#include <pybind11/pybind11.h>

#include "policies/seam/policy.hpp"
#include "traces/trace.pb.h"

namespace orrery::python {

class Observed {
 public:
  explicit Observed(const Observation& seen) : seen_(&seen) {}
  /// The call is over; reading raises RuntimeError from now on.
  void close() { seen_ = nullptr; }

  const Observation& open() const;
  pybind11::list events() const;
  pybind11::list job_ids() const;
  /// Nothing for a job that is not in the table.
  std::optional<JobInfo> job(std::uint32_t id) const;
  /// Owner by GPU as 64-bit integers, -1 for nobody's.
  pybind11::bytes owner() const;
  /// GPUs that are nobody's and well, as 32-bit integers.
  pybind11::bytes free_gpus() const;
  /// (kind, index, health, rate, since in s) of parts that are not as on the data sheet.
  pybind11::list parts() const;
  /// Columns and rows; of a summary (ranks, median s, deviation, age s, columns and rows).
  pybind11::tuple samples(const std::string& what, std::uint32_t job, std::uint32_t latest) const;

 private:
  const Observation* seen_;
};

/// Dead once its observe() has returned.
class Decisions {
 public:
  explicit Decisions(DecisionList& list) : list_(&list) {}
  void close() { list_ = nullptr; }

  /// `what` is an action of orrery.actions; `if_epoch` and `expires` may be None. Returns its id.
  DecisionId add(pybind11::handle what, pybind11::handle why, pybind11::handle at_step,
                 pybind11::handle if_epoch, pybind11::handle expires, pybind11::handle group);
  void wake(pybind11::handle at);
  void rest() { list().rest(); }
  std::uint32_t new_group() { return list().new_group(); }
  std::size_t size() const { return list().items().size(); }

 private:
  DecisionList& list() const;

  DecisionList* list_;
};

/// A job as of an observation: everything but its specification and settings, which are records.
void bind_observed(pybind11::module_& module);

}  // namespace orrery::python
