#include "policies/recovery/recover.hpp"

#include <optional>
#include <variant>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/schema/names.hpp"
#include "policies/recovery/ways.hpp"
#include "policies/seam/byte_archive.hpp"

namespace orrery {

Needs RecoverPolicy::needs() const {
  const auto assigns = Kinds<Action>::of<Assign>();
  return {.actions = saves_ ? assigns | Kinds<Action>::of<Save>() : assigns, .settings = {}};
}

void RecoverPolicy::start(Context& context, const Cluster&,
                          const google::protobuf::Message* parameters) {
  const auto* given = dynamic_cast<const RecoverParameters*>(parameters);
  ensure(parameters == nullptr || given != nullptr,
         "a policy is started with parameters of its own type");
  if (given != nullptr) how_ = named(given->how(), std::optional(How::replace));
  saves_ = offers_save(context.backend);
  planned_.set_rules({.moves = how_ != How::shrink, .saves = saves_});
}

void RecoverPolicy::observe(Context&, const Observation& seen, DecisionList& decisions) {
  std::set<JobId> hit;
  const bool parts_changed = planned_.read_parts(seen);
  if (parts_changed) {
    hit.insert(waiting_.begin(), waiting_.end());
    // The part may have been one of an assignment, which is void then.
    for (const JobInfo& job : seen.jobs) {
      if (lacks_recovery(job)) hit.insert(job.spec.id);
    }
  }
  for (const Event& event : seen.events) {
    if (const auto* loss = std::get_if<RanksLost>(&event)) hit.insert(loss->job);
    if (const auto* held = std::get_if<JobHeld>(&event)) hit.insert(held->job);
  }
  for (const JobId id : hit) {
    waiting_.erase(id);
    const JobInfo* job = seen.jobs.find(id);
    if (job == nullptr || job->lost.empty()) continue;
    if (job->next && (job->phase != JobPhase::held || job->is_restarting)) continue;
    if (!decide_recovery(seen, *job, decisions)) waiting_.insert(id);
  }
  planned_.observe(seen, parts_changed, decisions);
  decisions.rest();
}

/// Decides; returns true if enough GPUs are free for the decision.
bool RecoverPolicy::decide_recovery(const Observation& seen, const JobInfo& job,
                                    DecisionList& decisions) const {
  const std::size_t count = job.lost.size();
  const std::string lost = fmt::format("{} rank{} lost", count, count == 1 ? "" : "s");
  const Standing left = without_lost(job);
  if (how_ == How::shrink && !left.gpus.empty()) {
    decisions.add(Assign{job.spec.id, left.gpus, left.layout, nearest_state(job)},
                  lost + ": the other ranks continue");
    return true;
  }
  const std::optional<Standing> where = whole_again(seen, job);
  if (!where) return false;
  const bool restarts = how_ == How::restart;
  const StateFrom state = restarts ? kept_state(job) : nearest_state(job);
  const char* const why = restarts || state != StateFrom::peer
                              ? "all restart from the newest checkpoint"
                              : "the other ranks continue until a replacement has joined";
  decisions.add(Assign{job.spec.id, where->gpus, where->layout, state},
                fmt::format("{}: {}", lost, why));
  return true;
}

void RecoverPolicy::save(Archive& archive) const {
  archive.clear();
  ByteWriter write(archive);
  planned_.save_to(write);
  for (const JobId id : waiting_) write(id.value);
}

void RecoverPolicy::load(const Archive& archive) {
  waiting_.clear();
  ByteReader read(archive);
  planned_.load_from(read);
  while (!read.is_at_end()) {
    JobId id{};
    read(id.value);
    waiting_.insert(id);
  }
}

}  // namespace orrery
