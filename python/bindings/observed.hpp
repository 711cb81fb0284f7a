// Observation for Python: each part is read on request, and only during the call; values are
// copied. Also the list in which a policy written in Python puts its decisions. The GIL is held
// throughout.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <pybind11/pybind11.h>

#include "policies/seam/policy.hpp"
#include "policies/seam/sample_columns.hpp"
#include "traces/trace.pb.h"

namespace orrery::python {

/// One observation as a Python object.
class Observed {
 public:
  explicit Observed(const Observation& seen) : seen_(&seen) {}
  /// Ends the call: every later read raises RuntimeError.
  void close() { seen_ = nullptr; }

  const Observation& open() const;
  pybind11::list events() const;
  pybind11::list job_ids() const;
  /// Returns the job; nothing if it is not in the table.
  std::optional<JobInfo> job(std::uint32_t id) const;
  /// Returns the jobs of the table in its order: (columns, rows, names of the phases, of the
  /// users and of the pools). A column is (name, NumPy type); `phase`, `user` and `pool` are
  /// indexes of names.
  pybind11::tuple job_table() const;
  /// Returns the owner of each GPU as 64-bit integers; -1: free.
  pybind11::bytes owner() const;
  /// Returns the free healthy GPUs as 32-bit integers.
  pybind11::bytes free_gpus() const;
  /// Returns (kind, index, health, rate, since in s) of the parts that deviate from the data sheet.
  pybind11::list parts() const;
  /// Returns the rows of a table ("ranks", "devices", "links").
  std::shared_ptr<SampleRows> sample_rows(const std::string& table, std::uint32_t job) const;
  /// Returns one column of a table, by the name of its field.
  std::shared_ptr<SampleColumn> sample_column(const std::string& field, std::uint32_t job) const;
  /// Returns columns and rows of collectives; for a summary (ranks, median s, deviation, age s,
  /// columns and rows).
  pybind11::tuple samples(const std::string& what, std::uint32_t job, std::uint32_t latest) const;

 private:
  const Observation* seen_;
};

/// Decisions of one observe() call as a Python object; unusable after the call.
class Decisions {
 public:
  explicit Decisions(DecisionList& list) : list_(&list) {}
  void close() { list_ = nullptr; }

  /// Adds an action of orrery.actions; `if_epoch` and `expires` may be None. Returns its id.
  DecisionId add(pybind11::handle what, pybind11::handle why, pybind11::handle at_step,
                 pybind11::handle if_epoch, pybind11::handle expires, pybind11::handle group);
  void wake(pybind11::handle at);
  void rest() { list().rest(); }
  void add_note(pybind11::handle key, pybind11::handle value);
  std::uint32_t new_group() { return list().new_group(); }
  std::size_t size() const { return list().items().size(); }

 private:
  DecisionList& list() const;

  DecisionList* list_;
};

/// Binds the classes of an observation, of decisions and of a job without its specification and
/// settings, which are records.
void bind_observed(pybind11::module_& module);

}  // namespace orrery::python
