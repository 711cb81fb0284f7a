// Records of a log for orrery.read_log(): its header, events, decisions, annotations and telemetry
// as Python objects. GIL held.
#include <map>
#include <optional>
#include <string>
#include <utility>

#include <pybind11/stl.h>

#include "core/error.hpp"
#include "core/schema/yaml_writer.hpp"
#include "policies/record/encoding.hpp"
#include "policies/record/log_reader.hpp"
#include "policies/record/samples_book.hpp"
#include "python/bindings/bindings.hpp"
#include "python/bindings/observed.hpp"
#include "python/bindings/records.hpp"
#include "python/bindings/sample_arrays.hpp"

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

/// Returns (kind, job, values) of a read of collectives or of a summary.
py::tuple samples_of(const SamplesRead& read) {
  if (read.what() == SamplesRead::COLLECTIVES) {
    return py::make_tuple("COLLECTIVES", read.job(), rows_of(read, "collectives"));
  }
  const RankSummaryRecord& summary = read.summary();
  return py::make_tuple("SUMMARY", read.job(), summary.ranks(), summary.micro_batch_time(),
                        summary.deviation(), to_seconds(summary.age()), rows_of(summary, "latest"));
}

/// Returns (kind, job, rows or None, columns by the names of their fields) of each table of which a
/// policy has read something.
void append_tables(const CallRecord& call, py::list& out) {
  SamplesBook book;
  std::map<std::pair<SamplesRead::What, std::uint32_t>, std::pair<py::object, py::dict>> tables;
  for (const SamplesRead& read : call.read()) {
    if (read.what() > SamplesRead::LINKS) continue;
    book.add(read);
    auto& [rows, columns] = tables[{read.what(), read.job()}];
    const auto table = static_cast<SampleTable>(read.what());
    if (read.column() == 0) {
      rows = py::cast(*book.rows(table, {read.job()}));
      continue;
    }
    const SampleField field = fields_of(table)[read.column() - 1];  // add() has checked it
    columns[std::string(name_of(field)).c_str()] = py::cast(*book.column(field, {read.job()}));
  }
  for (auto& [key, parts] : tables) {
    if (!parts.first) parts.first = py::none();
    out.append(py::make_tuple(SamplesRead::What_Name(key.first), key.second, parts.first,
                              parts.second));
  }
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
    append_tables(call, samples);
    for (const SamplesRead& read : call.read()) {
      if (read.what() > SamplesRead::LINKS) samples.append(samples_of(read));
    }
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
