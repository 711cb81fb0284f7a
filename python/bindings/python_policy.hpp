// A policy written in Python behind the C++ interface. The run waits without the GIL; each call
// here takes it. The first Python exception is kept, so that the caller raises that very one.
#pragma once

#include <optional>

#include <pybind11/pybind11.h>

#include "policies/policy.hpp"

namespace orrery::python {

/// The exception that ends a run early; set and read with the GIL held.
struct Raised {
  std::optional<pybind11::error_already_set> exception;
};

class PythonPolicy : public Policy {
 public:
  /// `object` is an orrery.Policy. Raises what its needs() raises. GIL held.
  PythonPolicy(pybind11::object object, Raised& raised);
  ~PythonPolicy() override;

  Needs needs() const override { return needs_; }
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override;
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override;
  void save(Archive& archive) const override;

 private:
  pybind11::object object_;
  Raised& raised_;
  Needs needs_;
};

}  // namespace orrery::python
