#include "traces/scenario/failure_model.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.hpp"
#include "core/schema/embedded_message.hpp"
#include "topologies/part.hpp"
#include "traces/files/csv.hpp"
#include "traces/scenario/duration.hpp"

namespace orrery {

namespace embedded {
extern const std::string_view failures_catalog;
}

bool is_of_job(const FailureKind& kind) { return failing_part(kind) == FailingPart::job; }
bool is_of_nodes(const FailureKind& kind) {
  const FailingPart part = failing_part(kind);
  return part == FailingPart::rack || part == FailingPart::row;
}

std::optional<PartKind> part_kind(const FailureKind& kind) {
  return find_named<PartKind>(kind.part());
}

std::uint32_t nodes_of_part(const FailureKind& kind, const Failures& failures) {
  return failures.nodes_per_rack() *
         (failing_part(kind) == FailingPart::row ? failures.racks_per_row() : 1);
}

void set_target(Fault& fault, PartKind kind, std::uint32_t index) {
  const auto* field = Fault::descriptor()->FindFieldByName(std::string(name_of(kind)));
  Fault::GetReflection()->SetUInt32(&fault, field, index);
}

Fault fault_of_kind(const FailureKind& kind, std::uint32_t target) {
  Fault fault;
  fault.set_cause(kind.cause());
  if (is_of_job(kind)) {
    fault.set_rank(target);
    if (kind.has_stop())
      fault.set_stop(true);
    else if (kind.has_slow())
      fault.set_slow(kind.slow());
    else
      fault.set_kill(true);
    return fault;
  }
  kind.has_rate() ? fault.set_rate(kind.rate()) : fault.set_down(true);
  set_target(fault, part_kind(kind).value_or(PartKind::node), target);
  return fault;
}

Failures only_kinds(const Failures& failures,
                    const std::function<bool(const FailureKind&)>& kept) {
  Failures result = failures;
  result.clear_profile();
  result.clear_kinds();
  for (FailureKind& kind : failure_kinds(failures)) {
    if (!kept(kind)) {
      kind.mutable_counted()->set_count(0);
      kind.mutable_counted()->set_parts(1);
      kind.mutable_counted()->set_time(1);
    }
    *result.add_kinds() = std::move(kind);
  }
  return result;
}

Failures without_job_kinds(const Failures& failures) {
  return only_kinds(failures, [](const FailureKind& kind) { return !is_of_job(kind); });
}

Nanos fault_time(double seconds) {
  return std::max<Nanos>(1, static_cast<Nanos>(std::llround(std::min(seconds, 9e9) * 1e9)));
}

namespace {

// ---- a trace ------------------------------------------------------------------------------

enum Column {
  kTime,
  kCause,
  kPart,
  kIndex,
  kEffect,
  kRate,
  kLasts,
  kDetection,
  kRestart,
  kReplacement,
  kColumns
};
constexpr std::string_view kNames[kColumns] = {
    "time_s", "cause",   "part",        "index",     "effect",
    "rate",   "lasts_s", "detection_s", "restart_s", "replacement_s"};
/// Number of the columns that a trace must have.
constexpr std::size_t kNeeded = kDetection;

class FailureTrace {
 public:
  FailureTrace(const std::string& path, std::string_view text) : rows_(path, text) {}

  std::vector<Fault> read() {
    if (!rows_.next_row(fields_)) rows_.fail_row("expected a header, found an empty file");
    read_header();
    std::vector<Fault> faults;
    while (rows_.next_row(fields_)) {
      if (!rows_.is_blank()) faults.push_back(fault());
    }
    std::stable_sort(faults.begin(), faults.end(),
                     [](const Fault& a, const Fault& b) { return a.at_time() < b.at_time(); });
    return faults;
  }

 private:
  void read_header() {
    for (std::size_t i = 0; i < kColumns; ++i) {
      const auto found = std::find(fields_.begin(), fields_.end(), kNames[i]);
      if (found == fields_.end() && i < kNeeded) {
        rows_.fail_row(fmt::format("there is no column '{}'; expected {}", kNames[i],
                                   fmt::join(std::span(kNames).first<kNeeded>(), ",")));
      }
      at_[i] = static_cast<std::size_t>(found - fields_.begin());  // the end: no such column
    }
  }

  std::string_view text(Column column) const {
    return at_[column] < fields_.size() ? fields_[at_[column]] : std::string_view();
  }
  double number(Column column, double least, double most) const {
    const std::string_view given = text(column);
    double value = 0;
    const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), value);
    const bool whole = error == std::errc() && end == given.data() + given.size();
    if (!whole || !(value >= least && value <= most)) {
      rows_.fail_at_field(at_[column], fmt::format("{}: expected a number from {} to {}, got '{}'",
                                                   kNames[column], least, most, given));
    }
    return value;
  }

  Fault fault() const {
    Fault fault;
    fault.set_at_time(fault_time(number(kTime, 0, 9e9)));
    fault.set_cause(std::string(text(kCause)));
    const auto index = static_cast<std::uint32_t>(number(kIndex, 0, 4e9));
    const std::optional<FailingPart> part = recorded_part(text(kPart));
    if (!part) {
      rows_.fail_at_field(at_[kPart],
                          fmt::format("part: expected rank or one of {}, got '{}'",
                                      fmt::join(names_of(PartKind{}), ", "), text(kPart)));
    }
    const bool job = part == FailingPart::job;
    job ? fault.set_rank(index) : set_target(fault, named<PartKind>(text(kPart)), index);
    set_effect(fault, job);
    if (!text(kLasts).empty() && !job) {
      fault.set_for_(fault_time(number(kLasts, 0, 9e9)));
    }
    if (!text(kDetection).empty()) fault.set_detection(to_nanos(number(kDetection, 0, 9e9)));
    if (!text(kRestart).empty()) fault.set_restart(to_nanos(number(kRestart, 0, 9e9)));
    if (!text(kReplacement).empty()) {
      fault.set_replacement(to_nanos(number(kReplacement, 0, 9e9)));
    }
    return fault;
  }

  void set_effect(Fault& fault, bool job) const {
    const std::optional<FailureEffect> effect = recorded_effect(text(kEffect), job);
    if (!effect) {
      rows_.fail_at_field(at_[kEffect], fmt::format("effect: expected {} for a {}, got '{}'",
                                                    job ? "kill or stop" : "down or rate",
                                                    text(kPart), text(kEffect)));
    }
    switch (*effect) {
      case FailureEffect::kill: return fault.set_kill(true);
      case FailureEffect::stop: return fault.set_stop(true);
      case FailureEffect::down: return fault.set_down(true);
      case FailureEffect::rate: return fault.set_rate(number(kRate, 0.001, 1));
    }
  }

  CsvReader rows_;
  std::vector<std::string_view> fields_;
  std::size_t at_[kColumns] = {};
};

}  // namespace

// ---- kinds --------------------------------------------------------------------------------

const FailureCatalog& failure_catalog() {
  static const auto loaded = read_embedded<FailureCatalog>(embedded::failures_catalog);
  return loaded;
}

std::vector<std::string> failure_profile_names() {
  std::vector<std::string> names;
  for (const FailureProfile& each : failure_catalog().profiles()) names.push_back(each.name());
  return names;
}

std::vector<FailureKind> failure_kinds(const Failures& failures) {
  std::vector<FailureKind> kinds;
  if (!failures.profile().empty()) {
    const auto& profiles = failure_catalog().profiles();
    const auto found = std::find_if(profiles.begin(), profiles.end(), [&](const auto& each) {
      return each.name() == failures.profile();
    });
    if (found == profiles.end()) {
      throw Error(ErrorKind::bad_input,
                  fmt::format("failures.profile: no profile is named '{}'{}", failures.profile(),
                              did_you_mean(failures.profile(), failure_profile_names())));
    }
    kinds.assign(found->kinds().begin(), found->kinds().end());
  }
  kinds.insert(kinds.end(), failures.kinds().begin(), failures.kinds().end());
  return kinds;
}

double part_mtbf(const FailureKind& kind) {
  if (!kind.has_counted()) return kind.mtbf();
  const FailureCount& counted = kind.counted();
  if (counted.count() <= 0) return std::numeric_limits<double>::infinity();
  return counted.parts() * counted.time() / counted.count();
}

std::uint32_t parts_of_kind(const FailureKind& kind, const Failures& failures,
                            const Cluster& cluster) {
  if (is_of_job(kind)) return 1;
  if (!is_of_nodes(kind)) return count_of(cluster, *part_kind(kind));
  const std::uint32_t each = nodes_of_part(kind, failures);
  return (cluster.nodes() + each - 1) / each;
}

double interruption_rate(const std::vector<FailureKind>& kinds, double nodes,
                         double gpus_per_node) {
  double rate = 0;
  for (const FailureKind& kind : kinds) {
    if (kind.has_rate() || kind.has_slow()) continue;
    if (is_of_job(kind)) rate += 1 / part_mtbf(kind);
    if (part_kind(kind) == PartKind::node) rate += nodes / part_mtbf(kind);
    if (part_kind(kind) == PartKind::gpu) rate += nodes * gpus_per_node / part_mtbf(kind);
  }
  return rate;
}

namespace {

/// Appends the problems of a kind's distributions. `path` is the kind's.
void add_duration_problems(const FailureKind& kind, const std::string& path,
                           std::vector<FailureProblem>& problems) {
  const auto check = [&](const char* key, bool present, const DurationDistribution& of,
                         bool belongs, const char* owners) {
    if (!present) return;
    const std::string at = fmt::format("{}.{}", path, key);
    if (!belongs) return problems.push_back({at, fmt::format("expected '{}' of {}", key, owners)});
    if (std::string problem = duration_problem(of); !problem.empty()) {
      problems.push_back({at, std::move(problem)});
    }
  };
  const FailingPart part = failing_part(kind);
  const bool holds_ranks =
      part == FailingPart::gpu || part == FailingPart::node || is_of_nodes(kind);
  const bool ends_ranks = kind.has_kill() || kind.has_stop() || (kind.has_down() && holds_ranks);
  constexpr const char* kRanks =
      "a kind that ends ranks: kill or stop of a job, or down of a gpu, "
      "node, rack or row";
  check("detection", kind.has_detection(), kind.detection(), ends_ranks, kRanks);
  check("restart", kind.has_restart(), kind.restart(), ends_ranks, kRanks);
  check("replacement", kind.has_replacement(), kind.replacement(), ends_ranks, kRanks);
  check("corrupted", kind.has_corrupted(), kind.corrupted(), ends_ranks && !kind.has_stop(),
        "a kind that ends ranks at once: kill of a job, or down of a gpu, node, rack or row");
  check("repair", kind.has_repair(), kind.repair(), !is_of_job(kind) && !kind.has_lasts(),
        "hardware, and without 'lasts' beside it");
  if (kind.has_notice() && !(kind.has_down() && holds_ranks)) {
    problems.push_back({path + ".notice", "expected 'notice' of planned work on a gpu, node, rack "
                                          "or row that goes down"});
  }
}

}  // namespace

std::vector<FailureProblem> failure_problems(const Failures& failures, const Cluster& cluster) {
  std::vector<FailureProblem> problems;
  const auto names = failure_profile_names();
  const bool known = std::find(names.begin(), names.end(), failures.profile()) != names.end();
  if (!failures.profile().empty() && !known) {
    problems.push_back({"profile", fmt::format("no profile is named '{}'{}", failures.profile(),
                                               did_you_mean(failures.profile(), names))});
  }
  for (int i = 0; i < failures.kinds_size(); ++i) {
    const FailureKind& kind = failures.kinds(i);
    const std::string path = fmt::format("kinds[{}]", i);
    const bool of_job = kind.has_kill() || kind.has_stop() || kind.has_slow();
    if (is_of_job(kind) != of_job) {
      problems.push_back(
          {path + ".part",
           fmt::format("expected {} of a {}",
                       is_of_job(kind) ? "kill, stop or slow" : "down or rate", kind.part())});
    } else if (parts_of_kind(kind, failures, cluster) == 0) {
      problems.push_back({path + ".part", fmt::format("this cluster has no {}", kind.part())});
    }
    if (kind.has_lasts_up_to() && kind.lasts_up_to() <= (kind.has_lasts() ? kind.lasts() : 0)) {
      problems.push_back({path + ".lasts_up_to", "lasts_up_to must be longer than lasts"});
    } else if (kind.has_lasts_up_to() && !kind.has_lasts()) {
      problems.push_back({path + ".lasts_up_to", "lasts_up_to needs a lasts before it"});
    }
    add_duration_problems(kind, path, problems);
  }
  return problems;
}

// ---- faults -------------------------------------------------------------------------------

std::vector<Fault> read_failure_trace(const std::string& path, std::string_view text) {
  return FailureTrace(path, text).read();
}

Scenario with_recorded_faults(Scenario scenario, const std::string& folder) {
  if (scenario.failures().trace().empty()) return scenario;
  const std::string path = (std::filesystem::path(folder) / scenario.failures().trace()).string();
  const std::string text = read_packed_text(path);
  const Layout& layout = scenario.job().layout();
  const std::uint64_t ranks =
      std::uint64_t{layout.tensor()} * layout.context() * layout.pipeline() * layout.data();
  for (Fault& fault : read_failure_trace(path, text)) {
    if (fault.has_rank() && fault.rank() >= ranks) {
      throw Error(ErrorKind::bad_input, fmt::format("{}: there is no rank {}: the job has {}", path,
                                                    fault.rank(), ranks));
    }
    *scenario.add_faults() = std::move(fault);
  }
  return scenario;
}

}  // namespace orrery
