#include "python/bindings/observed.hpp"

#include <limits>
#include <stdexcept>
#include <variant>

namespace py = pybind11;
using py::literals::operator""_a;

namespace orrery::python {
namespace {

double known(const Sample<double>& sample) {
  return sample.known() ? sample.value : std::numeric_limits<double>::quiet_NaN();
}

struct RankRow {
  std::uint32_t job, rank;
  std::uint64_t step;
  double micro_batches_done, micro_batch_time, wait_time, gradient_variance, age;
};
struct DeviceRow {
  std::uint64_t gpu;
  double utilization, memory_bandwidth, memory_used, power, age;
};
struct LinkRow {
  std::uint32_t from, to;
  double latency, bandwidth, age;
};

RankRow row(const RankSample& s) {
  return {s.job.value,
          s.rank.value,
          s.step,
          known(s.micro_batches_done),
          known(s.micro_batch_time),
          known(s.wait_time),
          known(s.gradient_variance),
          to_seconds(s.micro_batches_done.age)};
}
DeviceRow row(const DeviceSample& s) {
  return {s.gpu.value,          known(s.utilization), known(s.memory_bandwidth),
          known(s.memory_used), known(s.power),       to_seconds(s.utilization.age)};
}
LinkRow row(const LinkSample& s) {
  return {s.from.value, s.to.value, known(s.latency), known(s.bandwidth),
          to_seconds(s.latency.age)};
}

template <class Sampled>
std::string pack(std::span<const Sampled> samples) {
  std::string out;
  for (const Sampled& sample : samples) {
    const auto packed = row(sample);
    out.append(reinterpret_cast<const char*>(&packed), sizeof packed);
  }
  return out;
}

const char* status_name(Outcome status) {
  switch (status) {
    case Outcome::applied: return "applied";
    case Outcome::rejected: return "rejected";
    case Outcome::expired: return "expired";
  }
  return "unknown";
}

/// (class name, fields) of one event.
struct Describe {
  py::tuple operator()(const JobDone& e) const {
    return py::make_tuple("JobDone", py::dict("job"_a = e.job.value));
  }
  py::tuple operator()(const StepDone& e) const {
    return py::make_tuple("StepDone", py::dict("job"_a = e.job.value, "step"_a = e.step,
                                               "duration"_a = to_seconds(e.duration)));
  }
  py::tuple operator()(const CheckpointDone& e) const {
    return py::make_tuple("CheckpointDone", py::dict("job"_a = e.job.value, "step"_a = e.step,
                                                     "tier"_a = e.tier));
  }
  py::tuple operator()(const RankSuspected& e) const { return rank("RankSuspected", e); }
  py::tuple operator()(const RankLost& e) const { return rank("RankLost", e); }
  py::tuple operator()(const RankBack& e) const { return rank("RankBack", e); }
  py::tuple operator()(const LinkDown& e) const {
    return py::make_tuple("LinkDown", py::dict("link"_a = e.link.value));
  }
  py::tuple operator()(const LinkUp& e) const {
    return py::make_tuple("LinkUp", py::dict("link"_a = e.link.value));
  }
  py::tuple operator()(const JobSubmitted& e) const {
    return py::make_tuple("JobSubmitted", py::dict("job"_a = e.job.id.value));
  }
  py::tuple operator()(const DecisionOutcome& e) const {
    return py::make_tuple("DecisionOutcome",
                          py::dict("decision"_a = e.decision, "status"_a = status_name(e.status),
                                   "reason"_a = e.reason));
  }
  py::tuple operator()(const Tick&) const { return py::make_tuple("Tick", py::dict()); }

  template <class RankEvent>
  static py::tuple rank(const char* name, const RankEvent& e) {
    return py::make_tuple(name, py::dict("job"_a = e.job.value, "rank"_a = e.rank.value));
  }
};

}  // namespace

Observed::Observed(const Observation& seen)
    : now_(seen.now),
      epoch_(seen.epoch.value),
      sequence_(seen.sequence),
      events_(seen.events.begin(), seen.events.end()),
      ranks_(pack(seen.ranks)),
      devices_(pack(seen.devices)),
      links_(pack(seen.links)),
      jobs_(seen.jobs.begin(), seen.jobs.end()) {}

py::list Observed::events() const {
  py::list out;
  for (const Event& event : events_) out.append(std::visit(Describe{}, event));
  return out;
}

DecisionList& Decisions::list() const {
  if (list_ == nullptr) throw std::runtime_error("decisions are only taken inside observe()");
  return *list_;
}

void Decisions::shift_microbatches(std::uint32_t job, std::vector<std::uint32_t> per_replica,
                                   Step at_step, const std::string& why) {
  list().add(ShiftMicrobatches{JobId{job}, std::move(per_replica)}, why).effective_at_step =
      at_step;
}

void Decisions::wake_at(double seconds, const std::string& why) {
  list().add(WakeMe{to_nanos(seconds)}, why);
}

}  // namespace orrery::python
