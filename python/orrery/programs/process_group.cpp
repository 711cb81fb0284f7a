// Python module of the fault-tolerant process group. Compiled by process_group.py, together with
// live/group and live/torch, against the headers in the user's own PyTorch.
#include <pybind11/chrono.h>
#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <array>
#include <string>
#include <tuple>
#include <vector>

#include "live/torch/program_runtime.hpp"
#include "live/torch/surviving_backend.hpp"

namespace orrery::python {
namespace {

namespace py = pybind11;

live::ProgramRuntime* runtime = nullptr;

/// Connects this process. `shares_sums`: sums on the CPU take shared memory. `in_flight`:
/// operations of a group in flight at a rank, or 0 (by the group's backend). `build` is called on
/// other threads and returns the inner groups: that of the operations, and that for the group's own
/// exchanges.
void start_runtime(int descriptor, std::size_t rank, const std::string& store_path,
                   bool shares_sums, std::size_t in_flight, const py::function& build) {
  using Backend = c10::intrusive_ptr<c10d::Backend>;
  auto* const kept = new py::function(build);  // outlives the interpreter's end
  const live::InnerBuilder builder =
      [kept](const std::string& backend, const c10::intrusive_ptr<c10d::Store>& store,
             const std::string& prefix, int group_rank, int size, std::chrono::milliseconds timeout,
             const std::string& address) {
        const py::gil_scoped_acquire gil;
        const py::tuple made = (*kept)(backend, store, prefix, group_rank, size, timeout, address);
        return live::InnerGroups{made[0].cast<Backend>(), made[1].cast<Backend>()};
      };
  runtime = new live::ProgramRuntime(descriptor, rank, store_path, shares_sums, in_flight,
                                     builder);
}

/// `device_type`: of the tensors that the group carries through a loss, for example "cuda".
c10::intrusive_ptr<live::SurvivingBackend> create_group(
    const std::string& key, const std::string& name, const std::vector<std::size_t>& ranks,
    std::size_t own, std::chrono::milliseconds timeout, const std::string& backend,
    const std::string& device_type) {
  return c10::make_intrusive<live::SurvivingBackend>(
      runtime->add_group({.key = key,
                          .name = name,
                          .ranks = ranks,
                          .own = own,
                          .timeout = timeout,
                          .store_path = "",
                          .backend = backend,
                          .device_type = c10::Device(device_type).type()}));
}

/// Sets the code of the gradient buckets. Throws bad_input or a usage Error for a codec that does
/// not exist.
void set_codec(const std::string& name, double parameter, bool error_feedback) {
  const CodecRule rule{
      .codec = codec_of_name(name), .parameter = parameter, .error_feedback = error_feedback};
  runtime->group_records().codes.set_rule(rule);
}

/// Ends a step under policies (live::StepEnd). Returns the plans that begin with the next one.
std::vector<std::string> end_step(std::uint64_t steps, std::uint64_t share, double input_s,
                                  std::uint64_t workers, std::uint64_t depth, bool is_update) {
  return runtime->end_step({.steps = steps,
                            .share = share,
                            .input_s = input_s,
                            .workers = workers,
                            .depth = depth,
                            .is_update = is_update});
}

/// Name, group, bytes, and the instants of the call, the begin, the end and the first wait.
using LoggedOperation =
    std::tuple<std::string, std::string, double, double, double, double, double>;

/// Returns the operations that have ended, and keeps no further ones.
std::vector<LoggedOperation> stop_logging() {
  std::vector<LoggedOperation> logged;
  for (const auto& each : runtime->group_records().log.stop_logging()) {
    if (each->ended_s == 0) continue;
    logged.emplace_back(each->name, each->group, each->bytes, each->issued_s, each->begun_s,
                        each->ended_s, each->awaited_s);
  }
  return logged;
}

std::uint64_t early_starts() {
  return runtime->group_records().early_starts;
}

/// Marks of every step, as functions of C: a call through pybind11 takes several times as long.
PyObject* begin_backward(PyObject*, PyObject*) {
  runtime->group_records().meter.begin_pass();
  runtime->group_records().codes.begin_backward();
  Py_RETURN_NONE;
}

PyObject* end_backward(PyObject*, PyObject*) {
  runtime->group_records().codes.end_backward();
  Py_RETURN_NONE;
}

PyObject* mark_update(PyObject*, PyObject*) {
  runtime->mark_update();
  Py_RETURN_NONE;
}

std::array<PyMethodDef, 4> marks{{{"begin_backward", begin_backward, METH_NOARGS, nullptr},
                                  {"end_backward", end_backward, METH_NOARGS, nullptr},
                                  {"mark_update", mark_update, METH_NOARGS, nullptr},
                                  {nullptr, nullptr, 0, nullptr}}};

}  // namespace
}  // namespace orrery::python

PYBIND11_MODULE(orrery_process_group, m) {
  using namespace orrery::python;
  namespace live = orrery::live;
  const auto free = py::call_guard<py::gil_scoped_release>();
  using Group = live::SurvivingBackend;
  py::class_<Group, c10d::Backend, c10::intrusive_ptr<Group>>(m, "SurvivingBackend")
      .def_property_readonly("options", &Group::getBackendOptions);
  m.def("start_runtime", &start_runtime);
  m.def("early_starts", &early_starts);
  m.def("create_group", &create_group, free);
  m.def(
      "open_store", [] { return runtime->open_store(); }, free);
  m.def("report_step", [](std::uint64_t step, double input_s, bool ends_step) {
    runtime->report_step(step, input_s, ends_step);
  });
  m.def("mark_begin", [](double begin_s) { runtime->mark_begin(begin_s); });
  m.def("end_step", &end_step, free);
  m.def(
      "send_reports", [] { runtime->send_reports(); }, free);
  m.def(
      "send_fields", [](const live::Fields& fields) { runtime->send_fields(fields); }, free);
  m.def(
      "living_ranks", [] { return runtime->living_ranks(); }, free);
  m.def(
      "mark_step", [](std::uint64_t step) { return runtime->meeting().mark_step(step); }, free);
  m.def(
      "announce_arrival", [] { runtime->announce_arrival(); }, free);
  m.def(
      "wait_for_instruction", [] { return runtime->meeting().wait_for_instruction(); }, free);
  m.def(
      "adopt_progress", [](const live::Fields& counts) { return runtime->adopt_progress(counts); },
      free);
  m.def(
      "wait_until_settled", [] { runtime->wait_until_settled(); }, free);
  m.def(
      "start_logging", [] { runtime->group_records().log.start_logging(); }, free);
  m.def("stop_logging", &stop_logging);
  m.def("set_codec", &set_codec);
  m.def("start_measuring", [] { runtime->group_records().meter.start_measuring(); });
  PyModule_AddFunctions(m.ptr(), marks.data());
  m.def(
      "wait_until_begun", [] { runtime->plans().wait_until_begun(); }, free);
  m.def(
      "begin_step", [](std::uint64_t step) { return runtime->plans().begin_step(step); }, free);
  m.def(
      "leave_run", [] { runtime->leave_run(); }, free);
}
