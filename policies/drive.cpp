#include "policies/drive.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.hpp"
#include "policies/handover/standstill.hpp"

namespace orrery {
namespace {

constexpr std::array<std::string_view, 7> kSignalNames{
    "jobs", "steps", "devices", "links", "ranks", "collectives", "membership"};
constexpr std::array<std::string_view, std::variant_size_v<Action>> kActionNames{
    "PlaceJob",      "Preempt",  "ShiftMicrobatches",  "SetAccumulation", "SetLayout",
    "SetBuckets",    "Prefetch", "SetCollectiveTable", "SetCodec",        "SetCheckpoint",
    "Recover",       "SetPowerCap", "WakeMe"};

template <std::size_t N>
std::vector<std::string_view> names_of(std::uint32_t mask,
                                       const std::array<std::string_view, N>& names) {
  std::vector<std::string_view> out;
  for (std::size_t i = 0; i < N; ++i) {
    if ((mask >> i & 1u) != 0) out.push_back(names[i]);
  }
  if (mask >> N != 0) out.push_back("something unknown");
  return out;
}

void check_capabilities(const Needs& needs, const Capabilities& has) {
  const auto signals = names_of(needs.signals & ~has.signals, kSignalNames);
  const auto actions = names_of(needs.actions & ~has.actions, kActionNames);
  std::string lacks;
  if (!signals.empty()) lacks = fmt::format("the signals {}", fmt::join(signals, ", "));
  if (!actions.empty()) {
    lacks += fmt::format("{}the actions {}", lacks.empty() ? "" : " and ",
                         fmt::join(actions, ", "));
  }
  if (lacks.empty()) return;
  throw Error(ErrorKind::bad_input,
              fmt::format("the policies need what this run does not offer: {}", lacks));
}

/// What a decision is about: kind of action, and the job or GPU.
using Subject = std::pair<std::size_t, std::uint32_t>;

Subject subject_of(const Action& action) {
  const std::uint32_t thing = std::visit(
      [](const auto& what) -> std::uint32_t {
        if constexpr (requires { what.job; }) return what.job.value;
        if constexpr (requires { what.gpu; }) return what.gpu.value;
        return 0;
      },
      action);
  return {action.index(), thing};
}

void put_u64(Archive& archive, std::uint64_t value) {
  for (int i = 0; i < 8; ++i) archive += static_cast<char>(value >> (8 * i));
}

/// Takes pieces off the front of an archive.
class ArchiveReader {
 public:
  explicit ArchiveReader(std::string_view bytes) : rest_(bytes) {}
  std::string_view take(std::uint64_t count) {
    if (count > rest_.size()) torn();
    const std::string_view piece = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return piece;
  }
  std::uint64_t take_u64() {
    std::uint64_t value = 0;
    const std::string_view bytes = take(8);
    for (std::size_t i = 0; i < 8; ++i) {
      value |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    }
    return value;
  }
  void expect_end() const {
    if (!rest_.empty()) torn();
  }

 private:
  [[noreturn]] static void torn() {
    throw Error(ErrorKind::bad_input, "a saved policy state does not fit these policies");
  }
  std::string_view rest_;
};

}  // namespace

std::string_view action_name(const Action& action) { return kActionNames[action.index()]; }

std::uint64_t drive(Policy& policy, Backend& backend, Context& context) {
  context.backend = backend.capabilities();
  policy.start(context, backend.cluster(), nullptr);
  const Needs needs = policy.needs();
  check_capabilities(needs, context.backend);
  backend.begin(needs);
  std::uint64_t taken = 0;
  DecisionList decisions;
  StandstillGuard standstill;
  while (const std::optional<Observation> seen = backend.next()) {
    decisions.clear();
    policy.observe(context, *seen, decisions);
    standstill.check(*seen, decisions);
    for (Decision& decision : decisions.items()) decision.number = taken++;
    backend.apply(decisions.items(), decisions.at_rest());
  }
  return taken;
}

PolicyStack::PolicyStack(std::vector<Member> members) : members_(std::move(members)) {
  std::stable_sort(members_.begin(), members_.end(),
                   [](const Member& a, const Member& b) { return a.family < b.family; });
}

Needs PolicyStack::needs() const {
  Needs all;
  for (const Member& member : members_) {
    const Needs own = member.policy->needs();
    all.signals |= own.signals;
    all.actions |= own.actions;
    if (own.tick_period > 0 && (all.tick_period == 0 || own.tick_period < all.tick_period)) {
      all.tick_period = own.tick_period;
    }
  }
  return all;
}

void PolicyStack::start(Context& context, const Cluster& cluster,
                        const google::protobuf::Message* /*parameters*/) {
  ensure(rngs_.empty(), "policies are started once");
  for (std::size_t i = 0; i < members_.size(); ++i) {
    rngs_.push_back(context.rng.split(members_[i].name));
    Context own{rngs_.back(), context.backend};
    members_[i].policy->start(own, cluster, members_[i].parameters.get());
  }
}

void PolicyStack::observe(Context& context, const Observation& seen, DecisionList& decisions) {
  ensure(rngs_.size() == members_.size(), "policies are started before they are asked");
  std::map<Subject, std::size_t> decided_by;
  bool all_rest = true;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    DecisionList own;  // holds what earlier members decided; its rest is this member's alone
    own.items() = std::move(decisions.items());
    const std::size_t earlier = own.items().size();
    Context of_member{rngs_[i], context.backend};
    members_[i].policy->observe(of_member, seen, own);
    ensure(own.items().size() >= earlier, "a policy leaves earlier decisions alone");
    for (std::size_t k = earlier; k < own.items().size(); ++k) {
      const Action& what = own.items()[k].what;
      if (std::holds_alternative<WakeMe>(what)) continue;
      const auto [other, first] = decided_by.emplace(subject_of(what), i);
      if (!first) report_conflict(other->second, i, what, seen.now);
    }
    all_rest = all_rest && own.at_rest();
    decisions.items() = std::move(own.items());
  }
  if (all_rest) decisions.rest();
}

void PolicyStack::report_conflict(std::size_t first, std::size_t second, const Action& what,
                                  Nanos now) const {
  const auto [kind, thing] = subject_of(what);
  const std::string_view of = std::holds_alternative<SetPowerCap>(what) ? "GPU" : "job";
  throw Error(first == second ? ErrorKind::internal : ErrorKind::bad_input,
              fmt::format("the policies '{}' and '{}' both decide {} of {} {} at {} s",
                          members_[first].name, members_[second].name, kActionNames[kind], of,
                          thing, to_seconds(now)));
}

void PolicyStack::save(Archive& archive) const {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    Archive own;
    members_[i].policy->save(own);
    put_u64(archive, rngs_.empty() ? 0 : rngs_[i].state());
    put_u64(archive, own.size());
    archive += own;
  }
}

void PolicyStack::load(const Archive& archive) {
  ArchiveReader reader(archive);
  rngs_.clear();
  for (Member& member : members_) {
    rngs_.emplace_back(reader.take_u64());
    member.policy->load(Archive(reader.take(reader.take_u64())));
  }
  reader.expect_end();
}

}  // namespace orrery
