// Observations without a run for orrery.testing: a world to which a test tells events and samples,
// and a list of decisions. GIL held.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <pybind11/stl.h>

#include "core/error.hpp"
#include "policies/record/encoding.hpp"
#include "policies/record/samples_book.hpp"
#include "policies/run/registry.hpp"
#include "python/bindings/bindings.hpp"
#include "python/bindings/observed.hpp"
#include "python/bindings/records.hpp"
#include "topologies/builder.hpp"
#include "traces/scenario/scenario.hpp"

namespace py = pybind11;

namespace orrery::python {
namespace {

/// Telemetry of a test. Summaries are those of the given ranks; absent telemetry is unknown.
class GivenSamples : public SamplesBook {
 private:
  void fetch_samples(const SamplesRead& wish) override {
    if (wish.what() != SamplesRead::SUMMARY) return add(wish);
    std::vector<RankSample> slowest;
    const RankSummary summary = summarize(*this, {wish.job()}, wish.latest(), slowest);
    SummaryOnly source(summary);
    add(read_samples(source, wish));
  }

  /// Source of one summary, for its encoding.
  class SummaryOnly : public NoSamples {
   public:
    explicit SummaryOnly(const RankSummary& summary) : summary_(summary) {}
    RankSummary summary(JobId, std::uint32_t) override { return summary_; }

   private:
    const RankSummary& summary_;
  };
};

/// World of the observations of a test: the cluster and the jobs as the told events have left them.
class ScriptedWorld {
 public:
  explicit ScriptedWorld(Cluster cluster) : cluster_(std::move(cluster)), reader_(cluster_) {}
  ~ScriptedWorld() {
    if (shown_) shown_->close();
  }
  ScriptedWorld(const ScriptedWorld&) = delete;
  ScriptedWorld& operator=(const ScriptedWorld&) = delete;

  const Cluster& cluster() const { return cluster_; }

  /// Applies the events and returns the observation, which is valid until the next call. `samples`:
  /// (kind, job, rows). Throws bad_input for an event that cannot happen in this world.
  std::shared_ptr<Observed> observe(double now, std::uint64_t sequence, const py::list& events,
                                    const py::list& samples) {
    if (shown_) shown_->close();
    ObservationRecord record;
    record.set_now(to_nanos(now));
    record.set_sequence(sequence);
    for (const py::handle event : events) {
      if (choose_in_python(event, "kind", *record.add_events())) continue;
      throw py::type_error("expected events of orrery.events, got " +
                           py::repr(event).cast<std::string>());
    }
    samples_.clear();
    for (const py::handle each : samples) {
      for (const SamplesRead& read : columns_of_rows(read_of(each))) samples_.add(read);
    }
    seen_.emplace(reader_.read(record, samples_));
    shown_ = std::make_shared<Observed>(*seen_);
    return shown_;
  }
  /// Tells the decisions, so that later events can be their outcomes.
  void announce_decisions(const DecisionList& decisions) {
    for (const Decision& decision : decisions.items()) reader_.world().announce_decision(decision);
  }

 private:
  static SamplesRead read_of(py::handle given) {
    const auto [what, job, rows] = given.cast<std::tuple<std::string, std::uint32_t, py::list>>();
    SamplesRead read;
    SamplesRead::What kind{};
    ensure(SamplesRead::What_Parse(what, &kind), "the package names kinds of samples");
    read.set_what(kind);
    read.set_job(job);
    for (const py::handle row : rows) {
      switch (kind) {
        case SamplesRead::DEVICES: row_from_python(row, *read.add_devices()); break;
        case SamplesRead::LINKS: row_from_python(row, *read.add_links()); break;
        case SamplesRead::COLLECTIVES: row_from_python(row, *read.add_collectives()); break;
        default: row_from_python(row, *read.add_ranks());
      }
    }
    return read;
  }

  const Cluster cluster_;
  ObservationReader reader_;
  GivenSamples samples_;
  std::optional<Observation> seen_;
  std::shared_ptr<Observed> shown_;
};

Cluster plain_cluster(std::uint32_t nodes, std::uint32_t gpus_per_node) {
  JobReplay counts;
  counts.set_nodes(nodes);
  counts.set_gpus_per_node(gpus_per_node);
  return cluster_of(counts);
}

/// List of decisions that outlives a call, as a Python object.
struct OwnDecisions {
  explicit OwnDecisions(DecisionId next) : list(next), sink(std::make_shared<Decisions>(list)) {}
  ~OwnDecisions() { sink->close(); }
  OwnDecisions(const OwnDecisions&) = delete;
  OwnDecisions& operator=(const OwnDecisions&) = delete;

  py::list items() const {
    py::list out;
    for (const Decision& decision : list.items()) {
      DecisionRecord record;
      encode(decision, record);
      out.append(decision_in_python(record));
    }
    return out;
  }
  py::list notes() const {
    py::list out;
    for (const Note& note : list.notes()) {
      const double* number = std::get_if<double>(&note.value);
      out.append(py::make_tuple(
          note.key, number != nullptr ? py::object(py::float_(*number))
                                      : py::object(py::str(std::get<std::string>(note.value)))));
    }
    return out;
  }
  std::vector<double> wakes() const {
    std::vector<double> out;
    for (const Nanos at : list.wake_times()) out.push_back(to_seconds(at));
    return out;
  }

  DecisionList list;
  std::shared_ptr<Decisions> sink;
};

}  // namespace

void bind_testing(py::module_& module) {
  py::class_<ScriptedWorld>(module, "ScriptedWorld", "A world of which a test tells the events.")
      .def(py::init([](std::uint32_t nodes, std::uint32_t gpus_per_node) {
             return std::make_unique<ScriptedWorld>(plain_cluster(nodes, gpus_per_node));
           }),
           py::arg("nodes"), py::arg("gpus_per_node"))
      .def_static(
          "of_scenario",
          [](const LoadedScenario& loaded) {
            return std::make_unique<ScriptedWorld>(
                build_cluster(loaded.scenario.cluster(), SourceMap{}));
          },
          py::arg("scenario"))
      .def("cluster", [](const ScriptedWorld& self) { return self.cluster(); })
      .def("observe", &ScriptedWorld::observe, py::arg("now"), py::arg("sequence"),
           py::arg("events"), py::arg("samples"), py::keep_alive<0, 1>())
      .def(
          "announce",
          [](ScriptedWorld& self, const OwnDecisions& decisions) {
            self.announce_decisions(decisions.list);
          },
          py::arg("decisions"));
  py::class_<OwnDecisions>(module, "OwnDecisions", "A list of decisions that outlives a call.")
      .def(py::init<DecisionId>(), py::arg("next"))
      .def_property_readonly("sink", [](const OwnDecisions& self) { return self.sink; })
      .def_property_readonly("resting",
                             [](const OwnDecisions& self) { return self.list.is_resting(); })
      .def_property_readonly("next", [](const OwnDecisions& self) { return self.list.next(); })
      .def("items", &OwnDecisions::items)
      .def("notes", &OwnDecisions::notes)
      .def("wakes", &OwnDecisions::wakes);
}

}  // namespace orrery::python
