#include "python/bindings/sample_arrays.hpp"

#include <vector>

namespace py = pybind11;

namespace orrery::python {
namespace {

template <class Number>
py::bytes packed(const std::vector<Number>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Number)};
}

/// View of the values without a copy. Empty columns have no memory; any address will do.
py::buffer_info view_of(SampleColumn& column) {
  static double nothing = 0;
  double* const values = column.values.empty() ? &nothing : column.values.data();
  const auto count = static_cast<py::ssize_t>(column.size());
  constexpr py::ssize_t kBytes = sizeof(double);
  return {values, kBytes, py::format_descriptor<double>::format(), 1, {count}, {kBytes}, true};
}

/// Ages in seconds, NaN where a sample is missing.
py::bytes ages_of(const SampleColumn& column) {
  std::vector<double> ages(column.size(), kMissing);
  for (std::size_t row = 0; row < column.size(); ++row) {
    if (!std::isnan(column.values[row])) ages[row] = to_seconds(column.age(row));
  }
  return packed(ages);
}

}  // namespace

void bind_samples(py::module_& module) {
  py::class_<SampleRows, std::shared_ptr<SampleRows>>(module, "SampleRows",
                                                      "Rows of a table of samples.")
      .def("__len__", &SampleRows::size)
      .def("ids", [](const SampleRows& self) { return packed(self.ids); })
      .def("to", [](const SampleRows& self) { return packed(self.to); })
      .def("steps", [](const SampleRows& self) { return packed(self.steps); });
  py::class_<SampleColumn, std::shared_ptr<SampleColumn>>(
      module, "SampleColumn", py::buffer_protocol(), "One field of a table of samples.")
      .def_buffer(&view_of)
      .def("ages", &ages_of);
}

}  // namespace orrery::python
