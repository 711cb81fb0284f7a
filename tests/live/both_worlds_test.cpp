// Scenarios in both worlds, each in the simulator and over real processes: the promises about them
// (docs/both-worlds.md lists them) hold. A story is the sequence of events and of outcomes with
// their reasons; steps, ticks and suspicions are left out, because their numbers depend on timing.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "policies/record/encoding.hpp"
#include "policies/seam/part_changes.hpp"
#include "tests/live/live_run.hpp"
#include "tests/live/watching.hpp"

namespace orrery::live {
namespace {

const std::string kSimulator = ORRERY_BINARY_DIR "/bin/orrery-sim";
const std::string kFolder = ::testing::TempDir() + "orrery_both." + std::to_string(getpid());

enum class Promise {
  equal,     ///< the same story and the same decision trace
  measured,  ///< the same, but for the numbers of decisions that hang on measured speeds
};

/// Function that decides in place of a policy by name.
using Decides = std::function<void(const Observation&, DecisionList&)>;

struct Scenario {
  const char* name;
  Promise promise;
  int steps;
  std::string policies, faults;
  std::vector<std::string> more = {};
  std::optional<std::size_t> relieved = {};  ///< a rank that gets the smallest share some time
  Decides decides = {};
  std::optional<double> resumed_s = {};  ///< limit of the time from a loss to the next full step
};

// ---- what is told -------------------------------------------------------------------------

/// A decision in a few words; without the numbers that hang on measured speeds.
std::string decided_line(const std::string& trace_line, Promise promise) {
  const bool numbers = trace_line.find("shares ") != std::string::npos;
  return promise == Promise::measured && numbers ? "" : trace_line;
}

struct Story {
  std::vector<std::string> lines;
  std::vector<std::vector<std::uint32_t>> shares;  ///< decided shares
  Report report;
};

/// Policy that records the observations and decisions of its policies.
class Teller : public Policy {
 public:
  Teller(const orrery::Scenario& scenario, Promise promise, Decides decides)
      : stack_(make_stack(scenario, SourceMap{})),
        promise_(promise),
        decides_(std::move(decides)) {}

  Needs needs() const override {
    if (!decides_) return stack_->needs();
    return {.actions = Kinds<Action>::of<Assign, Save>(), .settings = {}};
  }
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override {
    stack_->start(context, cluster, parameters);
  }
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override {
    for (const Event& event : seen.events) {
      std::string line = std::visit(*this, event);
      if (!line.empty()) story.lines.push_back(std::move(line));
    }
    if (decides_) {
      decides_(seen, decisions);
    } else {
      stack_->observe(context, seen, decisions);
    }
    for (const Decision& each : decisions.items()) {
      said_[each.id] = decided_line(trace_line(each), promise_);
      const auto* configure = std::get_if<Configure>(&each.what);
      const Shares* shares = configure ? std::get_if<Shares>(&configure->what) : nullptr;
      if (shares != nullptr) story.shares.push_back(shares->per_replica);
    }
  }

  std::string operator()(const JobStarted& event) const {
    return fmt::format("on {} ranks", event.where.gpus.size());
  }
  std::string operator()(const RanksLost& event) const {
    std::string line = "lost";
    for (const RankId rank : event.ranks) line += fmt::format(" {}", rank.value);
    return line;
  }
  std::string operator()(const PartChanged& event) const {
    const std::string what = event.to.health == Health::lost ? "lost"
                             : event.to.removal              ? "to be removed"
                             : is_slower(event.to)          ? fmt::format("at {}", event.to.rate)
                                                             : "well";
    return fmt::format("{} {}", part_name(event.part), what);
  }
  std::string operator()(const SaveDone& event) const {
    return fmt::format("saved {}{}", event.step, event.durable ? "" : " in part");
  }
  std::string operator()(const Decided& event) const {
    constexpr const char* kNames[] = {"applied", "rejected", "expired"};
    const std::string& said = said_.at(event.decision);
    if (said.empty()) return {};
    return fmt::format("{} {} {}", said, kNames[static_cast<int>(event.status)], event.reason);
  }
  std::string operator()(const JobHeld&) const { return "held"; }
  std::string operator()(const JobStopped&) const { return "stopped"; }
  std::string operator()(const JobDone& event) const {
    return event.how == Ending::completed ? "done" : "failed";
  }
  template <class Other>
  std::string operator()(const Other&) const {
    return {};
  }

  Story story;

 private:
  std::unique_ptr<PolicyStack> stack_;
  Promise promise_;
  Decides decides_;
  std::map<DecisionId, std::string> said_;
};

Story told(const std::string& program, const Scenario& scenario) {
  std::vector<std::string> overrides{"job.global_batch=20", brisk_pace(), "live.reproducible=true",
                                     fmt::format("run.steps={}", scenario.steps),
                                     fmt::format("policies=[{}]", scenario.policies),
                                     fmt::format("faults=[{}]", scenario.faults)};
  overrides.insert(overrides.end(), scenario.more.begin(), scenario.more.end());
  const RunRequest asked = request(overrides);
  std::filesystem::remove_all(kFolder);
  Teller teller(asked.scenario(), scenario.promise, scenario.decides);
  teller.story.report = run_in_worker(program, asked, &teller);
  std::filesystem::remove_all(kFolder);
  return std::move(teller.story);
}

// ---- the scenarios ------------------------------------------------------------------------

/// Returns the duration of a step without a slow rank: five micro-batches a rank.
std::string steps_long(double steps) {
  return fmt::format("{} ms", static_cast<int>(steps * 5 * kBriskPaceMs));
}

const std::string kRebalance = "{name: predictive-rebalance, parameters: {tick: 20 ms}}";
const std::string kReplace = "{name: recover, parameters: {how: replace}}";
/// A decision, and none about GPUs.
const std::string kTable =
    "{name: collective-table, parameters: {rules: [{kind: all-reduce, algorithm: tree}]}}";
const std::string kShrink = "{name: recover, parameters: {how: shrink}}";

/// Slots for eight ranks; the replacement time is about that of a machine that is not busy.
const std::vector<std::string> kSlots{"cluster.nodes=2", "elastic=true",
                                      "survival.replacement=400 ms"};

const std::vector<std::string> kWarm{"cluster.nodes=2", "survival.warm=2",
                                     "survival.replacement=400 ms"};

/// Assigns the job to these GPUs at the end of these steps.
Decides placed(std::vector<std::pair<Step, GpuRuns>> plan) {
  return [plan](const Observation& seen, DecisionList& decisions) {
    const auto* done = shown<StepsDone>(seen);
    for (const auto& [after, gpus] : plan) {
      if (done == nullptr || done->last != after) continue;
      const auto data = static_cast<std::uint32_t>(gpus.size());
      decisions.add(Assign{{0}, gpus, {.data = data}, StateFrom::peer}, "as planned");
    }
  };
}

/// Slots and a checkpoint after each fourth step.
const std::vector<std::string> kSaved{
    "cluster.nodes=2", "elastic=true", "survival.restart=400 ms", "survival.replacement=400 ms",
    fmt::format("checkpoints={{folder: {}, every: 4, write: 20 ms}}", kFolder)};

const std::vector<std::string> kSavedAndReplaced{
    kSaved[0], kSaved[1], kSaved[2], kSaved[3], kSaved[4], "survival.on_loss=replace"};

const std::vector<std::string> kSavedAndHeld{kSaved[0], kSaved[1], kSaved[2], kSaved[3], kSaved[4],
                                             "survival.on_loss=hold"};

/// Leaves the GPUs after step `after`, and takes `then` as soon as the job waits; also `otherwise`,
/// if there are any.
Decides leaves_and_restores(Step after, GpuRuns then, GpuRuns otherwise = {}) {
  return [after, then, otherwise, left = false](const Observation& seen,
                                                DecisionList& decisions) mutable {
    const auto* done = shown<StepsDone>(seen);
    if (done != nullptr && done->last == after && !std::exchange(left, true)) {
      decisions.add(Assign{{0}}, "to make room");
    }
    if (shown<JobStopped>(seen) == nullptr) return;
    const auto data = static_cast<std::uint32_t>(then.size());
    const bool saved = seen.jobs[{0}].saved_at > 0;
    decisions.add(Assign{{0}, then, {.data = data},
                         saved ? StateFrom::checkpoint : StateFrom::none}, "room again");
    if (otherwise.empty()) return;
    const auto others = static_cast<std::uint32_t>(otherwise.size());
    decisions.add(Assign{{0}, otherwise, {.data = others}, StateFrom::checkpoint}, "or there");
  };
}

/// Restarts the job on `on` from its newest checkpoint after step `after`.
Decides restarts(Step after, GpuRuns on) {
  return [after, on, done_once = false](const Observation& seen, DecisionList& decisions) mutable {
    const auto* done = shown<StepsDone>(seen);
    if (done == nullptr || done->last != after || std::exchange(done_once, true)) return;
    const auto data = static_cast<std::uint32_t>(on.size());
    decisions.add(Assign{{0}, on, {.data = data}, StateFrom::checkpoint}, "again");
    decisions.add(Assign{{0}, on, {.data = data}, StateFrom::peer}, "no rank is left");
    decisions.add(Configure{{0}, OnLoss{LossResponse::hold}}, "for the new ranks");
  };
}

/// Restarts the job on its GPUs from its newest checkpoint 300 ms after it is on hold.
Decides restarts_later() {
  return [at = kNever](const Observation& seen, DecisionList& decisions) mutable {
    if (shown<JobHeld>(seen) != nullptr) decisions.wake(at = seen.now + 300'000'000);
    if (seen.now < at) return;
    at = kNever;
    const JobInfo& job = seen.jobs[{0}];
    decisions.add(Assign{{0}, job.gpus, job.layout, StateFrom::checkpoint}, "after a while");
  };
}

/// Decides another division of the replica's ranks after step 3.
void divides_replicas(const Observation& seen, DecisionList& decisions) {
  const auto* done = shown<StepsDone>(seen);
  if (done == nullptr || done->last != 3) return;
  const GpuRuns all = GpuRuns::range({0}, 4);
  decisions.add(Assign{{0}, all, {.tensor = 2, .data = 2}, StateFrom::peer}, "tensor parallel");
  decisions.add(Assign{{0}, all, {.pipeline = 4}, StateFrom::checkpoint}, "a pipeline");
  decisions.add(Configure{{0}, OnLoss{LossResponse::hold}}, "as usual");
}

/// Moves the ranks of GPUs and nodes that become slower to the second node, and back later.
void leaves_slower_parts(const Observation& seen, DecisionList& decisions) {
  if (shown<PartChanged>(seen) == nullptr) return;
  const auto is_slow = [&seen](Part part) {
    const auto known = seen.state.parts.find(part);
    return known != seen.state.parts.end() && is_slower(known->second);
  };
  GpuRuns gpus;
  std::uint32_t away = 0;
  for (std::uint32_t gpu = 0; gpu < 4; ++gpu) {
    if (is_slow({PartKind::gpu, gpu}) || is_slow({PartKind::node, 0})) {
      ++away;
    } else {
      gpus.push_back({gpu});
    }
  }
  for (std::uint32_t gpu = 4; gpu < 4 + away; ++gpu) gpus.push_back({gpu});
  const JobInfo& job = seen.jobs[{0}];
  if (gpus == (job.next ? job.next->gpus : job.gpus)) return;
  decisions.add(Assign{{0}, gpus, {.data = 4}, StateFrom::peer}, "away from slower parts");
}

/// Decides another interval of the checkpoints from steps on at whose begin a checkpoint is due by
/// one of both intervals.
void changes_interval(const Observation& seen, DecisionList& decisions) {
  const auto* done = shown<StepsDone>(seen);
  if (done == nullptr || done->last != 1) return;
  const auto plan = [&decisions](std::uint64_t every, Step at_step) {
    decisions.add(Configure{{0}, CheckpointPlan{every, Tier::local_disk}}, "as planned").at_step =
        at_step;
  };
  plan(5, 5);    // due at the begin of step 5, not at the end of step 4
  plan(7, 15);   // due at the end of step 14, not at the begin of step 15
  plan(3, 18);
}

std::vector<Scenario> slot_scenarios() {
  using enum Promise;
  return {
      {"growth and back", equal, 50, "", "", kSlots, {},
       placed({{3, GpuRuns::range({0}, 8)}, {28, GpuRuns::range({0}, 4)}})},
      {"move to spares", equal, 50, "", "", kSlots, {},
       placed({{3, GpuRuns::range({2}, 4)}, {28, GpuRuns::range({4}, 4)}})},
      {"growth and a kill", equal, 50, "", "{at_step: 30, rank: 1, kill: true}", kSlots, {},
       placed({{3, GpuRuns::range({0}, 6)}})},
      {"move to a warm spare", equal, 40, "", "", kWarm, {},
       placed({{12, GpuRuns{{0}, {1}, {2}, {4}}}, {25, GpuRuns{{0}, {1}, {2}, {7}}}})},
      {"leave, and restore a checkpoint", equal, 23, "", "", kSaved, {},
       leaves_and_restores(9, GpuRuns::range({4}, 4))},
      {"leave, and restore on more GPUs", equal, 23, "", "", kSaved, {},
       leaves_and_restores(5, GpuRuns::range({0}, 6))},
      {"leave without a checkpoint", equal, 12, "", "", kSlots, {},
       leaves_and_restores(5, GpuRuns::range({1}, 4))},
      {"leave, and lose a rank after the restore", equal, 39, "",
       "{at_step: 18, gpu: 5, down: true}", kSaved, {},
       leaves_and_restores(9, GpuRuns::range({4}, 4))},
      {"leave, and take a GPU that was lost after the checkpoint", equal, 23, "",
       "{at_step: 9, gpu: 5, down: true}", kSaved, {},
       leaves_and_restores(9, GpuRuns::range({4}, 4), GpuRuns::range({1}, 3))},
      {"checkpoint plan from a step on", equal, 23, "", "", kSaved, {}, changes_interval},
      {"restart in place", equal, 23, "", "", kSaved, {}, restarts(9, GpuRuns::range({0}, 4))},
      {"restart on more GPUs", equal, 23, "", "", kSaved, {}, restarts(9, GpuRuns::range({1}, 6))},
      {"restart without a checkpoint", equal, 12, "", "", kSlots, {},
       restarts(5, GpuRuns::range({0}, 4))},
      {"growth, and a GPU is lost during it", equal, 30, "", "{at_step: 5, gpu: 5, down: true}",
       kSlots, {},
       placed({{3, GpuRuns::range({0}, 6)}, {20, GpuRuns::range({0}, 4)}})},
      {"kill, and all restart", equal, 23, "{name: recover, parameters: {how: restart}}",
       "{at_step: 11, rank: 2, kill: true}", kSavedAndHeld},
      {"kill, and all restart although others work", equal, 23,
       "{name: recover, parameters: {how: restart}}", "{at_step: 11, rank: 2, kill: true}", kSaved},
      {"another layout of the replicas", equal, 8, "", "", kSlots, {}, divides_replicas},
      {"more GPUs than the job can have", equal, 8, "", "",
       {"cluster.nodes=8", "elastic=true"}, {},
       placed({{2, GpuRuns::range({0}, 21)}, {3, GpuRuns::range({30}, 3)}})},
  };
}

std::vector<Scenario> slower_scenarios() {
  using enum Promise;
  return {
      {"slow GPU, which its rank leaves", equal, 50, "",
       "{at_step: 6, gpu: 2, rate: 0.5, until_step: 28}, "
       "{at_step: 12, gpu: 2, rate: 0.5, until_step: 20}",
       kSlots, {}, leaves_slower_parts},
      {"slow node, which its ranks leave", equal, 50, "",
       fmt::format("{{at_time: {}, node: 0, rate: 0.5, until_time: {}}}", steps_long(4.5),
                   steps_long(26.5)),
       kSlots, {}, leaves_slower_parts},
      {"slow NIC of a spare, and a kill", equal, 26, kReplace,
       "{at_step: 4, nic: 6, rate: 0.25, until_step: 20}, {at_step: 6, rank: 1, kill: true}",
       kSlots},
  };
}

/// Steps of half the length, with little to compute: a process needs more than one step to start.
const std::vector<std::string> kShortSlots{kSlots[0], kSlots[1], kSlots[2],
                                           "job.pace.micro_batch=10 ms", "job.sequence_length=16"};

/// Four GPUs without spares, and a checkpoint after each fourth step.
const std::vector<std::string> kSavedWithoutSpares{kSaved[2], kSaved[4]};

std::vector<Scenario> planned_scenarios() {
  using enum Promise;
  return {
      {"planned move of a rank", equal, 24, kReplace,
       "{at_step: 18, gpu: 2, down: true, notice_steps: 12}", kWarm},
      {"planned move of a node", equal, 40, kReplace,
       "{at_step: 32, node: 0, down: true, notice_steps: 26}", kSlots},
      {"planned move, and the part is tested", equal, 50, kReplace,
       "{at_step: 18, gpu: 2, down: true, notice_steps: 12, until_step: 22, test: 400 ms}", kWarm},
      {"planned removal without a spare", equal, 50, kReplace,
       "{at_step: 12, gpu: 2, down: true, notice_steps: 6, until_step: 16, test: 400 ms}"},
      {"planned removal, shrunk", equal, 24, kShrink,
       "{at_step: 12, gpu: 2, down: true, notice_steps: 6}", kSlots},
      {"planned removal of all ranks without a spare", equal, 23, kReplace,
       fmt::format("{{at_time: {}, node: 0, down: true, notice: {}, for: {}}}", steps_long(14.5),
                   steps_long(3.3), steps_long(8)),
       kSavedWithoutSpares},
      {"planned removal, announced within its step", equal, 40, kReplace,
       fmt::format("{{at_time: {}, gpu: 2, down: true, notice: 15 ms}}", steps_long(8.7)), kSlots},
      {"two planned moves, the second during the first", equal, 60, kReplace,
       "{at_step: 50, gpu: 2, down: true, notice_steps: 44}, "
       "{at_step: 51, gpu: 1, down: true, notice_steps: 44}",
       kShortSlots},
      {"planned move, and another rank is lost during it", equal, 26, kReplace,
       fmt::format("{{at_time: {}, gpu: 2, down: true, notice: {}}}, "
                   "{{at_time: {}, rank: 1, kill: true}}",
                   steps_long(20.3), steps_long(12), steps_long(8.7)),
       kSlots},
  };
}

const std::string kKillOfAll =
    "{at_step: 9, rank: 0, kill: true}, {at_step: 9, rank: 1, kill: true}, "
    "{at_step: 9, rank: 2, kill: true}, {at_step: 9, rank: 3, kill: true}";

/// All ranks are lost at once. A policy that decides at once restarts them at once: a wait for the
/// limit of a hold would last 10 minutes.
std::vector<Scenario> total_losses() {
  using enum Promise;
  constexpr double kAtOnce_s = kSanitized ? 60 : 10;
  return {
      {"kill of all ranks, and no policy decides", equal, 23, kTable, kKillOfAll,
       kSavedAndReplaced, {}, {}, kAtOnce_s},
      {"kill of all ranks, replaced", equal, 23, kReplace, kKillOfAll, kSaved, {}, {}, kAtOnce_s},
      {"kill of all ranks, shrunk", equal, 23, kShrink, kKillOfAll, kSaved, {}, {}, kAtOnce_s},
      {"kill of all ranks, in the cheapest way", equal, 23, "{name: cheapest-goodput}", kKillOfAll,
       kSaved, {}, {}, kAtOnce_s},
      {"kill of all ranks, and the policy decides later", equal, 23, "", kKillOfAll, kSaved, {},
       restarts_later()},
      // Live, the processes end at once, and are not silent.
      {"node down with all ranks, and back", equal, 23, kReplace,
       fmt::format("{{at_step: 6, node: 0, down: true, detection: 10 ms, until_time: {}}}",
                   steps_long(16)),
       kSavedWithoutSpares},
  };
}

std::vector<Scenario> fault_scenarios() {
  using enum Promise;
  return {
      {"straggler", measured, 16, kRebalance, "{at_step: 5, rank: 2, slow: 3}", {}, 2},
      {"two stragglers", measured, 22, kRebalance,
       "{at_step: 5, rank: 1, slow: 2}, {at_step: 12, rank: 3, slow: 3}", {}, 1},
      // Three times as slow, rank 3 could have as much as rank 1 in a step that is as short.
      {"two stragglers at once", measured, 16, kRebalance,
       "{at_step: 5, rank: 1, slow: 2}, {at_step: 5, rank: 3, slow: 5}", {}, 3},
      {"straggler that heals", measured, 22, kRebalance,
       "{at_step: 5, rank: 2, slow: 3, until_step: 12}", {}, 2},
      {"ramp", measured, 22, kRebalance,
       "{at_step: 4, rank: 1, ramp: {slow: 3, steps: 10}}", {}, 1},
      {"ramp and kill, replaced", measured, 26, kReplace + ", " + kRebalance,
       "{at_step: 2, rank: 1, ramp: {slow: 3, steps: 10}}, {at_step: 9, rank: 2, kill: true}", {},
       1},
      {"straggler and kill, shrunk", measured, 20, kShrink + ", " + kRebalance,
       "{at_step: 3, rank: 1, slow: 2}, {at_step: 9, rank: 2, kill: true}", {}, 1},
      {"kill and straggler, shrunk", measured, 18, kShrink + ", " + kRebalance,
       "{at_step: 3, rank: 2, kill: true}, {at_step: 8, rank: 1, slow: 3}", {}, 1},
      {"kill of the straggler, replaced", measured, 26, kReplace + ", " + kRebalance,
       "{at_step: 3, rank: 2, slow: 3}, {at_step: 9, rank: 2, kill: true}", {}, 2},
      {"two kills at one step", equal, 26, kReplace,
       "{at_step: 5, rank: 1, kill: true}, {at_step: 5, rank: 2, kill: true}"},
      {"kill, and again soon", equal, 26, kShrink,
       "{at_step: 5, rank: 2, kill: true}, {at_step: 7, rank: 1, kill: true}"},
      {"kill, and again soon, replaced", equal, 26, kReplace,
       fmt::format("{{at_time: {}, rank: 2, kill: true}}, {{at_time: {}, rank: 1, kill: true}}",
                   steps_long(5.3), steps_long(5.6))},
      {"kill at step 0", equal, 26, kReplace, "{at_step: 0, rank: 2, kill: true}"},
      {"kill at the last step", equal, 6, kShrink, "{at_step: 5, rank: 2, kill: true}"},
      {"kill at the last step, replaced", equal, 6, kReplace, "{at_step: 5, rank: 2, kill: true}"},
      {"stop", equal, 26, kReplace, "{at_step: 5, rank: 2, stop: true}"},
      {"kill at a time", equal, 26, kReplace,
       fmt::format("{{at_time: {}, rank: 2, kill: true}}", steps_long(3.5))},
      {"noise", measured, 16, kRebalance, "", {"noise.compute_cv=0.03"}},
      {"slow from a time on", measured, 18, kRebalance,
       fmt::format("{{at_time: {}, rank: 2, slow: 3}}", steps_long(5.5)), {}, 2},
      {"slow link", equal, 8,
       kTable,
       "{at_step: 3, rank: 1, link_slow: 20}", {"live.link_rate=100 MB/s"}},
      {"cut link", equal, 12,
       kTable,
       fmt::format("{{at_time: {}, rank: 1, link_down: true, until_time: {}}}", steps_long(3.5),
                   steps_long(9))},
      {"cut link between nodes", equal, 12,
       kTable,
       fmt::format("{{at_time: {}, rank: 1, link_down: true, until_time: {}}}", steps_long(3.5),
                   steps_long(9)),
       {"cluster.nodes=4", "cluster.node.gpus_per_node=1", "cluster.node.nics_per_node=1",
        "cluster.fabric.nodes_per_unit=4"}},
      {"codecs by memory and variance", equal, 10,
       "{name: memory-aware, parameters: {warm_up_steps: 4, cooldown_steps: 8}}", "",
       {"live.link_rate=2 MB/s", "live.reproducible=false", "job.bucket=64 KiB",
        "job.global_batch=8"}},
      {"too little memory after a kill", equal, 10, kShrink,
       "{at_step: 4, rank: 2, kill: true}",
       {"job.max_share=1", "survival.hold_limit=500 ms"}},
      // Further differences, independent of the load.
      {"GPU down", equal, 12, kShrink, "{at_step: 4, gpu: 2, down: true}"},
      {"codecs with sharded gradients", equal, 6,
       "{name: fixed-codec, parameters: {rules: [{codec: bf16}]}}", "",
       {"job.layout.shard=optimizer", "live.reproducible=false"}},
      {"an algorithm that the fabric does not support", equal, 6,
       "{name: collective-table, parameters: {rules: [{kind: all-reduce, algorithm: nvls}]}}", ""},
  };
}

/// Returns the fault that stops a rank after `begin` steps, for as long as `steps` steps.
std::string stop_for(double begin, double steps, int rank = 2) {
  return fmt::format("{{at_time: {}, rank: {}, stop: true, for: {}}}", steps_long(begin), rank,
                     steps_long(steps));
}

/// Ranks that fall silent and are heard again.
std::vector<Scenario> silent_scenarios() {
  using enum Promise;
  const std::string timeout = "survival.heartbeat_timeout=400 ms";
  const std::string begin = stop_for(3.5, 40);
  return {
      {"stop that ends, continued", equal, 80, kTable, begin, {"survival.on_loss=go-on", timeout}},
      {"stop that ends, held", equal, 20, kTable, begin, {"survival.on_loss=hold", timeout}},
      {"stop that ends, replaced", equal, 60, kReplace, begin, {timeout}},
      {"stop that ends, shrunk", equal, 60, kShrink, begin, {timeout}},
      {"two stops that end one after the other", equal, 100, kTable,
       begin + ", " + stop_for(3.5, 55, 3), {"survival.on_loss=go-on", timeout}},
  };
}

std::vector<Scenario> scenarios() {
  std::vector<Scenario> all = fault_scenarios();
  std::ranges::move(total_losses(), std::back_inserter(all));
  std::ranges::move(silent_scenarios(), std::back_inserter(all));
  std::ranges::move(slot_scenarios(), std::back_inserter(all));
  std::ranges::move(slower_scenarios(), std::back_inserter(all));
  std::ranges::move(planned_scenarios(), std::back_inserter(all));
  return all;
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const Scenario& each : scenarios()) all.emplace_back(each.name);
  return all;
}

/// Some decision gave that rank less than every other.
bool relieves(const Story& story, std::size_t rank) {
  return std::ranges::any_of(story.shares, [rank](const std::vector<std::uint32_t>& shares) {
    if (rank >= shares.size()) return false;
    const auto least = std::ranges::min_element(shares);
    return shares[rank] == *least && std::ranges::count(shares, *least) == 1;
  });
}

/// Checks that the job went on soon after each loss.
void expect_resumed_within(double limit_s, const Report& report) {
  EXPECT_GT(report.failures_size(), 0);
  for (const FailureReport& loss : report.failures()) {
    EXPECT_TRUE(loss.has_resumed_s()) << loss.cause();
    EXPECT_LT(loss.resumed_s() - loss.time_s(), limit_s) << loss.cause();
  }
}

class BothWorlds : public ::testing::TestWithParam<std::size_t> {};

TEST(BothWorldsPage, ListsWhatIsPromised) {
  std::ifstream file(ORRERY_SOURCE_DIR "/docs/both-worlds.md");
  const std::string page(std::istreambuf_iterator<char>(file), {});
  for (const Scenario& each : scenarios()) {
    const char* const promise = each.promise == Promise::equal ? "equal" : "measured";
    EXPECT_NE(page.find(fmt::format("| {} | {} |", each.name, promise)), std::string::npos)
        << each.name;
  }
}

TEST_P(BothWorlds, TellTheSameStory) {
  const Scenario scenario = scenarios()[GetParam()];
  const Story live = told(kProgram, scenario), simulated = told(kSimulator, scenario);
  EXPECT_EQ(fmt::format("{}", fmt::join(live.lines, "\n")),
            fmt::format("{}", fmt::join(simulated.lines, "\n")));
  EXPECT_EQ(live.report.steps_completed(), simulated.report.steps_completed());
  EXPECT_EQ(live.report.steps_rolled_back(), simulated.report.steps_rolled_back());
  for (const Story* each : {&live, &simulated}) {
    EXPECT_EQ(each->report.micro_batches_lost(), 0u);
    EXPECT_EQ(each->report.micro_batches_repeated(), 0u);
    if (scenario.resumed_s) expect_resumed_within(*scenario.resumed_s, each->report);
  }
  if (scenario.promise == Promise::equal) {
    EXPECT_GT(live.report.decisions(), 0u) << "nothing would be compared";
    EXPECT_EQ(live.report.decision_trace_sha256(), simulated.report.decision_trace_sha256());
  }
  if (scenario.relieved) {
    EXPECT_TRUE(relieves(live, *scenario.relieved));
    EXPECT_TRUE(relieves(simulated, *scenario.relieved));
  }
  expect_nothing_left();
}

// ---- decisions at given events --------------------------------------------------------------

/// Returns a line of a word and ranks.
std::string line_of(std::string line, const std::vector<RankId>& ranks) {
  for (const RankId rank : ranks) line += fmt::format(" {}", rank.value);
  return line + "\n";
}

/// Policy that decides at given events, and records what became of the job and of its decisions.
class Probe : public Policy {
 public:
  using Decide = std::function<void(const Event&, const JobInfo&, DecisionList&)>;
  explicit Probe(Decide decide) : decide_(std::move(decide)) {}

  Needs needs() const override {
    return {.actions = Kinds<Action>::all(), .settings = kLiveSettings};
  }
  void start(Context&, const Cluster&, const google::protobuf::Message*) override {}
  void observe(Context&, const Observation& seen, DecisionList& decisions) override {
    const JobInfo* job = seen.jobs.find({0});
    if (job == nullptr || job->phase == JobPhase::done) return;
    replicas = job->layout.data;
    shares = job->shares();
    table = job->now.get<CollectiveTable>();
    for (const Event& event : seen.events) {
      if (const auto* outcome = std::get_if<Decided>(&event)) {
        constexpr const char* kNames[] = {"applied", "rejected", "expired"};
        outcomes += fmt::format("{} {} {}\n", outcome->decision,
                                kNames[static_cast<int>(outcome->status)], outcome->reason);
      }
      if (const auto* silent = std::get_if<RanksSuspected>(&event)) {
        outcomes += line_of("suspected", silent->ranks);
      }
      if (const auto* loss = std::get_if<RanksLost>(&event)) {
        outcomes += line_of("lost", loss->ranks);
      }
      if (std::holds_alternative<JobHeld>(event)) outcomes += "held\n";
      if (const auto* started = std::get_if<JobStarted>(&event)) {
        outcomes += fmt::format("on {} ranks from {}\n", started->where.gpus.size(), started->from);
      }
      decide_(event, *job, decisions);
    }
  }

  std::string outcomes;
  std::uint32_t replicas = 0;
  std::vector<std::uint32_t> shares;
  CollectiveTable table;

 private:
  const Decide decide_;
};

/// Runs the policy live, or else in the simulator: 12 steps, 20 micro-batches each on four ranks.
Report probe(Probe& policy, const std::string& program, std::vector<std::string> more) {
  more.insert(more.end(), {"job.global_batch=20", brisk_pace(), "run.steps=12",
                           "live.reproducible=false", "job.max_share=4"});
  return run_in_worker(program, request(more), &policy);
}

Assign peers(const Standing& where) { return {{0}, where.gpus, where.layout, StateFrom::peer}; }

/// Holds the job at a loss, replaces the lost rank, and then decides to go on without it.
void decide_twice(const Event& event, const JobInfo& job, DecisionList& decisions) {
  const auto* started = std::get_if<JobStarted>(&event);
  const auto* outcome = std::get_if<Decided>(&event);
  if (started != nullptr && started->epoch == Epoch{1}) {
    decisions.add(Configure{{0}, OnLoss{LossResponse::hold}}, "hold");
  } else if (std::holds_alternative<JobHeld>(event)) {
    decisions.add(peers({job.gpus, job.layout}), "replace");
  } else if (outcome != nullptr && outcome->decision == 1) {
    decisions.add(peers(without_lost(job)), "shrink");
  }
}

TEST(BothWorldsRules, ASecondAssignmentReplacesThePendingOne) {
  const std::vector<std::string> kill{"faults=[{at_step: 4, rank: 2, kill: true}]"};
  Probe live(decide_twice), simulated(decide_twice);
  const Report real = probe(live, kProgram, kill), rehearsed = probe(simulated, kSimulator, kill);
  EXPECT_EQ(live.outcomes, simulated.outcomes);
  EXPECT_EQ(live.outcomes, "on 4 ranks from 0\n0 applied \nlost 2\nheld\n1 applied \n"
                           "2 applied \non 3 ranks from 4\n");
  for (const Probe* each : {&live, &simulated}) EXPECT_EQ(each->replicas, 3u);
  for (const Report* each : {&real, &rehearsed}) {
    EXPECT_EQ(each->steps_completed(), 12u);
    EXPECT_EQ(each->micro_batches_lost() + each->micro_batches_repeated(), 0u);
  }
  EXPECT_EQ(real.decision_trace_sha256(), rehearsed.decision_trace_sha256());
  expect_nothing_left();
}

TEST(BothWorldsRules, SharesOfALaterStepOutlastABatchWithoutAStep) {
  const auto decide = [](const Event& event, const JobInfo&, DecisionList& decisions) {
    const auto* done = std::get_if<StepsDone>(&event);
    if (done == nullptr || done->last != 3) return;
    decisions.add(Configure{{0}, Batch{24, 1}}, "a larger batch");
    decisions.add(Configure{{0}, Shares{{9, 6, 6, 3}}}, "rank 3 is slow").at_step = 5;
  };
  Probe live(decide), simulated(decide);
  probe(live, kProgram, {});
  probe(simulated, kSimulator, {});
  EXPECT_EQ(live.outcomes, simulated.outcomes);
  for (const Probe* each : {&live, &simulated}) {
    EXPECT_EQ(each->shares, (std::vector<std::uint32_t>{9, 6, 6, 3}));
  }
  expect_nothing_left();
}

TEST(BothWorldsRules, SettingsNextToAnAssignmentStartWithItsEpoch) {
  const CollectiveTable tree{{.algorithm = CollectiveAlgorithm::tree}};
  const auto shrink = [&tree](const Event& event, const JobInfo&, DecisionList& decisions) {
    const auto* done = std::get_if<StepsDone>(&event);
    if (done == nullptr || done->last != 3) return;
    decisions.add(Configure{{0}, tree}, "tree");
    decisions.add(peers({GpuRuns::range({0}, 3), {.data = 3}}), "shrink");
    decisions.add(Configure{{0}, Shares{{8, 4, 8}}}, "for three");
    decisions.add(Configure{{0}, Shares{{6, 6, 4, 4}}}, "for four");
  };
  Probe live(shrink), simulated(shrink);
  const Report real = probe(live, kProgram, {}), rehearsed = probe(simulated, kSimulator, {});
  EXPECT_EQ(live.outcomes, simulated.outcomes);
  for (const Probe* each : {&live, &simulated}) {
    EXPECT_EQ(each->shares, (std::vector<std::uint32_t>{8, 4, 8}));
    EXPECT_EQ(each->table, tree);
  }
  EXPECT_NE(live.outcomes.find("3 rejected job 0 has 3 replicas after its assignment, not 4"),
            std::string::npos) << live.outcomes;
  EXPECT_EQ(real.decision_trace_sha256(), rehearsed.decision_trace_sha256());
  expect_nothing_left();
}

TEST(BothWorldsRules, ARankThatFallsSilentIsSuspectedBeforeItIsLost) {
  const auto save = [](const Event&, const JobInfo&, DecisionList&) {};
  const std::vector<std::string> stop{"faults=[{at_step: 4, rank: 2, stop: true}]",
                                      "survival.on_loss=go-on"};
  Probe live(save), simulated(save);
  probe(live, kProgram, stop), probe(simulated, kSimulator, stop);
  for (const Probe* each : {&live, &simulated}) {
    const std::size_t suspected = each->outcomes.find("suspected 2\n");
    const std::size_t lost = each->outcomes.find("lost 2\n");
    EXPECT_NE(suspected, std::string::npos) << each->outcomes;
    EXPECT_NE(lost, std::string::npos) << each->outcomes;
    EXPECT_LT(suspected, lost) << each->outcomes;
  }
  expect_nothing_left();
}

INSTANTIATE_TEST_SUITE_P(All, BothWorlds, ::testing::Range<std::size_t>(0, scenarios().size()),
                         [](const auto& which) {
                           std::string name = names()[which.param];
                           for (char& c : name) {
                             if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
                           }
                           return name;
                         });

}  // namespace
}  // namespace orrery::live
