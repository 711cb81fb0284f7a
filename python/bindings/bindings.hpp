// The parts of the extension module orrery._core, one function each. The module is thin: it holds
// no state between calls and starts no thread; runs are worker processes. Everything here is
// called with the GIL held.
#pragma once

#include <pybind11/pybind11.h>

namespace orrery::python {

void bind_errors(pybind11::module_& module);
void bind_scenario(pybind11::module_& module);
void bind_cluster(pybind11::module_& module);
/// observations and decisions of a policy written in Python
void bind_policy(pybind11::module_& module);
void bind_run(pybind11::module_& module);
void bind_tools(pybind11::module_& module);  ///< replay, jobs, check
void bind_log(pybind11::module_& module);      ///< records of a log
void bind_testing(pybind11::module_& module);  ///< observations without a run
void bind_plan(pybind11::module_& module);      ///< plans of long trainings
void bind_planning(pybind11::module_& module);  ///< predictions, layouts, names

}  // namespace orrery::python
