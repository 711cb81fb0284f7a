#include "traces/scenario/fault_script.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery {
namespace {

constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();

static_assert(Fault::kCable - Fault::kGpu == static_cast<int>(PartKind::cable));
static_assert(Fault::kPlanes - Fault::kGpus == static_cast<int>(PartKind::plane));

std::int64_t after(std::int64_t from, std::int64_t span) {
  return from > kEnd - span ? kEnd : from + span;
}

/// The edges whose instants are in (from, until].
template <class Edges>
auto between(const Edges& edges, std::int64_t from, std::int64_t until) {
  const auto later = [](std::int64_t at, const auto& edge) { return at < edge.at; };
  const auto first = std::upper_bound(edges.begin(), edges.end(), from, later);
  const auto last = std::upper_bound(first, edges.end(), std::max(from, until), later);
  return std::span(first, last);
}

/// Returns the last instant before any begin or announcement of the failures left in the stream.
Nanos known_until(FailureStream& stream) {
  const Nanos next = stream.next_time();
  return next == kNever ? kNever : next - 1 - std::min(next - 1, stream.longest_notice());
}

}  // namespace

/// Selects by the method of Fisher and Yates (1938).
std::vector<std::uint32_t> some_of(std::uint32_t count, std::uint32_t all, Rng rng) {
  std::vector<std::uint32_t> parts(all);
  std::iota(parts.begin(), parts.end(), 0u);
  for (std::uint32_t i = 0; i < count; ++i) std::swap(parts[i], parts[i + rng.below(all - i)]);
  parts.resize(count);
  std::sort(parts.begin(), parts.end());
  return parts;
}

std::optional<PartKind> part_kind(const Fault& fault) {
  const int which = fault.target_case();
  if (which >= Fault::kGpu && which <= Fault::kCable) {
    return static_cast<PartKind>(which - Fault::kGpu);
  }
  if (!hits_share(fault)) return {};
  return static_cast<PartKind>(which - Fault::kGpus);
}

bool happens_to_parts(Fault::KindCase kind) {
  return kind == Fault::kDown || kind == Fault::kRate;
}

bool hits_share(const Fault& fault) {
  return fault.target_case() >= Fault::kGpus && fault.target_case() <= Fault::kPlanes;
}

std::uint32_t parts_hit(const Fault& fault, std::uint32_t all) {
  const auto* field = Fault::descriptor()->FindFieldByNumber(fault.target_case());
  ensure(field != nullptr && hits_share(fault), "a fault of a share of parts");
  const double share = std::clamp(Fault::GetReflection()->GetDouble(fault, field), 0.0, 1.0);
  return static_cast<std::uint32_t>(std::lround(share * all));
}

std::uint32_t hit_index(const Fault& fault) {
  const auto* field = Fault::descriptor()->FindFieldByNumber(fault.target_case());
  ensure(field != nullptr && !hits_share(fault), "a fault of a rank or of one part");
  return Fault::GetReflection()->GetUInt32(fault, field);
}

FaultScript::FaultScript(const Scenario& scenario, const Cluster& cluster)
    : cluster_(&cluster), seed_(scenario.run().seed()),
      own_(static_cast<std::size_t>(scenario.faults_size())) {
  own_entries_.reserve(own_);
  for (const Fault& fault : scenario.faults()) add(fault);
  for (Axis* const each : {&steps_, &times_}) sort_edges(*each, 0);
  std::sort(ramp_begins_.begin(), ramp_begins_.end());
  std::sort(ramp_tops_.begin(), ramp_tops_.end());
  if (!scenario.has_failures()) return;
  stream_.emplace(scenario, cluster);
  drawn_until_ = known_until(*stream_);
}

FaultScript::Entry& FaultScript::entry(std::uint32_t fault) const {
  return fault < own_ ? own_entries_[fault] : drawn_entries_.at(fault);
}

void FaultScript::sort_edges(Axis& along, std::size_t sorted) const {
  const auto earlier = [](const Edge& a, const Edge& b) { return a.at < b.at; };
  const auto added = along.edges.begin() + static_cast<std::ptrdiff_t>(sorted);
  std::stable_sort(added, along.edges.end(), earlier);
  const auto append = [&](std::vector<Edge>& to, const auto& belongs) {
    const auto known = static_cast<std::ptrdiff_t>(to.size());
    std::copy_if(added, along.edges.end(), std::back_inserter(to), belongs);
    std::inplace_merge(to.begin(), to.begin() + known, to.end(), earlier);
  };
  append(along.begins, [](const Edge& edge) { return edge.kind == EdgeKind::begin; });
  append(along.strikes, [this](const Edge& edge) {
    return edge.kind == EdgeKind::begin && is_ending_ranks(edge.fault);
  });
  std::inplace_merge(along.edges.begin(), added, along.edges.end(), earlier);
}

void FaultScript::add(const Fault& fault) const {
  const std::uint32_t index = next_number_++;
  Entry entry;
  entry.kind = fault.kind_case();
  entry.begin = {fault.has_at_step(), fault.has_at_step()
                                          ? static_cast<std::int64_t>(fault.at_step())
                                          : fault.at_time()};
  std::optional<Border> end;
  if (fault.has_until_step()) end = {true, static_cast<std::int64_t>(fault.until_step())};
  if (fault.has_until_time()) end = {false, fault.until_time()};
  if (fault.has_for_()) end = {false, after(fault.at_time(), fault.for_())};
  if (fault.has_slow()) entry.size = fault.slow();
  if (fault.has_link_slow()) entry.size = fault.link_slow();
  if (fault.has_rate()) entry.size = fault.rate();
  if (fault.has_ramp()) {
    entry.size = fault.ramp().slow();
    entry.ramp_steps = fault.ramp().steps();
    const std::int64_t top = after(entry.begin.at, static_cast<std::int64_t>(entry.ramp_steps));
    ramp_begins_.push_back(entry.begin.at);
    ramp_tops_.push_back(end && end->at_step ? std::min(top, end->at) : top);
  }
  if (fault.has_detection()) entry.detection = fault.detection();
  if (fault.has_restart()) entry.restart = fault.restart();
  if (fault.has_replacement()) entry.replacement = fault.replacement();
  if (fault.has_corrupted()) entry.corrupted = fault.corrupted();
  if (fault.has_stop() && end) entry.stop_end = end->at;
  add_targets(fault, entry);
  entry.cause = number_of(fault.cause());
  if (index < own_) own_entries_.push_back(entry);
  else drawn_entries_.emplace_hint(drawn_entries_.end(), index, entry);
  add_plan(fault, index, end);
  axis(entry.begin.at_step).edges.push_back({entry.begin.at, index, EdgeKind::begin});
  if (end) axis(end->at_step).edges.push_back({end->at, index, EdgeKind::end});
}

void FaultScript::add_plan(const Fault& fault, std::uint32_t index,
                           const std::optional<Border>& end) const {
  const Entry& entry = this->entry(index);
  const auto tested = fault.has_test() ? targets(index) : std::span<const FaultTarget>();
  for (const FaultTarget& target : tested) {
    Nanos& longest = tests_[std::get<Part>(target)];
    longest = std::max(longest, fault.test());
  }
  if (fault.warning_case() == Fault::WARNING_NOT_SET) return;
  const std::int64_t warning = fault.has_notice() ? fault.notice()
                                                  : static_cast<std::int64_t>(fault.notice_steps());
  Removal what;
  if (entry.begin.at_step) what.at_step = fault.at_step();
  else what.at = entry.begin.at;
  if (end && end->at_step) what.back_at_step = fault.until_step();
  else if (end) what.back_at = end->at;
  planned_.push_back({index, what});
  const std::int64_t notice = std::max<std::int64_t>(0, entry.begin.at - warning);
  axis(entry.begin.at_step).edges.push_back({notice, index, EdgeKind::notice});
}

std::uint32_t FaultScript::number_of(const std::string& cause) const {
  const auto known = std::find(causes_.begin(), causes_.end(), cause) - causes_.begin();
  const auto number = static_cast<std::size_t>(known);
  if (number == causes_.size()) causes_.push_back(cause);
  return static_cast<std::uint32_t>(number);
}

void FaultScript::add_targets(const Fault& fault, Entry& entry) const {
  const std::optional<PartKind> kind = part_kind(fault);
  if (!kind) {
    entry.target = RankId{fault.rank()};
    return;
  }
  const std::uint32_t all = count_of(*cluster_, *kind);
  const std::size_t index = own_entries_.size();
  if (hits_share(fault)) {
    const Rng rng = Rng(seed_).split_stream(fmt::format("faults[{}]", index));
    entry.share = true;
    entry.first_target = static_cast<std::uint32_t>(targets_.size());
    for (const std::uint32_t part : some_of(parts_hit(fault, all), all, rng)) {
      targets_.emplace_back(Part{*kind, part});
    }
    entry.targets = static_cast<std::uint32_t>(targets_.size()) - entry.first_target;
    return;
  }
  if (hit_index(fault) >= all) {
    throw Error(ErrorKind::bad_input,
                fmt::format("faults[{}].{}: there is no {} {}: the cluster has {}", index,
                            name_of(*kind), name_of(*kind), hit_index(fault), all));
  }
  entry.target = Part{*kind, hit_index(fault)};
}

// ---- drawn failures ---------------------------------------------------------------------------

/// Several at once, because each call merges them with the edges that are to come.
void FaultScript::draw_more() const {
  constexpr int kAtOnce = 256;
  const std::size_t sorted = times_.edges.size();
  for (int i = 0; i < kAtOnce && stream_->next_time() != kNever; ++i) {
    for (const Fault& fault : stream_->pop_failure()) add(fault);
  }
  sort_edges(times_, sorted);
  drawn_until_ = known_until(*stream_);
}

void FaultScript::draw_until(Nanos instant) const {
  while (drawn_until_ < instant) draw_more();
}

bool FaultScript::is_worth_forgetting() const {
  constexpr std::size_t kFew = 65'536;
  return drawn_entries_.size() > std::max(kFew, 2 * kept_);
}

std::vector<FaultScript::Forgotten> FaultScript::forget_before(Nanos instant, Nanos counted_from) {
  std::vector<Forgotten> forgotten;
  const auto past = [instant](const std::vector<Edge>& edges) {
    return std::lower_bound(edges.begin(), edges.end(), instant,
                            [](const Edge& edge, Nanos at) { return edge.at < at; });
  };
  const auto end = past(times_.edges);
  const auto count = static_cast<std::size_t>(end - times_.edges.begin());
  while (times_.passed < count) pass_edge(times_.edges[times_.passed++], true);
  times_.passed -= count;
  for (auto edge = times_.edges.cbegin(); edge != end; ++edge) {
    const Fault::KindCase kind = entry(edge->fault).kind;
    const std::string& cause = named_cause(edge->fault);
    if (edge->kind == EdgeKind::begin) {
      ++forgotten_;
      if (edge->at > counted_from && !cause.empty()) ++forgotten_causes_[cause];
    }
    const bool over =
        edge->kind == EdgeKind::end || kind == Fault::kKill || kind == Fault::kStop;
    if (!over || edge->fault < own_) continue;
    forgotten.push_back({edge->fault, cause});
    drawn_entries_.erase(edge->fault);
  }
  times_.edges.erase(times_.edges.cbegin(), end);
  times_.begins.erase(times_.begins.cbegin(), past(times_.begins));
  times_.strikes.erase(times_.strikes.cbegin(), past(times_.strikes));
  std::erase_if(planned_, [this](const Planned& each) {
    return each.fault >= own_ && !drawn_entries_.contains(each.fault);
  });
  kept_ = drawn_entries_.size();
  return forgotten;
}

// ---- the state at a moment --------------------------------------------------------------------

void FaultScript::pass_edge(const Edge& edge, bool onward) const {
  Entry& entry = this->entry(edge.fault);
  if (edge.kind == EdgeKind::notice) {
    entry.announced = onward;
    return;
  }
  const bool held = entry.begun && !entry.over;
  (edge.kind == EdgeKind::end ? entry.over : entry.begun) = onward;
  const bool holds = entry.begun && !entry.over;
  if (held == holds || entry.kind == Fault::kKill || entry.kind == Fault::kStop) return;
  for (const FaultTarget& target : targets(edge.fault)) {
    if (holds) {
      active_[target].insert(edge.fault);
      continue;
    }
    const auto found = active_.find(target);
    found->second.erase(edge.fault);
    if (found->second.empty()) active_.erase(found);
  }
}

void FaultScript::move_to(Moment at) const {
  draw_until(at.now);
  const auto move = [this](Axis& along, std::int64_t to) {
    std::size_t& passed = along.passed;
    while (passed < along.edges.size() && along.edges[passed].at <= to) {
      pass_edge(along.edges[passed++], true);
    }
    while (passed > 0 && along.edges[passed - 1].at > to) pass_edge(along.edges[--passed], false);
  };
  move(steps_, at.step);
  move(times_, at.now);
}

double FaultScript::slowness(const Entry& entry, std::int64_t step) const {
  if (entry.kind != Fault::kRamp || !entry.begin.at_step) return entry.size;
  const double passed = static_cast<double>(step - entry.begin.at);
  const double share = std::min(1.0, passed / static_cast<double>(entry.ramp_steps));
  return 1 + (entry.size - 1) * share;
}

void FaultScript::apply(std::uint32_t fault, std::int64_t step, Condition& to) const {
  const Entry& entry = this->entry(fault);
  switch (entry.kind) {
    case Fault::kSlow:
    case Fault::kRamp: to.slow *= slowness(entry, step); break;
    case Fault::kRate: to.slow *= 1 / entry.size; break;
    case Fault::kLinkSlow: to.link_slow *= entry.size; break;
    case Fault::kLinkDown: to.link_down = true; break;
    case Fault::kDown: to.down = true; break;
    case Fault::kKill:
    case Fault::kStop:
    case Fault::KIND_NOT_SET: break;
  }
}

Condition FaultScript::condition(const FaultTarget& target, Moment at) const {
  move_to(at);
  Condition condition;
  const auto found = active_.find(target);
  if (found == active_.end()) return condition;
  for (const std::uint32_t fault : found->second) apply(fault, at.step, condition);
  return condition;
}

const std::map<FaultTarget, std::set<std::uint32_t>>& FaultScript::active(Moment at) const {
  move_to(at);
  return active_;
}

std::map<FaultTarget, Condition> FaultScript::conditions(Moment at) const {
  std::map<FaultTarget, Condition> all;
  for (const auto& [target, faults] : active(at)) {
    Condition condition;
    for (const std::uint32_t fault : faults) apply(fault, at.step, condition);
    if (condition != Condition{}) all.emplace_hint(all.end(), target, condition);
  }
  return all;
}

std::map<Part, Removal> FaultScript::removals(Moment at) const {
  std::map<Part, Removal> all;
  draw_until(at.now);
  if (planned_.empty()) return all;
  move_to(at);
  for (const bool begun : {true, false}) {
    for (const Planned& each : planned_) {
      const Entry& entry = this->entry(each.fault);
      if (!entry.announced || entry.over || entry.begun != begun) continue;
      for (const FaultTarget& target : targets(each.fault)) {
        all.emplace(std::get<Part>(target), each.what);
      }
    }
  }
  return all;
}

Nanos FaultScript::test_time(Part part) const {
  const auto found = tests_.find(part);
  return found == tests_.end() ? 0 : found->second;
}

// ---- what happens -----------------------------------------------------------------------------

std::vector<FaultGroup> FaultScript::due(Moment from, Moment until) const {
  draw_until(until.now);
  std::vector<FaultGroup> groups;
  const auto gather = [&](const Axis& along, std::int64_t first, std::int64_t last) {
    const std::size_t before = groups.size();
    for (const Edge& edge : between(along.begins, first, last)) {
      if (groups.size() == before || groups.back().at != edge.at) {
        groups.push_back({.at_step = &along == &steps_, .at = edge.at, .faults = {}});
      }
      groups.back().faults.push_back(edge.fault);
    }
  };
  gather(steps_, from.step, until.step);
  gather(times_, from.now, until.now);
  return groups;
}

std::optional<FaultScript::Strike> FaultScript::next_strike(std::optional<Step> step, Nanos from,
                                                            Nanos until) const {
  std::vector<std::uint32_t> at_step;
  if (step && from < until) {
    const auto at = static_cast<std::int64_t>(*step);
    for (const Edge& edge : between(steps_.strikes, at - 1, at)) {
      if (!entry(edge.fault).spent) at_step.push_back(edge.fault);
    }
  }
  for (;;) {
    Strike strike{.at = from, .faults = at_step};
    for (const Edge& edge : between(times_.strikes, from - 1, until - 1)) {
      if (!strike.faults.empty() && edge.at > strike.at) break;
      if (entry(edge.fault).spent) continue;
      strike.at = edge.at;
      strike.faults.push_back(edge.fault);
    }
    const bool found = !strike.faults.empty();
    if (drawn_until_ < (found ? strike.at : until - 1)) {  // an earlier one may be in the stream
      draw_more();
      continue;
    }
    if (!found) return {};
    std::sort(strike.faults.begin(), strike.faults.end());
    return strike;
  }
}

std::uint64_t FaultScript::begun_count(Moment at) const {
  draw_until(at.now);
  return forgotten_ + between(steps_.begins, -1, at.step).size() +
         between(times_.begins, -1, at.now).size();
}

std::map<std::string, std::uint64_t> FaultScript::begun_by_cause(Moment from, Moment at) const {
  draw_until(at.now);
  std::map<std::string, std::uint64_t> counts = forgotten_causes_;
  const auto count = [&](std::span<const Edge> edges) {
    for (const Edge& edge : edges) {
      if (!named_cause(edge.fault).empty()) ++counts[named_cause(edge.fault)];
    }
  };
  count(between(steps_.begins, from.step, at.step));
  count(between(times_.begins, from.now, at.now));
  return counts;
}

// ---- when something changes -------------------------------------------------------------------

/// Whether a ramp has begun and not reached its top.
bool FaultScript::is_growing(Step step) const {
  const auto passed = [step](const std::vector<std::int64_t>& steps) {
    return std::upper_bound(steps.begin(), steps.end(), static_cast<std::int64_t>(step)) -
           steps.begin();
  };
  return passed(ramp_begins_) > passed(ramp_tops_);
}

std::optional<Step> FaultScript::next_step(Step after) const {
  if (is_growing(after)) return after + 1;
  const auto later = between(steps_.edges, static_cast<std::int64_t>(after), kEnd);
  if (later.empty()) return {};
  return static_cast<Step>(later.front().at);
}

std::optional<Nanos> FaultScript::next_instant(Nanos after, Nanos horizon) const {
  for (;;) {
    const auto later = between(times_.edges, after, kEnd);
    const auto found = std::find_if(later.begin(), later.end(), [&](const Edge& edge) {
      return edge.fault < own_ || begin(edge.fault) <= horizon;
    });
    const bool known = found != later.end();
    if (drawn_until_ < std::min(horizon, known ? found->at : kEnd)) {
      draw_more();
      continue;
    }
    if (!known) return {};
    return found->at;
  }
}

std::vector<Nanos> FaultScript::instants(Nanos from, Nanos until) const {
  draw_until(until - 1);
  std::vector<Nanos> result;
  for (const Edge& edge : between(times_.edges, from, until - 1)) {
    if (result.empty() || result.back() != edge.at) result.push_back(edge.at);
  }
  return result;
}

std::vector<std::uint32_t> FaultScript::changing_faults(Nanos instant) const {
  draw_until(instant);
  std::vector<std::uint32_t> faults;
  for (const Edge& edge : between(times_.edges, instant - 1, instant)) {
    if (edge.kind != EdgeKind::notice) faults.push_back(edge.fault);
  }
  return faults;
}

// ---- one fault --------------------------------------------------------------------------------

std::span<const FaultTarget> FaultScript::targets(std::uint32_t fault) const {
  const Entry& entry = this->entry(fault);
  if (!entry.share) return std::span(&entry.target, 1);
  return std::span(targets_).subspan(entry.first_target, entry.targets);
}

bool FaultScript::is_ending_ranks(std::uint32_t fault) const {
  const Fault::KindCase kind = entry(fault).kind;
  if (kind == Fault::kKill || kind == Fault::kStop) return true;
  if (kind != Fault::kDown || targets(fault).empty()) return false;
  const auto* part = std::get_if<Part>(&targets(fault).front());
  return part && (part->kind == PartKind::gpu || part->kind == PartKind::node);
}

double FaultScript::rate(std::uint32_t fault) const {
  const Entry& entry = this->entry(fault);
  if (entry.kind == Fault::kRate) return entry.size;
  return entry.kind == Fault::kLinkSlow ? 1 / entry.size : 1;
}

std::string FaultScript::cause(std::uint32_t fault, const FaultTarget& target) const {
  const std::string& named = named_cause(fault);
  return named.empty() ? what_happens(fault, target)
                       : fmt::format("{}: {}", named, what_happens(fault, target));
}

std::string FaultScript::what_happens(std::uint32_t fault, const FaultTarget& target) const {
  if (const auto* part = std::get_if<Part>(&target)) return part_name(*part) + " down";
  const std::uint32_t rank = std::get<RankId>(target).value;
  switch (kind(fault)) {
    case Fault::kStop: return fmt::format("rank {} stopped", rank);
    case Fault::kLinkDown: return fmt::format("NIC of rank {} down", rank);
    default: return fmt::format("rank {} killed", rank);
  }
}

namespace {

/// Returns the part that is reported for faults of the target: a part itself unless it is only a
/// fraction of its links, of a rank its NIC.
std::optional<Part> reported_part(const FaultTarget& target, const Cluster& cluster,
                                  std::span<const GpuId> gpus) {
  if (const auto* part = std::get_if<Part>(&target)) {
    return share_of(cluster, part->kind) == 1 ? std::optional(*part) : std::nullopt;
  }
  const std::uint32_t rank = std::get<RankId>(target).value;
  if (rank >= gpus.size()) return {};
  const std::uint32_t node = cluster.node_of(gpus[rank]).value;
  return Part{PartKind::nic, node * cluster.rails() + cluster.rail_of(gpus[rank])};
}

}  // namespace

std::set<Part> lost_parts(const FaultScript& script, Moment at, const Cluster& cluster,
                          std::span<const GpuId> gpus) {
  std::set<Part> lost;
  for (const auto& [target, condition] : script.conditions(at)) {
    if (!condition.down && !condition.link_down) continue;
    if (const auto part = reported_part(target, cluster, gpus)) lost.insert(*part);
  }
  return lost;
}

std::map<Part, double> slower_parts(const FaultScript& script, Moment at, const Cluster& cluster,
                                    std::span<const GpuId> gpus) {
  std::map<Part, double> slower;
  for (const auto& [target, faults] : script.active(at)) {
    for (const std::uint32_t fault : faults) {
      const double rate = script.rate(fault);
      if (rate == 1) continue;
      const auto part = reported_part(target, cluster, gpus);
      if (part) slower.try_emplace(*part, 1.0).first->second *= rate;
    }
  }
  return slower;
}

}  // namespace orrery
