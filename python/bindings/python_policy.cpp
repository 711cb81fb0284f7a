#include "python/bindings/python_policy.hpp"

#include <pybind11/stl.h>

#include "core/error.hpp"
#include "python/bindings/bindings.hpp"
#include "python/bindings/observed.hpp"

namespace py = pybind11;

namespace orrery::python {
namespace {

/// Calls into Python; a Python exception is kept and becomes an Error that ends the run.
template <class Call>
void in_python(Raised& raised, Call&& call) {
  const py::gil_scoped_acquire gil;
  try {
    call();
  } catch (py::error_already_set& error) {
    if (!raised.exception) raised.exception.emplace(error);
    throw Error(ErrorKind::internal, "the policy raised an exception");
  }
}

const char* phase_name(JobPhase phase) {
  switch (phase) {
    case JobPhase::waiting: return "waiting";
    case JobPhase::running: return "running";
    case JobPhase::done: return "done";
  }
  return "unknown";
}

std::vector<std::uint32_t> gpu_numbers(const JobInfo& job) {
  std::vector<std::uint32_t> out;
  for (const GpuId gpu : job.gpus) out.push_back(gpu.value);
  return out;
}

py::object nominal_time(const JobInfo& job) {
  const Nanos time = job.spec.nominal_micro_batch_time;
  return time > 0 ? py::object(py::float_(to_seconds(time))) : py::object(py::none());
}

void bind_job(py::module_& module) {
  py::class_<JobInfo>(module, "Job", "A job as it stood at the time of an observation.")
      .def_property_readonly("id", [](const JobInfo& j) { return j.spec.id.value; })
      .def_property_readonly("name", [](const JobInfo& j) { return j.spec.name; })
      .def_property_readonly("phase", [](const JobInfo& j) { return phase_name(j.phase); })
      .def_property_readonly("step", [](const JobInfo& j) { return j.step; })
      .def_property_readonly("steps", [](const JobInfo& j) { return j.spec.steps; })
      .def_property_readonly("tensor", [](const JobInfo& j) { return j.spec.tensor; })
      .def_property_readonly("context", [](const JobInfo& j) { return j.spec.context; })
      .def_property_readonly("pipeline", [](const JobInfo& j) { return j.spec.pipeline; })
      .def_property_readonly("data", [](const JobInfo& j) { return j.spec.data; })
      .def_property_readonly("micro_batches", [](const JobInfo& j) { return j.spec.micro_batches; })
      .def_property_readonly("max_micro_batches",
                             [](const JobInfo& j) { return j.spec.max_micro_batches; })
      .def_property_readonly("nominal_micro_batch_time", &nominal_time)
      .def_property_readonly("gpus", &gpu_numbers)
      .def_property_readonly("per_replica", [](const JobInfo& j) { return j.per_replica; })
      .def(
          "replica_of",
          [](const JobInfo& j, std::uint32_t rank) { return j.spec.replica_of(RankId{rank}); },
          py::arg("rank"));
}

void bind_cluster(py::module_& module) {
  py::class_<Cluster>(module, "Cluster", "The immutable description of a cluster.")
      .def_property_readonly("gpus", &Cluster::gpus)
      .def_property_readonly("nodes", &Cluster::nodes)
      .def_property_readonly("rails", &Cluster::rails)
      .def_property_readonly("gpus_per_node",
                             [](const Cluster& c) { return c.shape().gpus_per_node; })
      .def_property_readonly("gpu_name", [](const Cluster& c) { return c.gpu_model().name; })
      .def_property_readonly("gpu_memory",
                             [](const Cluster& c) { return c.gpu_model().memory.value; })
      .def(
          "node_of", [](const Cluster& c, std::uint32_t gpu) { return c.node_of({gpu}).value; },
          py::arg("gpu"))
      .def(
          "rail_of", [](const Cluster& c, std::uint32_t gpu) { return c.rail_of({gpu}); },
          py::arg("gpu"));
}

}  // namespace

PythonPolicy::PythonPolicy(py::object object, Raised& raised)
    : object_(std::move(object)), raised_(raised) {
  const py::object needs = object_.attr("needs")();
  needs_.signals = needs.attr("signal_bits").cast<std::uint32_t>();
  needs_.actions = needs.attr("action_bits").cast<std::uint32_t>();
  needs_.tick_period = to_nanos(needs.attr("tick").cast<double>());
}

PythonPolicy::~PythonPolicy() {
  const py::gil_scoped_acquire gil;
  object_ = py::object();
}

void PythonPolicy::start(Context&, const Cluster& cluster, const google::protobuf::Message*) {
  in_python(raised_, [&] { object_.attr("start")(py::cast(cluster)); });
}

void PythonPolicy::observe(Context&, const Observation& seen, DecisionList& decisions) {
  in_python(raised_, [&] {
    const auto open = std::make_shared<Decisions>(decisions);
    const std::shared_ptr<void> closed(nullptr, [&open](void*) { open->close(); });
    object_.attr("_observe")(py::cast(Observed(seen)), py::cast(open));
  });
}

void PythonPolicy::save(Archive& archive) const {
  in_python(raised_, [&] { archive += object_.attr("save")().cast<std::string>(); });
}

void bind_policy(py::module_& module) {
  py::class_<Observed>(module, "Observed", "What a policy is shown at one instant.")
      .def_property_readonly("now", &Observed::now)
      .def_property_readonly("epoch", &Observed::epoch)
      .def_property_readonly("sequence", &Observed::sequence)
      .def_property_readonly("jobs", &Observed::jobs)
      .def("events", &Observed::events)
      .def("ranks", &Observed::ranks)
      .def("devices", &Observed::devices)
      .def("links", &Observed::links);
  py::class_<Decisions, std::shared_ptr<Decisions>>(module, "Decisions",
                                                    "Where a policy puts what it decides.")
      .def("shift_microbatches", &Decisions::shift_microbatches, py::arg("job"),
           py::arg("per_replica"), py::arg("at_step") = 0, py::arg("why") = "")
      .def("wake_at", &Decisions::wake_at, py::arg("seconds"), py::arg("why") = "")
      .def("rest", &Decisions::rest)
      .def("__len__", &Decisions::size);
  bind_job(module);
  bind_cluster(module);
}

}  // namespace orrery::python
