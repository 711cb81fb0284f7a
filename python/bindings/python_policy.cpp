#include "python/bindings/python_policy.hpp"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <pybind11/stl.h>

#include "core/error.hpp"
#include "policies/run/host_policy.hpp"
#include "policies/run/policy_failure.hpp"
#include "policies/run/registry.hpp"
#include "python/bindings/bindings.hpp"
#include "python/bindings/observed.hpp"
#include "python/bindings/records.hpp"

namespace py = pybind11;

namespace orrery::python {
namespace {

using Names = std::span<const std::string_view>;

/// Calls into Python; a Python exception is kept, unless the run continues after it, and becomes an
/// Error with the place in the user's file.
template <class Call>
void in_python(Raised& raised, Call&& call) {
  const py::gil_scoped_acquire gil;
  try {
    call();
  } catch (py::error_already_set& error) {
    const Error failure = error_of(error);
    if (!raised.exception && !raised.falls_back) raised.exception.emplace(error);
    throw failure;
  }
}

std::vector<std::string> as_list(Names names) { return {names.begin(), names.end()}; }

/// The package has checked the names.
std::uint32_t bits_of(const std::vector<std::string>& chosen, Names names) {
  std::uint32_t bits = 0;
  for (const std::string& name : chosen) {
    const auto found = std::find(names.begin(), names.end(), name);
    ensure(found != names.end(), "a policy needs what there is");
    bits |= 1u << (found - names.begin());
  }
  return bits;
}

std::vector<std::string> names_of(std::uint32_t bits, Names names) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if ((bits >> i & 1u) != 0) out.emplace_back(names[i]);
  }
  return out;
}

Needs needs_of(const py::object& policy) {
  const py::tuple needs = policy.attr("_needs")();
  const auto actions = needs[0].cast<std::vector<std::string>>();
  const auto settings = needs[1].cast<std::vector<std::string>>();
  return {Kinds<Action>::from_bits(bits_of(actions, action_names())),
          Kinds<Setting>::from_bits(bits_of(settings, setting_names())),
          to_nanos(needs[2].cast<double>()), false, needs[3].cast<bool>(), needs[4].cast<bool>()};
}

/// Two policies of one class are "Mine" and "Mine 2": their generators differ, and so do errors.
std::string unique_name(const std::string& name, std::set<std::string>& taken) {
  std::string unique = name;
  for (int i = 2; !taken.insert(unique).second; ++i) unique = fmt::format("{} {}", name, i);
  return unique;
}

}  // namespace

Error error_of(const py::error_already_set& exception) {
  if (exception.trace()) {
    PyException_SetTraceback(exception.value().ptr(), exception.trace().ptr());
  }
  const py::tuple found = py::module_::import("orrery._errors").attr("raised")(exception.value());
  const std::string text = utf8(found[0], "exception");
  const int line = found[2].cast<int>();
  if (line == 0) return {ErrorKind::bad_input, text};
  return {SourcePlace{utf8(found[1], "file"), line, 1, utf8(found[3], "line")}, text};
}

PythonPolicy::PythonPolicy(py::object object, Raised& raised)
    : object_(std::move(object)), raised_(raised), needs_(needs_of(object_)) {}

PythonPolicy::~PythonPolicy() {
  const py::gil_scoped_acquire gil;
  object_ = py::object();
}

void PythonPolicy::start(Context& context, const Cluster& cluster,
                         const google::protobuf::Message* /*parameters*/) {
  tell_what_is_offered(context.backend);
  in_python(raised_, [&] {
    object_.attr("_start")(py::cast(cluster), context.rng.split_stream("python").state());
  });
}

void PythonPolicy::observe(Context& context, const Observation& seen, DecisionList& decisions) {
  tell_what_is_offered(context.backend);
  in_python(raised_, [&] {
    const auto shown = std::make_shared<Observed>(seen);
    const auto open = std::make_shared<Decisions>(decisions);
    const std::shared_ptr<void> closed(nullptr, [&](void*) {
      shown->close();
      open->close();
    });
    object_.attr("_observe")(py::cast(shown), py::cast(open));
  });
}

void PythonPolicy::tell_what_is_offered(const Capabilities& offered) {
  if (offered_ && offered_->actions == offered.actions && offered_->settings == offered.settings) {
    return;
  }
  offered_ = offered;
  in_python(raised_, [&] {
    object_.attr("_offer")(names_of(offered.actions.bits(), action_names()),
                           names_of(offered.settings.bits(), setting_names()));
  });
}

void PythonPolicy::save(Archive& archive) const {
  in_python(raised_, [&] { archive += object_.attr("_save")().cast<std::string>(); });
}

void PythonPolicy::load(const Archive& archive) {
  in_python(raised_, [&] { object_.attr("_load")(py::bytes(archive)); });
}

std::uint32_t PythonPolicy::state_version() const {
  std::uint32_t version = 0;
  in_python(raised_, [&] { version = object_.attr("_state_version")().cast<std::uint32_t>(); });
  return version;
}

bool PythonPolicy::convert_state(Archive& state, std::uint32_t version) const {
  bool converted = false;
  in_python(raised_, [&] {
    const py::object bytes = object_.attr("_convert")(py::bytes(state), version);
    converted = !bytes.is_none();
    if (converted) state = bytes.cast<std::string>();
  });
  return converted;
}

std::vector<std::string> listed_names(const py::handle& policies) {
  std::vector<std::string> names;
  for (const py::handle each : policies) {
    const bool named = py::isinstance<py::tuple>(each);
    names.push_back(py::str(named ? py::object(each[py::int_(0)])
                                  : py::object(py::type::of(each).attr("__name__"))));
  }
  return names;
}

std::unique_ptr<PolicyStack> stack_of(const py::list& policies, Raised& raised,
                                      const SpecOf& spec_of) {
  std::vector<PolicyStack::Member> members;
  std::set<std::string> taken;
  for (const py::handle item : policies) {
    if (!py::isinstance<py::tuple>(item)) {
      const std::string name = py::str(py::type::of(item).attr("__name__"));
      members.push_back({.name = unique_name(name, taken),
                         .policy = std::make_unique<PythonPolicy>(
                             py::reinterpret_borrow<py::object>(item), raised),
                         .parameters = nullptr});
      continue;
    }
    const auto [name, values] = item.cast<std::pair<std::string, PolicyParameters>>();
    const PolicySpec spec = spec_of(name, values);
    members.push_back({.name = unique_name(name, taken),
                       .policy = make_policy(name, {}),
                       .parameters = policy_parameters(name, spec.parameters())});
  }
  return std::make_unique<PolicyStack>(std::move(members));
}

namespace {

/// Serves policies to the command line. `load` makes the policy of a file and a class.
void serve_policies(const py::object& load) {
  Raised raised;
  const auto make = [&](const PolicyHostOrder& order) {
    const py::gil_scoped_acquire gil;
    py::list listed;
    for (const HostedPolicy& each : order.policies()) {
      if (each.file().empty()) {
        listed.append(py::make_tuple(each.registered().name(), py::dict()));
      } else {
        listed.append(load(text_of_bytes(each.file()), text_of_bytes(each.type())));
      }
    }
    return stack_of(listed, raised, [&order](const std::string& name, const auto&) {
      for (const HostedPolicy& each : order.policies()) {
        if (each.registered().name() == name) return each.registered();
      }
      throw Error(ErrorKind::internal, "an order has the policies that it names");
    });
  };
  const auto failure_of = [&](const std::exception& error) {
    const py::gil_scoped_acquire gil;
    if (raised.exception) {
      py::module_::import("traceback")
          .attr("print_exception")(raised.exception->type(), raised.exception->value(),
                                   raised.exception->trace());
    }
    if (const auto* thrown = dynamic_cast<const py::error_already_set*>(&error)) {
      return failure_record(error_of(*thrown));
    }
    const auto* own = dynamic_cast<const Error*>(&error);
    return failure_record(own != nullptr ? *own : Error(ErrorKind::internal, error.what()));
  };
  const py::gil_scoped_release serving;
  serve_policy(make, failure_of);
}

}  // namespace

void bind_policy(py::module_& module) {
  bind_observed(module);
  module.def("serve_policies", &serve_policies, py::arg("load"));
  module.def("action_names", [] { return as_list(action_names()); });
  module.def("setting_names", [] { return as_list(setting_names()); });
}

}  // namespace orrery::python
