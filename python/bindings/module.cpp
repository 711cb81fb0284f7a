#include "python/bindings/bindings.hpp"
#include "traces/report/report.hpp"

PYBIND11_MODULE(_core, module) {
  module.doc() = "Compiled part of orrery. Use the names that the package itself exports.";
  module.def("version", &orrery::version, "Version of this build, such as '0.1.0'.");
  orrery::python::bind_errors(module);
  orrery::python::bind_scenario(module);
  orrery::python::bind_cluster(module);
  orrery::python::bind_policy(module);
  orrery::python::bind_run(module);
  orrery::python::bind_tools(module);
  orrery::python::bind_log(module);
  orrery::python::bind_testing(module);
  orrery::python::bind_plan(module);
  orrery::python::bind_planning(module);
}
