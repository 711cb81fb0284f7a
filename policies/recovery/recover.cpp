#include "policies/recovery/recover.hpp"

#include <map>
#include <type_traits>
#include <variant>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery {
namespace {

constexpr std::size_t kRecoverIndex = 10;
static_assert(std::is_same_v<std::variant_alternative_t<kRecoverIndex, Action>, Recover>);

}  // namespace

Needs RecoverPolicy::needs() const {
  return {.signals = kMembership, .actions = action_bit(kRecoverIndex), .tick_period = 0};
}

void RecoverPolicy::start(Context&, const Cluster&, const google::protobuf::Message* parameters) {
  const auto* given = dynamic_cast<const RecoverParameters*>(parameters);
  ensure(parameters == nullptr || given != nullptr,
         "a policy is started with parameters of its own type");
  how_ = given != nullptr && given->how() == "shrink" ? Recovery::shrink : Recovery::replace;
}

void RecoverPolicy::observe(Context&, const Observation& seen, DecisionList& decisions) {
  std::map<JobId, std::vector<RankId>> lost;
  for (const Event& event : seen.events) {
    if (const auto* loss = std::get_if<RankLost>(&event)) lost[loss->job].push_back(loss->rank);
  }
  for (auto& [job, ranks] : lost) {
    const std::size_t count = ranks.size();
    Decision& decision = decisions.add(
        Recover{.job = job, .how = how_, .exclude = std::move(ranks), .spare = {},
                .state_from = StateSource::peer},
        fmt::format("{} rank{} lost: {}", count, count == 1 ? "" : "s",
                    how_ == Recovery::shrink ? "the others go on" : "the others go on until a "
                                                                    "replacement is there"));
    decision.effective_at_step = seen.jobs[job.value].step;
  }
  decisions.rest();
}

}  // namespace orrery
