#include <exception>

#include "policies/run/worker.hpp"
#include "python/bindings/bindings.hpp"

namespace py = pybind11;

namespace orrery::python {
namespace {

/// Raises the class of that name in orrery._errors, or the one that belongs to the kind.
void raise_in_python(const Error& error, const char* name = "") {
  py::object file = py::none(), line = py::none(), column = py::none();
  if (const auto& place = error.source_place()) {
    file = py::str(place->file);
    line = py::int_(place->line);
    column = py::int_(place->column);
  }
  const py::object raised = py::module_::import("orrery._errors")
                                .attr("make")(name, static_cast<int>(error.kind()), error.what(),
                                              error.message(), file, line, column);
  PyErr_SetObject(py::type::of(raised).ptr(), raised.ptr());
}

}  // namespace

void bind_errors(py::module_&) {
  py::register_local_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const WorkerDied& error) {
      raise_in_python(error, "WorkerDied");
    } catch (const Error& error) {
      raise_in_python(error);
    }
  });
}

}  // namespace orrery::python
