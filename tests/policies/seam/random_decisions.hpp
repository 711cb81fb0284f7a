// Policy that decides at random, much of it invalid, and records the outcome of each decision: the
// same seed with two backends must give the same decisions, outcomes and reasons. One call mixes
// settings, saves, assignments and groups. It reads only
// values that all backends show alike: it decides when a job has reached a step on a grid, or is on
// hold, never while a decision of its own is open, and it leaves ranks time to agree. Telemetry and
// the clock play no part.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/random.hpp"
#include "policies/record/encoding.hpp"
#include "policies/seam/job_lifecycle.hpp"
#include "policies/seam/policy.hpp"

namespace orrery::test {

/// Decision and its outcome.
struct Fate {
  std::string what;     ///< text with everything on which the decision depends
  std::string outcome;  ///< "applied", "rejected: why"; empty: none yet
  int told = 0;         ///< number of outcomes
  friend bool operator==(const Fate&, const Fate&) = default;
};
using Fates = std::map<DecisionId, Fate>;

/// Options of the random policy.
struct RandomDecisionOptions {
  std::uint64_t seed = 1;
  JobId job;       ///< it trains; the others only take and give GPUs
  Step every = 8;  ///< the grid
  /// Settings that name a step name one at least so far ahead, or one that is past.
  Step lead = 2;
  /// True if a rank is lost in the middle of that step: outcomes of decisions in it depend on the
  /// loss.
  std::function<bool(Step)> loses = [](Step) { return false; };
  /// True if ranks may be lost twice in that step: between the losses the policy decides no
  /// settings, because ranks have no time to agree on them.
  std::function<bool(Step)> loses_again = [](Step) { return false; };
  bool within = true;  ///< decides within steps, too; else at their ends alone
  /// Settings of one call name different steps, or none; else all name steps or none does.
  bool mixes_steps = true;
  Needs needs = {};  ///< needs for the run; the decisions cover everything
};

/// Policy that decides at random.
class RandomDecisions : public Policy {
 public:
  explicit RandomDecisions(RandomDecisionOptions options)
      : options_(std::move(options)), rng_(options_.seed) {}

  Needs needs() const override { return options_.needs; }
  void start(Context&, const Cluster&, const google::protobuf::Message*) override {}

  void observe(Context&, const Observation& seen, DecisionList& decisions) override {
    bool assigned = false;
    for (const Event& event : seen.events) assigned = record_event(event) || assigned;
    const JobInfo* job = seen.jobs.find(options_.job);
    if (job == nullptr || job->phase == JobPhase::done || open_ > 0) return;
    if (assigned && is_waiting_for_ranks(*job) && one_in(2)) {
      return an_assignment(seen, *job, decisions);  // a second one
    }
    if (std::any_of(seen.jobs.begin(), seen.jobs.end(),
                    [](const JobInfo& each) { return each.next.has_value(); })) {
      return;
    }
    if (job->phase != JobPhase::running) {
      within_ = false;
      stands_still(seen, *job, decisions);
    } else if (std::exchange(within_, false)) {
      within_a_step(seen, *job, decisions);
    } else if (ended_ == job->step && job->step % options_.every == 0 && job->step > newest_) {
      newest_ = job->step;
      within_ = options_.within && (options_.loses(job->step) || below(3) == 0);
      if (within_) return decisions.wake(seen.now + 1);
      on_the_grid(seen, *job, decisions);
    }
  }
  void save(Archive& archive) const override {
    archive = fmt::format("{} {} {} {}", rng_.state(), newest_, open_, fates_.size());
  }

  const Fates& fates() const { return fates_; }

 private:
  std::uint32_t below(std::uint64_t bound) { return static_cast<std::uint32_t>(rng_.below(bound)); }
  bool one_in(std::uint64_t n) { return below(n) == 0; }

  /// Returns true if an assignment of the training job has been applied.
  bool record_event(const Event& event) {
    if (const auto* done = std::get_if<StepsDone>(&event); done && done->job == options_.job) {
      ended_ = done->last + 1;
    }
    const auto* told = std::get_if<Decided>(&event);
    if (told == nullptr) return false;
    constexpr const char* kNames[] = {"applied", "rejected", "expired"};
    Fate& fate = fates_[told->decision];
    // The instant depends on the backend's clock.
    const bool late = told->reason.starts_with("it expired at");
    fate.outcome = kNames[static_cast<int>(told->status)];
    if (!told->reason.empty()) fate.outcome += ": " + (late ? "too late" : told->reason);
    if (fate.told++ == 0) --open_;
    return told->status == Outcome::applied && assigns_.contains(told->decision);
  }

  /// The job is held, and its assignment needs processes that must be started first: in no backend
  /// is it active already.
  static bool is_waiting_for_ranks(const JobInfo& job) {
    return job.phase == JobPhase::held && job.next &&
           std::any_of(job.next->gpus.begin(), job.next->gpus.end(),
                       [&job](GpuId gpu) {
                         return job.is_restarting || !rank_on(job, gpu);
                       });
  }

  void add_decision(DecisionList& out, Action what, const Observation& seen, Step at_step = 0,
              std::uint32_t group = 0) {
    const JobInfo* job = seen.jobs.find(job_of(what));
    Decision& decision = out.add(std::move(what), "at random");
    decision.at_step = at_step;
    decision.group = group;
    // The backend's time to place the job decides whether a later save falls into its epoch.
    const bool later_save = std::holds_alternative<Save>(decision.what) && at_step > 0;
    if (job != nullptr && !later_save && one_in(6)) {
      decision.if_epoch = Epoch{job->epoch.value + one_in(4)};
    }
    if (one_in(8)) decision.expires = one_in(3) ? seen.now - 1 : seen.now + 3600 * kNanosPerSecond;
    // Without the instants and the epoch's number, which are the backend's.
    const auto* assign = std::get_if<Assign>(&decision.what);
    if (assign && assign->job == options_.job) assigns_.insert(decision.id);
    Fate& fate = fates_[decision.id];
    fate.what = fmt::format("{} group {}{}{}", trace_line(decision), group,
                            decision.if_epoch ? " if epoch" : "",
                            decision.expires < seen.now    ? " too late"
                            : decision.expires == kNever ? ""
                                                           : " in time");
    ++open_;
  }

  // ---- when -------------------------------------------------------------------------------

  void on_the_grid(const Observation& seen, const JobInfo& job, DecisionList& out) {
    still_ = 0;
    // The order of two settings must not depend on the time that ranks take to agree.
    const bool ahead = one_in(2);
    later_ = false;
    for (std::uint32_t part = 1 + (one_in(2) ? below(3) : 0); part > 0; --part) {
      if (one_in(2)) {
        some_settings(seen, job, false, ahead, out);
      } else if (one_in(4)) {
        one_in(2) ? a_group(seen, job, out) : a_group_with_settings(seen, job, out);
      } else {
        an_assignment(seen, one_in(3) ? any_job(seen) : job, out);
      }
    }
  }
  void within_a_step(const Observation& seen, const JobInfo& job, DecisionList& out) {
    some_settings(seen, job, true, one_in(2) && !options_.loses(job.step), out);
  }
  /// It waits or is held: something that holds, after a few tries.
  void stands_still(const Observation& seen, const JobInfo& job, DecisionList& out) {
    if (++still_ <= kTries) return an_assignment(seen, job, out);
    if (still_ > 3 * kTries) return;  // it is not to be
    const Decision& decision = out.add(way_on(seen, job), "so that it goes on");
    fates_[decision.id].what = trace_line(decision);
    ++open_;
  }

  // ---- what -------------------------------------------------------------------------------

  const JobInfo& any_job(const Observation& seen) {
    std::vector<const JobInfo*> jobs;
    for (const JobInfo& job : seen.jobs) jobs.push_back(&job);
    return *jobs[below(jobs.size())];
  }

  /// Settings and saves, right and wrong; assignments that no backend can take.
  void some_settings(const Observation& seen, const JobInfo& job, bool within, bool ahead,
                     DecisionList& out) {
    const std::uint32_t group = one_in(8) ? out.new_group() : 0;
    for (std::uint32_t i = 1 + below(4); i > 0; --i) {
      Action what = one_in(6) ? nonsense(seen, job) : a_setting(job);
      add_decision(out, std::move(what), seen, a_step(job, within, ahead), one_in(3) ? 0 : group);
    }
  }

  Step a_step(const JobInfo& job, bool within, bool ahead) {
    if (one_in(4)) return job.step > 0 ? job.step - 1 : 0;
    if (within && one_in(4)) return job.step;
    if (!ahead || (options_.mixes_steps && one_in(4))) return 0;
    if (one_in(8)) return job.step + 1'000'000;
    // Ranks may agree on a batch without a step only at the step of shares.
    const Step lead = options_.mixes_steps ? options_.lead : options_.lead + 1;
    return job.step + lead + below(options_.every - lead);
  }

  Action a_setting(const JobInfo& job) {
    switch (below(10)) {
      case 0: return Save{job.spec.id, static_cast<Tier>(below(4))};
      case 1: return Configure{job.spec.id, CheckpointPlan{below(9), static_cast<Tier>(below(4))}};
      case 2: return Configure{job.spec.id, OnLoss{static_cast<LossResponse>(below(3))}};
      case 3:
        return Configure{job.spec.id, CollectiveTable{{.algorithm = CollectiveAlgorithm::ring}}};
      case 4:
        return Configure{job.spec.id, CodecRules{{.bucket_class = below(4),
                                                  .codec = static_cast<Codec>(below(4))}}};
      case 5:
      case 6: return Configure{job.spec.id, some_batch(job)};
      case 7: return Configure{job.spec.id, some_delay()};
      default: return Configure{job.spec.id, some_shares(job)};
    }
  }

  Batch some_batch(const JobInfo& job) {
    const std::uint32_t most = 2 * job.spec.micro_batches + 2;
    return {.micro_batches = one_in(3) ? job.spec.micro_batches : below(most),
            .learning_rate_factor = one_in(8) ? -1 : 0.5 + below(3)};
  }
  Delay some_delay() {
    constexpr double kWrong[] = {-1, kMostDelay + 1, std::numeric_limits<double>::infinity()};
    return {one_in(4) ? kWrong[below(3)] : 0.01 * below(8)};
  }

  Shares some_shares(const JobInfo& job) {
    Shares shares{job.shares()};
    // Replicas that an assignment of this call may have.
    if (one_in(3)) {
      shares.per_replica = even_split(job.micro_batches(), 1 + below(job.spec.most()));
    }
    auto& each = shares.per_replica;
    if (each.empty()) return shares;
    const std::uint32_t from = below(each.size()), to = below(each.size());
    const std::uint32_t moved = std::min(each[from], below(6));
    each[from] -= moved, each[to] += moved;
    if (one_in(8)) ++each[to];
    if (one_in(8)) each.push_back(0);
    return shares;
  }

  Action nonsense(const Observation& seen, const JobInfo& job) {
    const JobId id = job.spec.id;
    const GpuId beyond{seen.cluster.gpus()};
    const std::uint32_t far = job.spec.most() + 1;
    switch (below(7)) {
      case 0: return Assign{{99}, GpuRuns::range({0}, 1), {}};
      case 1: return Save{{77}};
      case 2: return Configure{{55}, OnLoss{}};
      case 3: return Assign{id, GpuRuns::range({0}, far), {.data = far}};
      case 4: return Assign{id, GpuRuns::range(beyond, job.spec.gpus), job.spec.layout};
      case 5: return Assign{id, GpuRuns::range({0}, job.spec.gpus), {.tensor = 0, .data = 0}};
      default: {
        GpuRuns twice = GpuRuns::range({0}, job.spec.gpus - 1);
        twice.push_back({0});
        return Assign{id, twice, job.spec.layout};
      }
    }
  }

  /// GPUs that it could stand on: its own and those that are free; lost ones, too, now and then.
  std::vector<GpuId> open_to(const Observation& seen, const JobInfo& job, bool careful) {
    std::vector<GpuId> gpus;
    for (std::uint32_t i = 0; i < seen.cluster.gpus(); ++i) {
      const bool own = seen.state.owner[i] == job.spec.id;
      const bool free = seen.state.owner[i] == ClusterState::kNobody;
      const bool well = seen.state.is_healthy({i}, seen.cluster.node_of({i}));
      if ((own || free) && (well || !careful)) gpus.push_back({i});
    }
    return gpus;
  }
  static StateFrom state_for(const JobInfo& job) {
    const std::vector<bool> lost = lost_replicas(job);
    const bool works = job.is_placed() && !job.is_restarting;
    const bool peer = works && std::find(lost.begin(), lost.end(), false) != lost.end();
    if (!job.spec.is_training()) return StateFrom::none;
    if (peer) return StateFrom::peer;
    return job.saved_at > 0 ? StateFrom::checkpoint : StateFrom::none;
  }

  Assign a_standing(const Observation& seen, const JobInfo& job, bool careful) {
    const std::uint32_t size = job.spec.is_training() ? job.spec.layout.ranks_per_replica() : 1;
    const std::vector<GpuId> open = open_to(seen, job, careful);
    std::uint32_t data = job.spec.gpus / size;
    if (!careful) data = 1 + below(job.spec.most() / size + 1);
    const std::size_t count = std::min<std::size_t>(std::size_t{data} * size, open.size());
    const std::size_t first = careful ? 0 : below(open.size() - count + 1);
    const auto begin = open.begin() + static_cast<std::ptrdiff_t>(first);
    ParallelLayout layout = job.spec.layout;
    layout.data = data;
    if (job.spec.can_change_layout && data % 2 == 0 && one_in(4)) {
      layout.pipeline = 2 * layout.pipeline;
      layout.data = data / 2;
    }
    return {job.spec.id, {begin, begin + static_cast<std::ptrdiff_t>(count)}, layout,
            one_in(8) ? static_cast<StateFrom>(below(3)) : state_for(job)};
  }

  Assign some_assignment(const Observation& seen, const JobInfo& job) {
    if (job.is_placed() && one_in(6)) return {job.spec.id};
    // A restart where the job is.
    if (job.is_placed() && one_in(8)) {
      return {job.spec.id, job.gpus, job.layout, StateFrom::checkpoint};
    }
    if (!job.lost.empty() && one_in(2)) {
      const Standing left = one_in(2) ? without_lost(job) : Standing{job.gpus, job.layout};
      return {job.spec.id, left.gpus, left.layout, state_for(job)};
    }
    return a_standing(seen, job, false);
  }
  void an_assignment(const Observation& seen, const JobInfo& job, DecisionList& out) {
    // A call has at most one: the first one may still be pending at the step of a second one.
    const bool later = job.phase == JobPhase::running && job.spec.is_training() && !later_ &&
                       one_in(4);
    later_ = later_ || later;
    // Settings of the same call that do not start with it are agreed upon before.
    const Step at = later ? job.step + options_.lead + 1 + below(2) : 0;
    const Assign assign = some_assignment(seen, job);
    const bool before = one_in(2);
    if (before) settings_of(seen, job, assign, 0, out);
    add_decision(out, assign, seen, at);
    if (!before) settings_of(seen, job, assign, 0, out);
  }
  /// Settings for the epoch of the assignment, right and wrong.
  void settings_of(const Observation& seen, const JobInfo& job, const Assign& assign,
                   std::uint32_t group, DecisionList& out) {
    const bool loses = job.phase == JobPhase::held && options_.loses_again(job.step);
    if (!job.spec.is_training() || loses) return;
    const std::uint32_t data = std::max(assign.layout.data, 1u);
    if (one_in(4)) add_decision(out, Configure{job.spec.id, OnLoss{}}, seen, 0, group);
    std::uint32_t batch = job.micro_batches();
    if (one_in(4)) {
      const Batch other = some_batch(job);
      if (one_in(2)) batch = other.micro_batches;
      add_decision(out, Configure{job.spec.id, other}, seen, 0, group);
    }
    if (one_in(3)) {
      add_decision(out, Configure{job.spec.id, Shares{even_split(batch, data)}}, seen, 0, group);
    }
    if (one_in(4)) add_decision(out, a_setting(job), seen, 0, group);
  }
  /// An assignment and its settings, all or none.
  void a_group_with_settings(const Observation& seen, const JobInfo& job, DecisionList& out) {
    const std::uint32_t group = out.new_group();
    const Assign assign = some_assignment(seen, job);
    const bool before = one_in(2);
    if (before) settings_of(seen, job, assign, group, out);
    add_decision(out, assign, seen, 0, group);
    if (!before) settings_of(seen, job, assign, group, out);
  }
  /// One job leaves or moves, and another takes its GPUs; or the group does not fit together.
  void a_group(const Observation& seen, const JobInfo& job, DecisionList& out) {
    const std::uint32_t group = out.new_group();
    const JobInfo& other = any_job(seen);
    const GpuRuns freed = job.gpus;
    if (one_in(2)) {
      add_decision(out, Assign{job.spec.id}, seen, 0, group);
    } else {
      add_decision(out, some_assignment(seen, job), seen, 0, group);
    }
    const std::uint32_t count = std::min<std::uint32_t>(
        other.spec.gpus, static_cast<std::uint32_t>(freed.size()));
    GpuRuns gpus;
    for (std::uint32_t i = 0; i < count; ++i) gpus.push_back(freed[i]);
    ParallelLayout layout = other.spec.layout;
    add_decision(out, Assign{other.spec.id, gpus, layout}, seen, 0, group);
    if (one_in(4)) add_decision(out, nonsense(seen, job), seen, 0, group);
  }

  /// Returns a new assignment on healthy GPUs; a held job without state leaves first.
  Action way_on(const Observation& seen, const JobInfo& job) {
    Assign assign = a_standing(seen, job, true);
    assign.state = state_for(job);
    const bool fits = assign.gpus.size() == job.spec.gpus;
    const bool stuck = job.is_placed() && assign.state == StateFrom::none;
    if (stuck || !fits) return Assign{job.spec.id};
    return assign;
  }

  static constexpr int kTries = 3;

  RandomDecisionOptions options_;
  Rng rng_;
  Fates fates_;
  std::set<DecisionId> assigns_;  ///< assignments of the training job
  int open_ = 0;     ///< decisions without an outcome
  int still_ = 0;    ///< calls since it stands still
  Step ended_ = 0;   ///< the step that begins when the newest one has ended
  Step newest_ = 0;  ///< newest step on the grid
  bool within_ = false;
  bool later_ = false;  ///< the call has an assignment of a later step
};

}  // namespace orrery::test
