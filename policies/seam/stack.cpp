#include "policies/seam/stack.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <google/protobuf/message.h>

#include "core/error.hpp"
#include "core/schema/yaml_loader.hpp"
#include "policies/seam/byte_archive.hpp"
#include "policies/seam/saved_state.hpp"

namespace orrery {
namespace {

/// Subject of a decision: the kind of action, the kind of setting, the job.
using Subject = std::tuple<std::size_t, std::size_t, JobId>;

Subject subject_of(const Action& action) {
  const auto* configure = std::get_if<Configure>(&action);
  return {action.index(), configure == nullptr ? 0 : configure->what.index(), job_of(action)};
}

std::string subject_name(const Action& action) {
  const auto* configure = std::get_if<Configure>(&action);
  return std::string(configure == nullptr ? action_name(action) : setting_name(configure->what));
}

/// Samples of another source, which also remember whether they were read.
class NotedSamples : public Samples {
 public:
  explicit NotedSamples(Samples& inner) : inner_(inner) {}
  RankSummary summary(JobId job, std::uint32_t latest) override {
    return look().summary(job, latest);
  }
  std::span<const RankSample> ranks(JobId job) override { return look().ranks(job); }
  std::span<const DeviceSample> devices(JobId job) override { return look().devices(job); }
  std::span<const LinkSample> links(JobId job) override { return look().links(job); }
  std::span<const CollectiveSample> collectives(JobId job) override {
    return look().collectives(job);
  }
  std::shared_ptr<const SampleRows> rows(SampleTable table, JobId job) override {
    return look().rows(table, job);
  }
  std::shared_ptr<const SampleColumn> column(SampleField field, JobId job) override {
    return look().column(field, job);
  }
  bool looked() const { return looked_; }

 private:
  Samples& look() {
    looked_ = true;
    return inner_;
  }

  Samples& inner_;
  bool looked_ = false;
};

}  // namespace

PolicyStack::PolicyStack(std::vector<Member> members) : members_(std::move(members)) {}
PolicyStack::~PolicyStack() = default;

Needs PolicyStack::needs() const {
  Needs all{.actions = {}, .settings = {}, .gpu_kinds = true, .gpu_parts = true};
  for (const Member& member : members_) {
    const Needs own = member.policy->needs();
    const bool starts_jobs = !(own.actions & Kinds<Action>::of<Assign>()).empty();
    all.gpu_kinds = all.gpu_kinds && (own.gpu_kinds || !starts_jobs);
    all.gpu_parts = all.gpu_parts && (own.gpu_parts || !starts_jobs);
    all.actions = all.actions | own.actions;
    all.settings = all.settings | own.settings;
    all.step_times = all.step_times || own.step_times;
    if (own.tick > 0 && (all.tick == 0 || own.tick < all.tick)) all.tick = own.tick;
  }
  return all;
}

void PolicyStack::start(Context& context, const Cluster& cluster,
                        const google::protobuf::Message* /*parameters*/) {
  ensure(rngs_.empty(), "policies are started once");
  cluster_ = &cluster;
  offered_ = context.backend;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    rngs_.push_back(context.rng.split_stream(members_[i].name));
    Context own{rngs_.back(), context.backend};
    members_[i].policy->start(own, cluster, members_[i].parameters.get());
  }
}

void PolicyStack::observe(Context& context, const Observation& seen, DecisionList& decisions) {
  ensure(rngs_.size() == members_.size(), "policies are started before they are asked");
  for (const Event& event : seen.events) {
    if (const auto* said = std::get_if<ParameterSet>(&event)) set_parameter(*said);
  }
  if (members_.size() == 1) {  // a single member has no conflicts
    return ask_member(0, context, seen, decisions);
  }
  std::map<Subject, std::size_t> decided_by;
  bool all_rest = true;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    DecisionList own(decisions.next());
    ask_member(i, context, seen, own);
    for (const Decision& decision : own.items()) {
      const auto [other, first] = decided_by.emplace(subject_of(decision.what), i);
      if (!first && other->second != i) report_conflict(other->second, i, decision.what, seen.now);
    }
    all_rest = all_rest && own.is_resting();
    decisions.append_list(std::move(own));
  }
  if (all_rest) decisions.rest();
}

/// A simulation that skips ahead does not call a resting policy for steps equal to those that the
/// policy has seen; a simulation in full detail calls the policy at every tick. The decisions must
/// be equal in both cases, so rest() binds a policy with ticks: of a call in which it read samples,
/// nothing remains, because those samples differ from the known ones by noise only. Of a policy
/// without ticks a call leaves its state only if it decides: then its promise was broken. A policy
/// that decides by the durations of steps (Needs::step_times) is called for each in both cases.
void PolicyStack::ask_member(std::size_t member, const Context& context, const Observation& seen,
                             DecisionList& decisions) {
  Policy& policy = *members_[member].policy;
  asked_ = member;
  Context own{rngs_[member], context.backend};
  if (!seen.resting) return policy.observe(own, seen, decisions);
  own_.clear();
  policy.save(own_);
  const Rng rng = rngs_[member];
  DecisionList tried(decisions.next());
  NotedSamples samples(seen.samples);
  policy.observe(own,
                 Observation{.now = seen.now,
                             .sequence = seen.sequence,
                             .events = seen.events,
                             .cluster = seen.cluster,
                             .state = seen.state,
                             .jobs = seen.jobs,
                             .samples = samples},
                 tried);
  const bool decided = !tried.items().empty() || !tried.wake_times().empty();
  const Needs needs = policy.needs();
  if (!samples.looked() || (decided && (needs.step_times || needs.tick == 0))) {
    if (tried.is_resting()) decisions.rest();
    return decisions.append_list(std::move(tried));
  }
  policy.load(own_);
  rngs_[member] = rng;
  decisions.rest();
}

std::string PolicyStack::last_called() const {
  return members_.empty() ? "static" : members_[asked_].name;
}

void PolicyStack::set_parameter(const ParameterSet& event) {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    Member& member = members_[i];
    if (member.name != event.policy || member.make == nullptr) continue;
    set_field(*member.parameters, event.parameter, event.value, "orrery set");
    std::unique_ptr<Policy> changed = member.make();
    Context own{rngs_[i], offered_};
    changed->start(own, *cluster_, member.parameters.get());
    transfer_state(*member.policy, *changed, member.name);
    member.policy = std::move(changed);
    set_.push_back(event);
    return;
  }
}

void PolicyStack::report_conflict(std::size_t first, std::size_t second, const Action& what,
                                  Nanos now) const {
  throw Error(ErrorKind::bad_input,
              fmt::format("the policies '{}' and '{}' both decide {} of job {} at {} s",
                          members_[first].name, members_[second].name, subject_name(what),
                          job_of(what).value, to_seconds(now)));
}

bool PolicyStack::has_changed() const {
  return set_.size() != saved_ ||
         std::any_of(members_.begin(), members_.end(),
                     [](const Member& member) { return member.policy->has_changed(); });
}

void PolicyStack::save(Archive& archive) const {
  ByteWriter write(archive);
  for (std::size_t i = 0; i < members_.size(); ++i) {
    write(rngs_.empty() ? std::uint64_t{0} : rngs_[i].state());
    write_state(write, members_[i].name, *members_[i].policy, own_);
  }
  for (const ParameterSet& event : set_) {
    write(event.policy);
    write(event.parameter);
    write(event.value);
  }
  saved_ = set_.size();
}

void PolicyStack::load(const Archive& archive) {
  ByteReader read(archive);
  rngs_.clear();
  for (Member& member : members_) {
    std::uint64_t state = 0;
    read(state);
    rngs_.emplace_back(state);
    read_state(read, member.name, *member.policy);
  }
  set_.clear();
  while (!read.is_at_end()) {  // each replacement continues with the state of the replaced policy
    ParameterSet event;
    read(event.policy);
    read(event.parameter);
    read(event.value);
    const std::vector<Rng> as_saved = rngs_;
    const std::size_t before = set_.size();
    set_parameter(event);
    ensure(set_.size() > before, "a saved policy state fits these policies");
    rngs_ = as_saved;
  }
  saved_ = set_.size();
}

}  // namespace orrery
