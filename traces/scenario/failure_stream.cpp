#include "traces/scenario/failure_stream.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "traces/scenario/duration.hpp"
#include "traces/scenario/failure_model.hpp"
#include "traces/scenario/fault_script.hpp"

namespace orrery {
namespace {

constexpr double kWindow_s = 60 * 86400.0;
constexpr double kEnd_s = 9e9;
/// Failures of one kind that are in memory at once, on average.
constexpr double kMostDrawn = 1'000'000;

}  // namespace

FailureStream::FailureStream(const Scenario& scenario, const Cluster& cluster)
    : failures_(scenario.failures()),
      cluster_(&cluster),
      end_s_(failures_.has_until() ? to_seconds(failures_.until()) : kEnd_s) {
  const Layout& layout = scenario.job().layout();
  ranks_ = std::uint64_t{layout.tensor()} * layout.context() * layout.pipeline() * layout.data();
  const Rng rng(scenario.run().seed());
  if (failures_.has_lemons()) {
    const auto count = std::lround(failures_.lemons().share() * cluster.nodes());
    lemons_ =
        some_of(static_cast<std::uint32_t>(count), cluster.nodes(), rng.split_stream("lemons"));
  }
  crews_.assign(failures_.crews(), 0);
  std::size_t number = 0;
  for (const FailureKind& kind : failure_kinds(failures_)) add_source(kind, number++, rng);
}

void FailureStream::add_source(const FailureKind& kind, std::size_t number, const Rng& rng) {
  const double mtbf = part_mtbf(kind) / failures_.scale();
  const std::uint32_t parts = parts_of_kind(kind, failures_, *cluster_);
  if (!std::isfinite(mtbf) || parts == 0) return;
  const bool lemons = knows_lemons(kind) && !lemons_.empty();
  const auto lemon_parts = static_cast<std::uint32_t>(lemons_.size()) * parts_per_node(kind);
  const Rng own = rng.split_stream(fmt::format("failures {} {}", number, kind.cause()));
  Source source{.kind = kind,
                .mtbf_s = mtbf,
                .parts = parts,
                .lemons = lemons ? lemon_parts : 0,
                .times = lemons ? failures_.lemons().times() : 1,
                .rng = own,
                .repair_rng = own.split_stream("repair"),
                .detection_rng = own.split_stream("detection"),
                .restart_rng = own.split_stream("restart"),
                .replacement_rng = own.split_stream("replacement"),
                .corruption_rng = own.split_stream("corruption")};
  if (source.has_memory()) {
    const double window = failures_.has_until() ? end_s_ : kWindow_s;
    source.window_s = std::min(window, kMostDrawn * mtbf / source.weight());
  } else {
    draw_gap(source);
  }
  sources_.push_back(std::move(source));
}

// ---- the sequence -------------------------------------------------------------------------

Nanos FailureStream::next_time() {
  if (first_) return first_at_;
  first_at_ = kNever;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    const Nanos at = next_time(sources_[i]);
    if (at >= first_at_) continue;
    first_at_ = at;
    first_ = i;
  }
  return first_at_;
}

std::vector<Fault> FailureStream::pop_failure() {
  ensure(next_time() != kNever, "a failure that can be drawn");
  Source& source = sources_[*std::exchange(first_, std::nullopt)];
  const Failure failure = pop_failure(source);
  const bool nodes = is_of_nodes(source.kind);
  const std::uint32_t each = nodes ? nodes_of_part(source.kind, failures_) : 1;
  const std::uint32_t first = failure.target * each;
  const std::uint32_t end = nodes ? std::min(cluster_->nodes(), first + each) : first + 1;
  const bool waits = fault_of_kind(source.kind, first).has_down() && !source.kind.has_notice();
  const Nanos lasts = waits ? repaired_after(failure.at, failure.lasts) : failure.lasts;
  std::vector<Fault> faults;
  for (std::uint32_t target = first; target < end; ++target) {
    Fault& fault = faults.emplace_back(fault_of_kind(source.kind, target));
    fault.set_at_time(failure.at);
    if (failure.lasts > 0) fault.set_for_(lasts);
    if (source.kind.has_notice()) fault.set_notice(source.kind.notice());
    if (failure.detection) fault.set_detection(*failure.detection);
    if (failure.restart) fault.set_restart(*failure.restart);
    if (failure.replacement) fault.set_replacement(*failure.replacement);
    if (failure.corrupted) fault.set_corrupted(std::max<Nanos>(1, *failure.corrupted));
  }
  return faults;
}

/// The crew that is free first repairs. A rack or row is one repair.
Nanos FailureStream::repaired_after(Nanos at, Nanos work) {
  if (crews_.empty() || work <= 0) return work;
  std::pop_heap(crews_.begin(), crews_.end(), std::greater<>());
  const Nanos begin = std::max(at, crews_.back());
  crews_.back() = begin > kNever - work ? kNever : begin + work;
  const Nanos after = crews_.back() - at;
  std::push_heap(crews_.begin(), crews_.end(), std::greater<>());
  return after;
}

Nanos FailureStream::longest_notice() const {
  Nanos longest = 0;
  for (const Source& source : sources_) longest = std::max(longest, source.kind.notice());
  return longest;
}

Nanos FailureStream::next_time(Source& source) const {
  if (source.has_memory()) {
    if (source.popped == source.drawn.size() && !draw_window(source)) return kNever;
    return source.drawn[source.popped].at;
  }
  return source.next_s > end_s_ ? kNever : fault_time(source.next_s);
}

FailureStream::Failure FailureStream::pop_failure(Source& source) const {
  if (source.has_memory()) return source.drawn[source.popped++];
  const double at = source.next_s;
  const Failure failure = draw_failure(source, at, draw_part(source));
  draw_gap(source);
  return failure;
}

// ---- drawing ------------------------------------------------------------------------------

/// Memoryless failures of many parts are those of one, that much oftener.
void FailureStream::draw_gap(Source& source) const {
  source.next_s -= source.mtbf_s / source.weight() * std::log1p(-source.rng.uniform());
}

/// Each part is equally likely; a lemon is `times` as likely.
std::uint32_t FailureStream::draw_part(Source& source) const {
  Rng& rng = source.rng;
  const double lemons = source.times * source.lemons;
  const bool lemon = source.lemons > 0 && rng.uniform() * source.weight() < lemons;
  if (lemon || source.lemons == source.parts) {
    const std::uint32_t each = parts_per_node(source.kind);
    const auto drawn = static_cast<std::uint32_t>(rng.below(source.lemons));
    return lemons_[drawn / each] * each + drawn % each;
  }
  for (;;) {  // most parts are no lemons: two tries are many
    const auto part = static_cast<std::uint32_t>(rng.below(source.parts));
    if (source.lemons == 0 || !is_lemon(part / parts_per_node(source.kind))) return part;
  }
}

bool FailureStream::draw_window(Source& source) const {
  source.drawn.clear();
  source.popped = 0;
  while (source.drawn.empty()) {
    if (source.drawn_s >= end_s_) return false;
    double begin = source.drawn_s;
    if (!source.due_s.empty()) {  // windows without a failure draw nothing
      const double first = *std::min_element(source.due_s.begin(), source.due_s.end());
      const double windows = std::floor((first - begin) / source.window_s);
      if (windows > 1) begin += (windows - 1) * source.window_s;
    }
    source.drawn_s = std::min(begin + source.window_s, end_s_);
    if (source.due_s.empty()) source.due_s.resize(source.parts, -1);
    for (std::uint32_t part = 0; part < source.parts; ++part) {
      renew_part(source, part, source.drawn_s);
    }
  }
  std::stable_sort(source.drawn.begin(), source.drawn.end(),
                   [](const Failure& a, const Failure& b) { return a.at < b.at; });
  return true;
}

/// A part is new at the begin of the run, and as good as new after every repair.
void FailureStream::renew_part(Source& source, std::uint32_t part, double end_s) const {
  const bool lemon = source.lemons > 0 && is_lemon(part / parts_per_node(source.kind));
  const double mean = source.mtbf_s / (lemon ? source.times : 1);
  const double shape = source.kind.shape();
  const double scale = mean / std::tgamma(1 + 1 / shape);
  const auto gap = [&] {
    if (source.kind.regular()) return mean;
    return scale * std::pow(-std::log1p(-source.rng.uniform()), 1 / shape);
  };
  double& due = source.due_s[part];
  if (due < 0) due = source.kind.regular() ? mean * source.rng.uniform() : gap();
  for (; due <= end_s; due += gap()) source.drawn.push_back(draw_failure(source, due, part));
}

FailureStream::Failure FailureStream::draw_failure(Source& source, double at_s,
                                                   std::uint32_t part) const {
  const FailureKind& kind = source.kind;
  Failure failure{.at = fault_time(at_s), .target = part};
  if (is_of_job(kind)) {
    failure.target =
        static_cast<std::uint32_t>(source.rng.below(std::max<std::uint64_t>(1, ranks_)));
    if (kind.has_slow() && kind.has_lasts()) failure.lasts = draw_outage(source);
  } else {
    failure.lasts = draw_outage(source);
  }
  if (kind.has_detection()) {
    failure.detection = draw_duration(kind.detection(), source.detection_rng);
  }
  if (kind.has_restart()) failure.restart = draw_duration(kind.restart(), source.restart_rng);
  if (kind.has_replacement()) {
    failure.replacement = draw_duration(kind.replacement(), source.replacement_rng);
  }
  if (kind.has_corrupted()) {
    failure.corrupted = draw_duration(kind.corrupted(), source.corruption_rng);
  }
  return failure;
}

/// 0: for ever.
Nanos FailureStream::draw_outage(Source& source) const {
  const FailureKind& kind = source.kind;
  if (kind.has_repair()) {
    return std::max<Nanos>(1, draw_duration(kind.repair(), source.repair_rng));
  }
  if (!kind.has_lasts()) return kind.has_rate() ? 0 : failures_.repair();
  if (!kind.has_lasts_up_to()) return kind.lasts();
  const double least = std::log(static_cast<double>(kind.lasts()));
  const double most = std::log(static_cast<double>(kind.lasts_up_to()));
  return static_cast<Nanos>(std::exp(least + (most - least) * source.rng.uniform()));
}

// ---- lemons -------------------------------------------------------------------------------

bool FailureStream::knows_lemons(const FailureKind& kind) const {
  const std::optional<PartKind> part = part_kind(kind);
  return part && *part <= PartKind::nic;
}

std::uint32_t FailureStream::parts_per_node(const FailureKind& kind) const {
  const std::optional<PartKind> part = part_kind(kind);
  if (part == PartKind::gpu) return cluster_->shape().gpus_per_node;
  return part == PartKind::nic ? cluster_->rails() : 1;
}

bool FailureStream::is_lemon(std::uint32_t node) const {
  return std::binary_search(lemons_.begin(), lemons_.end(), node);
}

}  // namespace orrery
