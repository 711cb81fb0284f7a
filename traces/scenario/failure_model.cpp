#include "traces/scenario/failure_model.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.hpp"
#include "core/random.hpp"
#include "topologies/part.hpp"
#include "traces/files/csv.hpp"
#include "traces/scenario/fault_script.hpp"

namespace orrery {

namespace embedded {
extern const std::string_view failures_yaml;
}

namespace {

/// All of them are kept.
constexpr double kMostFaults = 1'000'000;

bool is_job(const FailureKind& kind) { return kind.part() == "job"; }
bool is_nodes(const FailureKind& kind) { return kind.part() == "rack" || kind.part() == "row"; }

std::optional<PartKind> part_named(std::string_view name) {
  for (int i = 0; i < kPartKinds; ++i) {
    if (name_of(static_cast<PartKind>(i)) == name) return static_cast<PartKind>(i);
  }
  return {};
}

std::vector<std::string_view> part_names() {
  std::vector<std::string_view> names;
  for (int i = 0; i < kPartKinds; ++i) names.push_back(name_of(static_cast<PartKind>(i)));
  return names;
}

/// Returns the nodes in a rack or row.
std::uint32_t nodes_each(const FailureKind& kind, const Failures& failures) {
  return failures.nodes_per_rack() * (kind.part() == "row" ? failures.racks_per_row() : 1);
}

void set_target(Fault& fault, PartKind kind, std::uint32_t index) {
  const auto* field = Fault::descriptor()->FindFieldByName(std::string(name_of(kind)));
  Fault::GetReflection()->SetUInt32(&fault, field, index);
}

Nanos at_nanos(double seconds) {
  return static_cast<Nanos>(std::llround(std::min(seconds, 9e9) * 1e9));
}

// ---- drawing ------------------------------------------------------------------------------

/// Draws one kind's failures after the other, each from a stream of its own.
class Draw {
 public:
  Draw(const Scenario& scenario, const Cluster& cluster)
      : failures_(scenario.failures()), cluster_(cluster),
        horizon_s_(to_seconds(failures_.until())), rng_(scenario.run().seed()) {
    const Layout& layout = scenario.job().layout();
    ranks_ = std::uint64_t{layout.tensor()} * layout.context() * layout.pipeline() *
             layout.data();
    if (!failures_.has_lemons()) return;
    const auto count = std::lround(failures_.lemons().share() * cluster.nodes());
    lemons_ = some_of(static_cast<std::uint32_t>(count), cluster.nodes(),
                      rng_.split_stream("lemons"));
  }

  void add(const FailureKind& kind, std::size_t number) {
    const double mtbf = part_mtbf(kind) / failures_.scale();
    const std::uint32_t parts = parts_of_kind(kind, failures_, cluster_);
    if (!std::isfinite(mtbf) || parts == 0) return;
    const Source source{kind, mtbf, parts, lemon_parts(kind), times(kind)};
    const double expected = source.weight() * horizon_s_ / mtbf;
    if (expected + static_cast<double>(faults_.size()) > kMostFaults) {
      throw Error(ErrorKind::bad_input,
                  fmt::format("failures: '{}' comes {:.0f} times in {:.3g} days; at most {:.0f} "
                              "faults are drawn: shorten failures.until or lower the rate",
                              kind.cause(), expected, horizon_s_ / 86400, kMostFaults));
    }
    Rng rng = rng_.split_stream(fmt::format("failures {} {}", number, kind.cause()));
    if (kind.shape() == 1 && !kind.regular()) return superpose(source, rng);
    for (std::uint32_t part = 0; part < parts; ++part) renew(source, part, rng);
  }

  std::vector<Fault> take() {
    std::stable_sort(faults_.begin(), faults_.end(), [](const Fault& a, const Fault& b) {
      return a.at_time() < b.at_time();
    });
    return std::move(faults_);
  }

 private:
  struct Source {
    const FailureKind& kind;
    double mtbf_s;
    std::uint32_t parts;
    std::uint32_t lemons;  ///< number of such parts
    double times;          ///< factor on their failure rate

    double weight() const { return parts + (times - 1) * lemons; }
  };

  bool knows_lemons(const FailureKind& kind) const {
    return kind.part() == "node" || kind.part() == "gpu" || kind.part() == "nic";
  }
  double times(const FailureKind& kind) const {
    return knows_lemons(kind) && !lemons_.empty() ? failures_.lemons().times() : 1;
  }
  std::uint32_t per_node(const FailureKind& kind) const {
    if (kind.part() == "gpu") return cluster_.shape().gpus_per_node;
    return kind.part() == "nic" ? cluster_.rails() : 1;
  }
  std::uint32_t lemon_parts(const FailureKind& kind) const {
    if (!knows_lemons(kind)) return 0;
    return static_cast<std::uint32_t>(lemons_.size()) * per_node(kind);
  }

  /// Memoryless failures of many parts are those of one, that much oftener.
  void superpose(const Source& of, Rng& rng) {
    const double gap = of.mtbf_s / of.weight();
    for (double at = 0;;) {
      at -= gap * std::log1p(-rng.uniform());
      if (at > horizon_s_) return;
      strike(of.kind, at, pick(of, rng), rng);
    }
  }

  /// Each part alike, but lemons that many times as likely.
  std::uint32_t pick(const Source& of, Rng& rng) const {
    const double lemons = of.times * of.lemons;
    const bool lemon = of.lemons > 0 && rng.uniform() * of.weight() < lemons;
    if (lemon || of.lemons == of.parts) {
      const std::uint32_t each = per_node(of.kind);
      const auto drawn = static_cast<std::uint32_t>(rng.below(of.lemons));
      return lemons_[drawn / each] * each + drawn % each;
    }
    for (;;) {  // the others are the most: two tries are many
      const auto part = static_cast<std::uint32_t>(rng.below(of.parts));
      if (of.lemons == 0 || !is_lemon(part / per_node(of.kind))) return part;
    }
  }
  bool is_lemon(std::uint32_t node) const {
    return std::binary_search(lemons_.begin(), lemons_.end(), node);
  }

  /// Renews one part: it is new at the begin of the run, and as good as new after every repair.
  void renew(const Source& of, std::uint32_t part, Rng& rng) {
    const bool lemon = of.lemons > 0 && is_lemon(part / per_node(of.kind));
    const double mean = of.mtbf_s / (lemon ? of.times : 1);
    const double shape = of.kind.shape();
    const double scale = mean / std::tgamma(1 + 1 / shape);
    const auto gap = [&] {
      if (of.kind.regular()) return mean;
      return scale * std::pow(-std::log1p(-rng.uniform()), 1 / shape);
    };
    for (double at = of.kind.regular() ? mean * rng.uniform() : gap(); at <= horizon_s_;
         at += gap()) {
      strike(of.kind, at, part, rng);
    }
  }

  void strike(const FailureKind& kind, double at, std::uint32_t part, Rng& rng) {
    Fault fault;
    fault.set_at_time(std::max<Nanos>(1, at_nanos(at)));
    fault.set_cause(kind.cause());
    if (is_job(kind)) {
      fault.set_rank(static_cast<std::uint32_t>(rng.below(std::max<std::uint64_t>(1, ranks_))));
      set_effect(kind, fault, rng);
      faults_.push_back(std::move(fault));
      return;
    }
    kind.has_rate() ? fault.set_rate(kind.rate()) : fault.set_down(true);
    const Nanos lasts = lasts_of(kind, rng);
    if (lasts > 0) fault.set_for_(lasts);
    if (!is_nodes(kind)) {
      set_target(fault, *part_named(kind.part()), part);
      faults_.push_back(std::move(fault));
      return;
    }
    const std::uint32_t each = nodes_each(kind, failures_);
    const std::uint32_t end = std::min(cluster_.nodes(), (part + 1) * each);
    for (std::uint32_t node = part * each; node < end; ++node) {
      fault.set_node(node);
      faults_.push_back(fault);
    }
  }

  /// Sets the effect on a rank.
  void set_effect(const FailureKind& kind, Fault& fault, Rng& rng) const {
    if (kind.has_stop()) return fault.set_stop(true);
    if (!kind.has_slow()) return fault.set_kill(true);
    fault.set_slow(kind.slow());
    if (kind.has_lasts()) fault.set_for_(lasts_of(kind, rng));
  }

  /// 0: for ever.
  Nanos lasts_of(const FailureKind& kind, Rng& rng) const {
    if (!kind.has_lasts()) return kind.has_rate() ? 0 : failures_.repair();
    if (!kind.has_lasts_up_to()) return kind.lasts();
    const double least = std::log(static_cast<double>(kind.lasts()));
    const double most = std::log(static_cast<double>(kind.lasts_up_to()));
    return static_cast<Nanos>(std::exp(least + (most - least) * rng.uniform()));
  }

  const Failures& failures_;
  const Cluster& cluster_;
  const double horizon_s_;
  const Rng rng_;
  std::uint64_t ranks_ = 0;
  std::vector<std::uint32_t> lemons_;  ///< nodes, ascending
  std::vector<Fault> faults_;
};

// ---- a trace ------------------------------------------------------------------------------

enum Column { kTime, kCause, kPart, kIndex, kEffect, kRate, kLasts, kColumns };
constexpr std::string_view kNames[kColumns] = {"time_s", "cause", "part",   "index",
                                               "effect", "rate",  "lasts_s"};

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
    std::stable_sort(faults.begin(), faults.end(), [](const Fault& a, const Fault& b) {
      return a.at_time() < b.at_time();
    });
    return faults;
  }

 private:
  void read_header() {
    for (std::size_t i = 0; i < kColumns; ++i) {
      const auto found = std::find(fields_.begin(), fields_.end(), kNames[i]);
      if (found == fields_.end()) {
        rows_.fail_row(fmt::format("there is no column '{}'; expected {}", kNames[i],
                                   fmt::join(kNames, ",")));
      }
      at_[i] = static_cast<std::size_t>(found - fields_.begin());
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
    fault.set_at_time(std::max<Nanos>(1, at_nanos(number(kTime, 0, 9e9))));
    fault.set_cause(std::string(text(kCause)));
    const auto index = static_cast<std::uint32_t>(number(kIndex, 0, 4e9));
    const bool job = text(kPart) == "job" || text(kPart) == "rank";
    const std::optional<PartKind> part = part_named(text(kPart));
    if (!job && !part) {
      rows_.fail_at_field(at_[kPart], fmt::format("part: expected rank or one of {}, got '{}'",
                                         fmt::join(part_names(), ", "), text(kPart)));
    }
    job ? fault.set_rank(index) : set_target(fault, *part, index);
    set_effect(fault, job);
    if (!text(kLasts).empty() && !job) {
      fault.set_for_(std::max<Nanos>(1, at_nanos(number(kLasts, 0, 9e9))));
    }
    return fault;
  }

  void set_effect(Fault& fault, bool job) const {
    const std::string_view effect = text(kEffect);
    if (job && effect == "kill") return fault.set_kill(true);
    if (job && effect == "stop") return fault.set_stop(true);
    if (!job && effect == "down") return fault.set_down(true);
    if (!job && effect == "rate") return fault.set_rate(number(kRate, 0.001, 1));
    rows_.fail_at_field(at_[kEffect], fmt::format("effect: expected {} for a {}, got '{}'",
                                         job ? "kill or stop" : "down or rate", text(kPart),
                                         effect));
  }

  CsvReader rows_;
  std::vector<std::string_view> fields_;
  std::size_t at_[kColumns] = {};
};

}  // namespace

// ---- kinds --------------------------------------------------------------------------------

const FailureCatalog& failure_catalog() {
  static const FailureCatalog loaded = [] {
    FailureCatalog catalog;
    load_yaml(embedded::failures_yaml, "traces/catalog/failures.yaml", catalog);
    fill_defaults(catalog);
    return catalog;
  }();
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
  if (is_job(kind)) return 1;
  if (!is_nodes(kind)) return count_of(cluster, *part_named(kind.part()));
  const std::uint32_t each = nodes_each(kind, failures);
  return (cluster.nodes() + each - 1) / each;
}

double interruption_rate(const std::vector<FailureKind>& kinds, double nodes,
                         double gpus_per_node) {
  double rate = 0;
  for (const FailureKind& kind : kinds) {
    if (kind.has_rate() || kind.has_slow()) continue;
    if (is_job(kind)) rate += 1 / part_mtbf(kind);
    if (kind.part() == "node") rate += nodes / part_mtbf(kind);
    if (kind.part() == "gpu") rate += nodes * gpus_per_node / part_mtbf(kind);
  }
  return rate;
}

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
    if (is_job(kind) != of_job) {
      problems.push_back({path + ".part",
                          fmt::format("expected {} of a {}", is_job(kind) ? "kill, stop or slow"
                                                                          : "down or rate",
                                      kind.part())});
    } else if (parts_of_kind(kind, failures, cluster) == 0) {
      problems.push_back({path + ".part", fmt::format("this cluster has no {}", kind.part())});
    }
    if (kind.has_lasts_up_to() && kind.lasts_up_to() <= (kind.has_lasts() ? kind.lasts() : 0)) {
      problems.push_back({path + ".lasts_up_to", "lasts_up_to must be longer than lasts"});
    } else if (kind.has_lasts_up_to() && !kind.has_lasts()) {
      problems.push_back({path + ".lasts_up_to", "lasts_up_to needs a lasts before it"});
    }
  }
  return problems;
}

// ---- faults -------------------------------------------------------------------------------

std::vector<Fault> read_failure_trace(const std::string& path, std::string_view text) {
  return FailureTrace(path, text).read();
}

std::vector<Fault> drawn_faults(const Scenario& scenario, const Cluster& cluster,
                                const std::string& folder) {
  if (!scenario.has_failures()) return {};
  Draw draw(scenario, cluster);
  std::size_t number = 0;
  for (const FailureKind& kind : failure_kinds(scenario.failures())) draw.add(kind, number++);
  std::vector<Fault> faults = draw.take();
  if (scenario.failures().trace().empty()) return faults;
  const std::string path =
      (std::filesystem::path(folder) / scenario.failures().trace()).string();
  const std::string text = read_packed_text(path);
  const Layout& layout = scenario.job().layout();
  const std::uint64_t ranks =
      std::uint64_t{layout.tensor()} * layout.context() * layout.pipeline() * layout.data();
  for (Fault& fault : read_failure_trace(path, text)) {
    if (fault.has_rank() && fault.rank() >= ranks) {
      throw Error(ErrorKind::bad_input, fmt::format("{}: there is no rank {}: the job has {}", path,
                                                    fault.rank(), ranks));
    }
    faults.push_back(std::move(fault));
  }
  return faults;
}

Scenario with_drawn_faults(Scenario scenario, const Cluster& cluster, const std::string& folder) {
  for (Fault& fault : drawn_faults(scenario, cluster, folder)) {
    *scenario.add_faults() = std::move(fault);
  }
  return scenario;
}

}  // namespace orrery
