// A policy written in Python behind the C++ interface, alone or beside the registry's in one stack.
// The run waits without the GIL; each call here takes it. The first Python exception is kept, so
// that the caller raises that very one.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <pybind11/pybind11.h>

#include "core/error.hpp"
#include "policies/seam/stack.hpp"
#include "traces/scenario.pb.h"

namespace orrery::python {

/// The exception that ends a run early; set and read with the GIL held.
struct Raised {
  std::optional<pybind11::error_already_set> exception;
  bool falls_back = false;  ///< the run continues without the policies: no exception is kept
};

/// Returns the Error of a Python exception of a policy: bad_input with the innermost line of the
/// user's file. GIL held.
Error error_of(const pybind11::error_already_set& exception);

/// C++ policy that calls a Python object.
class PythonPolicy : public Policy {
 public:
  /// Wraps `object`, an orrery.Policy. Raises errors of its needs(). GIL held.
  PythonPolicy(pybind11::object object, Raised& raised);
  ~PythonPolicy() override;

  Needs needs() const override { return needs_; }
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override;
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override;
  void save(Archive& archive) const override;
  std::uint32_t state_version() const override;
  bool convert_state(Archive& state, std::uint32_t version) const override;
  void load(const Archive& archive) override;

 private:
  void tell_what_is_offered(const Capabilities& offered);

  pybind11::object object_;
  Raised& raised_;
  Needs needs_;
  std::optional<Capabilities> offered_;  ///< offers that the object was told
};

using PolicyParameters = std::map<std::string, std::string>;
/// Function that returns the specification of a built-in policy with parameters.
using SpecOf = std::function<PolicySpec(const std::string& name, const PolicyParameters& values)>;

/// Returns the names of `policies`: of the built-in ones, and of the classes of the others.
std::vector<std::string> listed_names(const pybind11::handle& policies);

/// Returns the stack of `policies`: orrery.Policy objects and (name, parameters), in the order of
/// their calls. The caller holds the GIL.
std::unique_ptr<PolicyStack> stack_of(const pybind11::list& policies, Raised& raised,
                                      const SpecOf& spec_of);

/// Calls `run` without the GIL; if it fails because of Python, raises Python's error.
template <class Run>
auto without_gil(Raised& raised, Run&& run) {
  try {
    const pybind11::gil_scoped_release waiting;
    return run();
  } catch (const std::exception&) {
    if (raised.exception) throw pybind11::error_already_set(*raised.exception);
    throw;
  }
}

}  // namespace orrery::python
