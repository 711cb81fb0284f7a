#include "policies/seam/drive.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.hpp"
#include "policies/seam/standstill.hpp"

namespace orrery {
namespace {

std::vector<std::string_view> names_of(std::uint32_t bits,
                                       std::span<const std::string_view> names) {
  std::vector<std::string_view> out;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if ((bits >> i & 1u) != 0) out.push_back(names[i]);
  }
  if (bits >> names.size() != 0) out.push_back("(unknown)");
  return out;
}

void check_capabilities(const Needs& needs, const Capabilities& has) {
  const auto actions = names_of((needs.actions - has.actions).bits(), action_names());
  const auto settings = names_of((needs.settings - has.settings).bits(), setting_names());
  std::string lacks;
  if (!actions.empty()) lacks = fmt::format("the actions {}", fmt::join(actions, ", "));
  if (!settings.empty()) {
    lacks += fmt::format("{}the settings {}", lacks.empty() ? "" : " and ",
                         fmt::join(settings, ", "));
  }
  if (lacks.empty()) return;
  throw Error(ErrorKind::bad_input,
              fmt::format("the policies need features that this run does not offer: {}", lacks));
}

}  // namespace

std::uint64_t drive(Policy& policy, Backend& backend, Context& context) {
  context.backend = backend.capabilities();
  policy.start(context, backend.cluster(), nullptr);
  const Needs needs = policy.needs();
  check_capabilities(needs, context.backend);
  backend.begin(needs);
  DecisionList decisions;
  StandstillGuard standstill;
  while (const std::optional<Observation> seen = backend.next()) {
    decisions.clear();
    const DecisionId least = backend.decided_before();
    if (decisions.next() < least) decisions = DecisionList(least);
    policy.observe(context, *seen, decisions);
    standstill.check_progress(*seen, decisions);
    backend.apply(decisions);
  }
  return std::max(decisions.next(), backend.decided_before());
}

}  // namespace orrery
