#include "python/bindings/observed.hpp"

#include <array>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include <pybind11/stl.h>

#include "core/error.hpp"
#include "core/schema/names.hpp"
#include "policies/record/encoding.hpp"
#include "python/bindings/records.hpp"
#include "python/bindings/sample_arrays.hpp"

namespace py = pybind11;

namespace orrery::python {
namespace {

constexpr std::array kPhaseNames{"waiting", "starting", "running", "held", "done"};

const char* phase_name(JobPhase phase) { return kPhaseNames[static_cast<std::size_t>(phase)]; }

const char* health_name(Health health) {
  constexpr std::array kNames{"ok", "suspected", "lost"};
  return kNames[static_cast<std::size_t>(health)];
}

template <class Number>
py::bytes packed(const std::vector<Number>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Number)};
}

py::object standing(const Standing& where) {
  StandingRecord record;
  encode(where, record);
  return to_python(record);
}

py::object spec(const JobInfo& job) {
  JobRecord record;
  encode(job.spec, record);
  return to_python(record);
}

py::object setting(const Setting& value) {
  SettingRecord record;
  encode(value, record);
  return to_python(record);
}

/// One value of every setting, in the order of the variant.
template <class... S>
py::tuple settings_of(const Settings& settings, const std::variant<S...>*) {
  return py::make_tuple(setting(Setting(settings.get<S>()))...);
}

std::vector<std::uint32_t> numbers(const std::vector<RankId>& ranks) {
  std::vector<std::uint32_t> out;
  for (const RankId rank : ranks) out.push_back(rank.value);
  return out;
}

void bind_job(py::module_& module) {
  py::class_<JobInfo>(module, "JobInfo", "A job as it stood at the time of an observation.")
      .def_property_readonly("id", [](const JobInfo& job) { return job.spec.id.value; })
      .def_property_readonly("phase", [](const JobInfo& job) { return phase_name(job.phase); })
      .def_property_readonly("epoch", [](const JobInfo& job) { return job.epoch.value; })
      .def_property_readonly("step", [](const JobInfo& job) { return job.step; })
      .def_property_readonly("saved", [](const JobInfo& job) { return job.saved; })
      .def_property_readonly("saved_at", [](const JobInfo& j) { return to_seconds(j.saved_at); })
      .def_property_readonly("started", [](const JobInfo& j) { return to_seconds(j.started); })
      .def_property_readonly("gpu_seconds", [](const JobInfo& job) { return job.gpu_seconds; })
      .def_property_readonly("standing_since",
                             [](const JobInfo& job) { return to_seconds(job.standing_since); })
      .def_property_readonly("lost", [](const JobInfo& job) { return numbers(job.lost); })
      .def_property_readonly("suspected", [](const JobInfo& job) { return numbers(job.suspected); })
      .def("standing",
           [](const JobInfo& job) {
             return standing({job.gpus, job.layout});
           })
      .def("next",
           [](const JobInfo& j) { return j.next ? standing(*j.next) : py::object(py::none()); })
      .def("without_lost", [](const JobInfo& job) { return standing(without_lost(job)); })
      .def("spec", &spec)
      .def("settings", [](const JobInfo& job) {
        return settings_of(job.now, static_cast<const Setting*>(nullptr));
      });
}

/// Returns the table of samples with this name. Throws ValueError for any other name.
SampleTable table_named(const std::string& name) {
  static constexpr std::array<std::pair<std::string_view, SampleTable>, 3> kTables{
      {{"ranks", SampleTable::ranks},
       {"devices", SampleTable::devices},
       {"links", SampleTable::links}}};
  for (const auto& [known, table] : kTables) {
    if (name == known) return table;
  }
  throw py::value_error("no table of samples is named " + name);
}

/// Samples that a look returns as rows: the collectives of a job, and the summary of its ranks.
enum class SampleSummary : std::uint8_t { collectives, summary };
constexpr std::array<std::string_view, 2> names_of(SampleSummary) {
  return {"collectives", "summary"};
}

py::tuple collectives_of(Samples& samples, std::uint32_t job) {
  SamplesRead read;
  read.set_what(SamplesRead::COLLECTIVES);
  read.set_job(job);
  {
    const py::gil_scoped_release asking;  // the answer may come from another process
    read = read_samples(samples, read);
  }
  return rows_of(read, "collectives");
}

py::tuple summary_of(Samples& samples, std::uint32_t job, std::uint32_t latest) {
  SamplesRead read;
  read.set_what(SamplesRead::SUMMARY);
  read.set_job(job);
  read.set_latest(latest);
  {
    const py::gil_scoped_release asking;
    read = read_samples(samples, read);
  }
  const RankSummaryRecord& summary = read.summary();
  return py::make_tuple(summary.ranks(), summary.micro_batch_time(), summary.deviation(),
                        to_seconds(summary.age()), rows_of(summary, "latest"));
}

/// Names in the order of their first appearance, with their indexes.
class NameIndex {
 public:
  std::int64_t add(const std::string& name) {
    const auto [place, is_new] = known_.try_emplace(name, known_.size());
    if (is_new) names_.append(text_of_bytes(name));
    return static_cast<std::int64_t>(place->second);
  }
  const py::list& names() const { return names_; }

 private:
  std::unordered_map<std::string, std::size_t> known_;
  py::list names_;
};

/// Row of the table of jobs, without padding.
struct JobRow {
  std::int64_t id, phase, user, pool, priority, gpus, least_gpus, most_gpus, placed_gpus, lost,
      pending, epoch, step, saved;
  double submit, estimate, saved_at, started, gpu_seconds, standing_since;
};
constexpr std::array kIntegerColumns{
    "id",        "phase",       "user", "pool",    "priority", "gpus", "least_gpus",
    "most_gpus", "placed_gpus", "lost", "pending", "epoch",    "step", "saved"};
constexpr std::array kSecondsColumns{"submit",  "estimate",    "saved_at",
                                     "started", "gpu_seconds", "standing_since"};
static_assert(sizeof(JobRow) == 8 * (kIntegerColumns.size() + kSecondsColumns.size()));

JobRow row_of(const JobInfo& job, NameIndex& users, NameIndex& pools) {
  const JobSpec& spec = job.spec;
  const auto count = [](std::uint64_t value) { return static_cast<std::int64_t>(value); };
  return {.id = spec.id.value,
          .phase = static_cast<std::int64_t>(job.phase),
          .user = users.add(spec.user),
          .pool = pools.add(spec.pool),
          .priority = spec.priority,
          .gpus = spec.gpus,
          .least_gpus = spec.least(),
          .most_gpus = spec.most(),
          .placed_gpus = count(job.gpus.size()),
          .lost = count(job.lost.size()),
          .pending = job.next ? 1 : 0,
          .epoch = count(job.epoch.value),
          .step = count(job.step),
          .saved = count(job.saved),
          .submit = to_seconds(spec.submit),
          .estimate = to_seconds(spec.estimate),
          .saved_at = to_seconds(job.saved_at),
          .started = to_seconds(job.started),
          .gpu_seconds = job.gpu_seconds,
          .standing_since = to_seconds(job.standing_since)};
}

}  // namespace

const Observation& Observed::open() const {
  if (seen_ != nullptr) return *seen_;
  throw std::runtime_error(
      "an observation is read inside observe(): keep what was read of it, not the observation");
}

py::list Observed::events() const {
  py::list out;
  for (const Event& event : open().events) {
    EventRecord record;
    encode(event, record);
    out.append(to_python(record));
  }
  return out;
}

py::list Observed::job_ids() const {
  py::list out;
  for (const JobInfo& job : open().jobs) out.append(job.spec.id.value);
  return out;
}

py::tuple Observed::job_table() const {
  NameIndex users, pools;
  std::vector<JobRow> rows;
  for (const JobInfo& job : open().jobs) rows.push_back(row_of(job, users, pools));
  py::list columns;
  for (const char* name : kIntegerColumns) columns.append(py::make_tuple(name, "<i8"));
  for (const char* name : kSecondsColumns) columns.append(py::make_tuple(name, "<f8"));
  return py::make_tuple(columns, packed(rows), py::cast(kPhaseNames), users.names(), pools.names());
}

std::optional<JobInfo> Observed::job(std::uint32_t id) const {
  const JobInfo* job = open().jobs.find({id});
  return job == nullptr ? std::nullopt : std::optional(*job);
}

py::bytes Observed::owner() const {
  std::vector<std::int64_t> out;
  for (const JobId owner : open().state.owner) {
    out.push_back(owner == ClusterState::kNobody ? -1 : std::int64_t{owner.value});
  }
  return packed(out);
}

py::bytes Observed::free_gpus() const {
  const ClusterState& state = open().state;
  std::vector<std::uint32_t> out;
  for (std::uint32_t gpu = 0; gpu < state.owner.size(); ++gpu) {
    const bool free = state.owner[gpu] == ClusterState::kNobody &&
                      state.is_healthy({gpu}, open().cluster.node_of({gpu}));
    if (free) out.push_back(gpu);
  }
  return packed(out);
}

py::list Observed::parts() const {
  py::list out;
  for (const auto& [part, state] : open().state.parts) {
    const Removal removal = state.removal.value_or(Removal());
    const auto seconds = [](std::optional<Nanos> at) {
      return at ? std::optional(to_seconds(*at)) : std::nullopt;
    };
    out.append(py::make_tuple(std::string(name_of(part.kind)), part.index,
                              health_name(state.health), state.rate, to_seconds(state.since),
                              seconds(removal.at), removal.at_step, seconds(removal.back_at),
                              removal.back_at_step));
  }
  return out;
}

// Python has no constants: its classes offer no way to write into rows and columns.

std::shared_ptr<SampleRows> Observed::sample_rows(const std::string& table,
                                                  std::uint32_t job) const {
  const SampleTable which = table_named(table);
  Samples& samples = open().samples;
  const py::gil_scoped_release asking;  // the answer may come from another process
  return std::const_pointer_cast<SampleRows>(samples.rows(which, {job}));
}

std::shared_ptr<SampleColumn> Observed::sample_column(const std::string& field,
                                                      std::uint32_t job) const {
  Samples& samples = open().samples;
  const std::optional<SampleField> found = field_of_name(field);
  if (!found) throw py::value_error("no field of name " + field);
  const py::gil_scoped_release asking;
  return std::const_pointer_cast<SampleColumn>(samples.column(*found, {job}));
}

py::tuple Observed::samples(const std::string& what, std::uint32_t job,
                            std::uint32_t latest) const {
  Samples& samples = open().samples;
  switch (named<SampleSummary>(what)) {
    case SampleSummary::collectives: return collectives_of(samples, job);
    case SampleSummary::summary: break;
  }
  return summary_of(samples, job, latest);
}

DecisionList& Decisions::list() const {
  if (list_ == nullptr) throw std::runtime_error("decisions are only taken inside observe()");
  return *list_;
}

DecisionId Decisions::add(py::handle what, py::handle why, py::handle at_step, py::handle if_epoch,
                          py::handle expires, py::handle group) {
  DecisionRecord record;
  if (!choose_in_python(what, "what", record)) {
    throw py::type_error("expected an action of orrery.actions, got " +
                         py::repr(what).cast<std::string>() +
                         "; a setting goes to decisions.configure(job, setting)");
  }
  Decision decision;
  try {
    decision = decode(record);
  } catch (const Error& error) {
    throw py::value_error(error.message());
  }
  decision.at_step = whole_number(at_step, "at_step");
  if (!if_epoch.is_none()) decision.if_epoch = Epoch{whole_number(if_epoch, "if_epoch")};
  decision.expires = expires.is_none() ? kNever : nanos_of_seconds(expires, "expires");
  decision.group = static_cast<std::uint32_t>(whole_number(group, "group", ~std::uint32_t{0}));
  decision.why = utf8(why, "why");
  Decision& taken = list().add(std::move(decision.what), {});
  decision.what = std::move(taken.what);
  decision.id = taken.id;
  taken = std::move(decision);
  return taken.id;
}

void Decisions::wake(py::handle at) { list().wake(nanos_of_seconds(at, "wake(at)")); }

void Decisions::add_note(py::handle key, py::handle value) {
  std::string name = utf8(key, "note(key)");
  if (py::isinstance<py::str>(value)) {
    list().add_note(std::move(name), utf8(value, "note(value)"));
    return;
  }
  const double number = PyFloat_AsDouble(value.ptr());
  if (number == -1 && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    throw py::type_error("note(value): expected a number or a text, got " +
                         py::repr(value).cast<std::string>());
  }
  list().add_note(std::move(name), number);
}

void bind_observed(py::module_& module) {
  bind_job(module);
  bind_samples(module);
  py::class_<Observed, std::shared_ptr<Observed>>(module, "Observed",
                                                  "What a policy is shown at one instant.")
      .def_property_readonly("now", [](const Observed& o) { return to_seconds(o.open().now); })
      .def_property_readonly("sequence", [](const Observed& o) { return o.open().sequence; })
      .def_property_readonly("free", [](const Observed& o) { return o.open().state.free; })
      .def_property_readonly("free_per_node",
                             [](const Observed& o) { return packed(o.open().state.free_per_node); })
      .def("events", &Observed::events)
      .def("job_ids", &Observed::job_ids)
      .def("job", &Observed::job, py::arg("id"))
      .def("job_table", &Observed::job_table)
      .def("owner", &Observed::owner)
      .def("free_gpus", &Observed::free_gpus)
      .def("parts", &Observed::parts)
      .def("sample_rows", &Observed::sample_rows, py::arg("table"), py::arg("job"))
      .def("sample_column", &Observed::sample_column, py::arg("field"), py::arg("job"))
      .def("samples", &Observed::samples, py::arg("what"), py::arg("job"), py::arg("latest"));
  py::class_<Decisions, std::shared_ptr<Decisions>>(module, "DecisionSink",
                                                    "Takes what a policy decides.")
      .def("add", &Decisions::add, py::arg("what"), py::arg("why"), py::arg("at_step"),
           py::arg("if_epoch"), py::arg("expires"), py::arg("group"))
      .def("wake", &Decisions::wake, py::arg("at"))
      .def("rest", &Decisions::rest)
      .def("note", &Decisions::add_note, py::arg("key"), py::arg("value"))
      .def("new_group", &Decisions::new_group)
      .def("__len__", &Decisions::size);
}

}  // namespace orrery::python
