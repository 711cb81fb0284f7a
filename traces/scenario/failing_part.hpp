// Parts that fail and the effects of failures, as scenarios, records of failures and logs of
// incidents name them. Pure functions; thread-safe.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/schema/names.hpp"
#include "topologies/part.hpp"

namespace orrery {

/// Failing parts as scenarios name them (FailureKind.part): the kinds of parts of a cluster in
/// their order, then a rack or a row of nodes, and the job.
enum class FailingPart : std::uint8_t {
  gpu,
  node,
  nic,
  link,
  leaf,
  spine,
  plane,
  storage,
  port,
  cable,
  rack,
  row,
  job
};
constexpr std::array<std::string_view, kPartKinds + 3> names_of(FailingPart) {
  std::array<std::string_view, kPartKinds + 3> names{};
  const auto parts = names_of(PartKind{});
  std::copy(parts.begin(), parts.end(), names.begin());
  names[kPartKinds] = "rack";
  names[kPartKinds + 1] = "row";
  names[kPartKinds + 2] = "job";
  return names;
}
/// Returns the part that a record of failures names: a kind of part, or the job as "job" or "rank";
/// nothing for any other name, racks and rows among them.
constexpr std::optional<FailingPart> recorded_part(std::string_view name) {
  constexpr std::string_view kRankOfJob = "rank";
  if (name == kRankOfJob) return FailingPart::job;
  const std::optional<FailingPart> part = find_named<FailingPart>(name);
  const bool of_nodes = part == FailingPart::rack || part == FailingPart::row;
  return of_nodes ? std::nullopt : part;
}

/// Effects of recorded failures as their files name them: a part is down or slower, a process of
/// the job is killed or stops.
enum class FailureEffect : std::uint8_t { down, rate, kill, stop };
constexpr std::array<std::string_view, 4> names_of(FailureEffect) {
  return {"down", "rate", "kill", "stop"};
}
/// Returns the effect that a record of failures names, if the job (`of_job`) or a part can have the
/// effect; nothing otherwise. For example, "kill" is an effect of the job only.
constexpr std::optional<FailureEffect> recorded_effect(std::string_view name, bool of_job) {
  const std::optional<FailureEffect> effect = find_named<FailureEffect>(name);
  const bool ends_process = effect == FailureEffect::kill || effect == FailureEffect::stop;
  return ends_process == of_job ? effect : std::nullopt;
}

}  // namespace orrery
