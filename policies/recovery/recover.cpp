#include "policies/recovery/recover.hpp"

#include <set>
#include <variant>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery {

Needs RecoverPolicy::needs() const {
  return {.actions = Kinds<Action>::of<Assign>(), .settings = {}};
}

void RecoverPolicy::start(Context&, const Cluster&, const google::protobuf::Message* parameters) {
  const auto* given = dynamic_cast<const RecoverParameters*>(parameters);
  ensure(parameters == nullptr || given != nullptr,
         "a policy is started with parameters of its own type");
  shrink_ = given != nullptr && given->how() == "shrink";
}

void RecoverPolicy::observe(Context&, const Observation& seen, DecisionList& decisions) {
  std::set<JobId> hit;
  for (const Event& event : seen.events) {
    if (const auto* loss = std::get_if<RanksLost>(&event)) hit.insert(loss->job);
  }
  for (const JobId id : hit) {
    const JobInfo* job = seen.jobs.find(id);
    if (job == nullptr || job->lost.empty() || job->next) continue;
    const Standing where = shrink_ ? without_lost(*job) : Standing{job->gpus, job->layout};
    if (where.gpus.empty()) continue;
    const std::size_t count = job->lost.size();
    decisions.add(Assign{id, where.gpus, where.layout, StateFrom::peer},
                  fmt::format("{} rank{} lost: {}", count, count == 1 ? "" : "s",
                              shrink_ ? "the others go on"
                                      : "the others go on until a replacement is there"));
  }
  decisions.rest();
}

}  // namespace orrery
