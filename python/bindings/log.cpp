// Records of a log for orrery.read_log(): its header, events, decisions, annotations and telemetry
// as Python objects. GIL held.
#include <optional>
#include <string>

#include <pybind11/stl.h>

#include "core/error.hpp"
#include "core/schema/yaml_writer.hpp"
#include "policies/record/encoding.hpp"
#include "policies/record/log_reader.hpp"
#include "python/bindings/bindings.hpp"
#include "python/bindings/observed.hpp"
#include "python/bindings/records.hpp"

namespace py = pybind11;

namespace orrery::python {
namespace {

py::dict header_of(const LogHeader& header) {
  py::dict out;
  out["version"] = header.version();
  out["mode"] = header.mode();
  out["seed"] = header.seed();
  out["scenario"] = header.has_scenario() ? to_yaml_json(header.scenario()).dump() : "";
  py::list policies;
  for (const std::string& name : header.outside_policies()) policies.append(text_of_bytes(name));
  if (policies.empty() && header.has_replay()) policies.append(header.replay().policy());
  if (policies.empty()) {
    for (const PolicySpec& policy : header.scenario().policies()) policies.append(policy.name());
  }
  out["policies"] = policies;
  return out;
}

py::object value_of(const NoteRecord& note) {
  if (note.has_number()) return py::float_(note.number());
  return text_of_bytes(note.text());
}

py::tuple samples_of(const SamplesRead& read) {
  const std::string what = SamplesRead::What_Name(read.what());
  switch (read.what()) {
    case SamplesRead::RANKS: return py::make_tuple(what, read.job(), rows_of(read, "ranks"));
    case SamplesRead::DEVICES: return py::make_tuple(what, read.job(), rows_of(read, "devices"));
    case SamplesRead::LINKS: return py::make_tuple(what, read.job(), rows_of(read, "links"));
    case SamplesRead::COLLECTIVES:
      return py::make_tuple(what, read.job(), rows_of(read, "collectives"));
    default: break;
  }
  const RankSummaryRecord& summary = read.summary();
  return py::make_tuple("SUMMARY", read.job(), summary.ranks(), summary.micro_batch_time(),
                        summary.deviation(), to_seconds(summary.age()), rows_of(summary, "latest"));
}

/// Reader of one log for Python. A log whose end is missing is read up to its last whole record.
class LogRecords {
 public:
  explicit LogRecords(const std::string& path) : log_(path), header_(read_header(log_)) {}

  py::dict header() const { return header_of(header_); }
  /// Returns the next call as (instant, events, decisions, annotations, telemetry); None at the
  /// end.
  py::object next_call() {
    try {
      ended_ = ended_ || !log_.next(record_) || !record_.has_call();
      if (ended_) {
        complete_ = complete_ || record_.has_footer();
        return py::none();
      }
      return call_of(record_.call());
    } catch (const Error& error) {
      ended_ = true;
      problem_ = error.message();
      return py::none();
    }
  }
  /// Returns the reason why the log ends early; empty for a complete log.
  std::string problem() const {
    if (!problem_.empty() || complete_) return problem_;
    return "the log has no end: its run goes on, or was killed";
  }

 private:
  static py::tuple call_of(const CallRecord& call) {
    py::list events, decisions, notes, samples;
    for (const EventRecord& event : call.observation().events()) events.append(to_python(event));
    for (const DecisionRecord& decision : call.decisions()) {
      decisions.append(decision_in_python(decision));
    }
    for (const NoteRecord& note : call.notes()) {
      notes.append(py::make_tuple(text_of_bytes(note.key()), value_of(note)));
    }
    for (const SamplesRead& read : call.read()) samples.append(samples_of(read));
    return py::make_tuple(to_seconds(call.observation().now()), events, decisions, notes, samples);
  }

  LogReader log_;
  const LogHeader header_;
  LogRecord record_;
  bool ended_ = false, complete_ = false;
  std::string problem_;
};

}  // namespace

void bind_log(py::module_& module) {
  py::class_<LogRecords>(module, "LogRecords", "The calls of a recorded log, one after another.")
      .def(py::init<const std::string&>(), py::arg("path"))
      .def_property_readonly("header", &LogRecords::header)
      .def_property_readonly("problem", &LogRecords::problem)
      .def("next_call", &LogRecords::next_call);
}

}  // namespace orrery::python
