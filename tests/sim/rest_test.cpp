// Rest changes no decision: a folded run, which leaves a resting policy alone, and one in full
// detail, which asks it at every tick, decide the same at the same steps for the same reasons.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "core/random.hpp"
#include "policies/record/log_reader.hpp"
#include "policies/run/registry.hpp"
#include "tests/policies/temp_dir.hpp"
#include "tests/sim/run.hpp"

namespace orrery::sim {
namespace {

using testing::load_example;
using testing::simulate;
using testing::small_scenario;

struct Told {
  Report report;
  std::vector<std::string> decisions;
  std::map<std::string, std::vector<double>> rates;  ///< reported rates by part
  std::map<std::string, std::size_t> subjects;       ///< decisions by their subject
  std::size_t calls = 0, resting = 0;
};

/// Returns the name of the field of a message's only group of alternatives.
std::string alternative_of(const google::protobuf::Message& message) {
  const auto* const field = message.GetReflection()->GetOneofFieldDescriptor(
      message, message.GetDescriptor()->oneof_decl(0));
  return field == nullptr ? "" : std::string(field->name());
}

/// Returns the action of a decision, or the setting that the decision configures.
std::string subject_of(const DecisionRecord& decision) {
  return decision.has_configure() ? alternative_of(decision.configure().what())
                                  : alternative_of(decision);
}

/// Returns the decisions of a run without the instants: those of folded steps are rounded
/// differently.
Told told(const LoadedScenario& loaded, bool full_detail) {
  const toy::TempDir folder;
  const std::string log = folder / "run.log";
  Told told;
  told.report = simulate(loaded, {.full_detail = full_detail, .record = log, .timeline = {}});
  LogReader reader(log);
  LogRecord record;
  while (reader.next(record)) {
    if (!record.has_call()) continue;
    ++told.calls;
    told.resting += record.call().observation().resting() ? 1 : 0;
    for (const EventRecord& event : record.call().observation().events()) {
      const PartChangedRecord& part = event.part_changed();
      if (!event.has_part_changed()) continue;
      told.rates[fmt::format("{} {}", PartKindRecord_Name(part.kind()), part.index())].push_back(
          part.rate());
    }
    for (DecisionRecord decision : record.call().decisions()) {
      ++told.subjects[subject_of(decision)];
      decision.clear_expires();
      told.decisions.push_back(decision.ShortDebugString());
    }
  }
  return told;
}

/// Comparison of the decisions of both ways of a run.
struct Comparison {
  std::size_t runs = 0, decisions = 0, calls_spared = 0, asked_at_rest = 0;

  void of(const LoadedScenario& loaded, const std::string& what) {
    const Told folded = told(loaded, false), full = told(loaded, true);
    EXPECT_EQ(folded.decisions, full.decisions) << what;
    ++runs;
    decisions += full.decisions.size();
    calls_spared += full.calls - std::min(full.calls, folded.calls);
    asked_at_rest += full.resting;
  }
};

TEST(Rest, ChangesNoDecisionOfTheExamples) {
  Comparison all;
  const std::vector<std::string> quiet{"noise.compute_cv=0", "noise.sample_cv=0"};
  for (const char* file :
       {"ramp-4-ranks.yaml", "noise-4-ranks.yaml", "straggler-4-ranks.yaml", "kill-one-rank.yaml",
        "compressed-4-ranks.yaml", "compare/slow-link.yaml", "compare/straggler-rebalanced.yaml"}) {
    all.of(load_example(file), file);
    all.of(load_example(file, quiet), fmt::format("{} without noise", file));
  }
  EXPECT_GT(all.decisions, 15u);
  EXPECT_GT(all.calls_spared, 1000u);
  EXPECT_GT(all.asked_at_rest, 1000u);
}

std::string any_fault(Rng& rng, std::uint64_t ranks) {
  const std::uint64_t from = 3 + rng.below(70), lasts = 1 + rng.below(40);
  const double much = 1.05 + 2 * rng.uniform();
  switch (rng.below(4)) {
    case 0:
      return fmt::format("{{at_step: {}, rank: {}, slow: {:.3f}, until_step: {}}}", from,
                         rng.below(ranks), much, from + lasts);
    case 1:
      return fmt::format("{{at_step: {}, rank: {}, ramp: {{slow: {:.3f}, steps: {}}}}}", from,
                         rng.below(ranks), much, lasts);
    case 2:
      return fmt::format("{{at_step: {}, nic: {}, rate: {:.3f}, until_step: {}}}", from,
                         rng.below(ranks), 1 / much, from + lasts);
    default:
      return fmt::format("{{at_step: {}, rank: {}, slow: {:.3f}}}", from, rng.below(ranks), much);
  }
}

LoadedScenario any_scenario(Rng& rng) {
  const int tensor = 1 << rng.below(2), data = 4 << rng.below(2);
  std::vector<std::string> faults;
  for (std::uint64_t i = rng.below(4); i > 0; --i) {
    faults.push_back(any_fault(rng, static_cast<std::uint64_t>(tensor) * data));
  }
  const char* const stacks[] = {"{name: predictive-rebalance, parameters: {tick: 5 ms}}",
                                "{name: memory-aware}",
                                "{name: predictive-rebalance}, {name: memory-aware}"};
  const double noise = rng.below(2) == 0 ? 0 : 0.02 * rng.uniform();
  return small_scenario(tensor, 1, data, fmt::format("faults: [{}]\n", fmt::join(faults, ", ")),
                        {"run.steps=100", fmt::format("policies=[{}]", stacks[rng.below(3)]),
                         fmt::format("noise.sample_cv={:.4f}", noise),
                         fmt::format("noise.compute_cv={:.4f}", rng.below(2) == 0 ? 0 : noise),
                         fmt::format("run.seed={}", 1 + rng.below(1000))});
}

std::uint64_t given(const char* variable, std::uint64_t otherwise) {
  const char* const set = std::getenv(variable);
  return set == nullptr ? otherwise : std::strtoull(set, nullptr, 10);
}

TEST(Rest, ChangesNoDecisionOfScenariosDrawnAtRandom) {
  Comparison all;
  const std::uint64_t seed = given("ORRERY_SEED", 500), runs = given("ORRERY_SEQUENCES", 40);
  for (std::uint64_t i = 0; i < runs; ++i) {
    Rng rng(seed + i);
    all.of(any_scenario(rng), fmt::format("ORRERY_SEED={}", seed + i));
  }
  EXPECT_GT(all.decisions, runs / 2);
  EXPECT_GT(all.calls_spared, 100 * runs);
  EXPECT_GT(all.asked_at_rest, 100 * runs);
}

// ---- checkpoints and recovery -------------------------------------------------------------

/// Asserts that a run has the same decisions, checkpoints and end in both ways.
void expect_same_run(const LoadedScenario& loaded, const std::string& what) {
  const Told of_folded = told(loaded, false), of_full = told(loaded, true);
  EXPECT_EQ(of_folded.decisions, of_full.decisions) << what;
  EXPECT_EQ(of_folded.rates, of_full.rates) << what;
  const Report &folded = of_folded.report, &full = of_full.report;
  EXPECT_NEAR(folded.gpu_time().checkpoint() / folded.ranks(),
              full.gpu_time().checkpoint() / full.ranks(), 1e-6)
      << what;
  EXPECT_NEAR(folded.elapsed_s(), full.elapsed_s(), 1e-6 * full.elapsed_s()) << what;
  EXPECT_EQ(folded.steps_completed(), full.steps_completed()) << what;
  EXPECT_EQ(folded.steps_rolled_back(), full.steps_rolled_back()) << what;
  EXPECT_EQ(folded.failures_size(), full.failures_size()) << what;
}

TEST(Rest, TheFirstCheckpointIntervalIsDecidedAfterTheFirstStep) {
  const LoadedScenario loaded = small_scenario(
      1, 1, 8, {},
      {"run.steps=200", "checkpoints={folder: k, every: 20, stall: 50 ms, write: 150 ms}",
       "policies=[{name: checkpoint-interval, parameters: {method: daly, mtbf: 40 s}}]"});
  expect_same_run(loaded, "daly");
  const double step = simulate(loaded).step_time_s();
  const double asked = std::round(std::sqrt(2 * 1.0 * 40) / step);  // the stall is not known yet
  ASSERT_GT(asked, 20);
  const Report report = simulate(loaded);
  EXPECT_LT(report.gpu_time().checkpoint() / report.ranks() / 0.05, 200 / 20 - 1)
      << "the file's interval is not used";
}

std::string any_recovery(Rng& rng) {
  const char* const recoveries[] = {"{name: recover, parameters: {how: restart}}",
                                    "{name: recover, parameters: {how: replace}}",
                                    "{name: recover, parameters: {how: shrink}}",
                                    "{name: cheapest-goodput, parameters: {repair: 5 s}}"};
  return recoveries[rng.below(4)];
}

std::string any_interval(Rng& rng) {
  const char* const methods[] = {"fixed, interval: 2 s", "young, mtbf: 20 s, cost: 0.1 s",
                                 "daly, mtbf: 30 s", "adaptive, mtbf: 5 s, cost: 20 ms"};
  return fmt::format("{{name: checkpoint-interval, parameters: {{method: {}}}}}",
                     methods[rng.below(4)]);
}

LoadedScenario any_failing_scenario(Rng& rng) {
  const int tensor = 1 << rng.below(2), data = 4 << rng.below(2);
  std::vector<std::string> kinds{fmt::format("{{cause: crash, part: job, mtbf: {} ms, kill: true}}",
                                             2000 + rng.below(20'000))};
  if (rng.below(2) == 0) {
    kinds.push_back("{cause: hot, part: gpu, mtbf: 40 s, rate: 0.6, lasts: 300 ms}");
  }
  if (rng.below(2) == 0) {
    kinds.push_back("{cause: node, part: node, mtbf: 30 s, down: true, lasts: 400 ms}");
  }
  std::string policies = any_recovery(rng);
  if (rng.below(3) > 0) policies += ", " + any_interval(rng);
  return small_scenario(
      tensor, 1, data, {},
      {fmt::format("run.steps={}", 100 + rng.below(900)), "cluster.nodes=3",
       fmt::format("policies=[{}]", policies),
       fmt::format("failures={{until: 60 s, kinds: [{}]}}", fmt::join(kinds, ", ")),
       fmt::format("checkpoints={{folder: k, every: {}, stall: 20 ms, write: 40 ms}}",
                   5 + rng.below(60)),
       "survival={on_loss: hold, detection: 20 ms, restart: 300 ms, regroup: 30 ms, "
       "replacement: 100 ms}",
       fmt::format("run.seed={}", 1 + rng.below(1000))});
}

TEST(Rest, ChangesNothingOfRunsThatFailAndRecover) {
  const std::uint64_t seed = given("ORRERY_SEED", 900), runs = given("ORRERY_SEQUENCES", 100);
  for (std::uint64_t i = 0; i < runs; ++i) {
    Rng rng(seed + i);
    expect_same_run(any_failing_scenario(rng), fmt::format("ORRERY_SEED={}", seed + i));
    if (HasFailure()) return;
  }
}

std::string any_removal(Rng& rng) {
  const std::string part = rng.below(2) == 0 ? fmt::format("node: {}", rng.below(3))
                                             : fmt::format("gpu: {}", rng.below(24));
  const std::uint64_t steps = 5 + rng.below(200), away = 1 + rng.below(60);
  if (rng.below(2) == 0) {
    return fmt::format("{{at_step: {}, {}, down: true, notice_steps: {}, until_step: {}{}}}", steps,
                       part, 1 + rng.below(30), steps + away,
                       rng.below(2) == 0 ? ", test: 200 ms" : "");
  }
  return fmt::format("{{at_time: {} ms, {}, down: true, notice: {} ms, for: {} ms, test: 100 ms}}",
                     20 * steps, part, 1 + rng.below(2000), 50 * away);
}

/// A part that works at a lower rate for some time, perhaps one that the job does not use.
std::string any_slower_part(Rng& rng) {
  const char* const kinds[] = {"gpu", "node", "nic", "link", "leaf", "storage"};
  const std::uint64_t counts[] = {24, 3, 24, 24, 1, 1}, kind = rng.below(6);
  const std::uint64_t begin = 5 + rng.below(150), lasts = 1 + rng.below(80);
  const std::string what =
      fmt::format("{}: {}, rate: 0.{}", kinds[kind], rng.below(counts[kind]), 3 + rng.below(6));
  return rng.below(2) == 0
             ? fmt::format("{{at_step: {}, {}, until_step: {}}}", begin, what, begin + lasts)
             : fmt::format("{{at_time: {} ms, {}, for: {} ms}}", 97 * begin, what, 53 * lasts);
}

LoadedScenario any_planned_scenario(Rng& rng) {
  const int tensor = 1 << rng.below(2), data = 4 << rng.below(2);
  std::vector<std::string> faults;
  for (std::uint64_t i = 1 + rng.below(4); i > 0; --i) faults.push_back(any_removal(rng));
  for (std::uint64_t i = rng.below(4); i > 0; --i) faults.push_back(any_slower_part(rng));
  if (rng.below(3) == 0) faults.push_back("{at_step: 60, rank: 1, kill: true}");
  return small_scenario(tensor, 1, data, fmt::format("faults: [{}]\n", fmt::join(faults, ", ")),
                        {fmt::format("run.steps={}", 100 + rng.below(300)), "cluster.nodes=3",
                         fmt::format("policies=[{}]", any_recovery(rng)),
                         fmt::format("survival.warm={}", rng.below(5)), "survival.restart=300 ms",
                         "checkpoints={folder: k, every: 25, stall: 20 ms, write: 40 ms}",
                         fmt::format("run.seed={}", 1 + rng.below(1000))});
}

TEST(Rest, ChangesNothingOfRunsWithPlannedMovesAndSlowerParts) {
  const std::uint64_t seed = given("ORRERY_SEED", 1300), runs = given("ORRERY_SEQUENCES", 100);
  std::uint64_t decisions = 0, slower = 0;
  for (std::uint64_t i = 0; i < runs; ++i) {
    Rng rng(seed + i);
    const LoadedScenario loaded = any_planned_scenario(rng);
    for (const auto& [part, rates] : told(loaded, false).rates) {
      slower += std::ranges::count_if(rates, [](double rate) { return rate > 0 && rate < 1; });
    }
    decisions += simulate(loaded).decisions();
    expect_same_run(loaded, fmt::format("ORRERY_SEED={}", seed + i));
    if (HasFailure()) return;
  }
  EXPECT_GT(decisions, runs);
  EXPECT_GT(slower, runs / 2);
}

// ---- every policy, every fault --------------------------------------------------------------

/// The policies of `orrery list policies` that decide for one training job; the others order queues
/// of jobs (queue_policy()). At most one of each group, because two would decide about one subject.
const std::vector<std::vector<std::string>> kPolicies{
    {"{name: static}"},
    {"{name: predictive-rebalance, parameters: {tick: 5 ms}}", "{name: predictive-rebalance}"},
    {"{name: collective-table, parameters: {rules: [{kind: all-reduce, algorithm: tree}]}}",
     "{name: collective-table, parameters: {rules: [{kind: all-reduce, algorithm: ring, "
     "from_bytes: 1 MB}]}}"},
    {"{name: memory-aware}", "{name: memory-aware, parameters: {warm_up_steps: 5}}",
     "{name: fixed-codec, parameters: {rules: [{codec: int8}], warm_up_steps: 10}}"},
    {"{name: checkpoint-interval, parameters: {method: fixed, interval: 2 s}}",
     "{name: checkpoint-interval, parameters: {method: young, mtbf: 20 s, cost: 0.1 s}}",
     "{name: checkpoint-interval, parameters: {method: daly, mtbf: 30 s}}",
     "{name: checkpoint-interval, parameters: {method: adaptive, mtbf: 5 s, cost: 20 ms}}"},
    {"{name: recover, parameters: {how: restart}}", "{name: recover, parameters: {how: replace}}",
     "{name: recover, parameters: {how: shrink}}",
     "{name: cheapest-goodput, parameters: {repair: 5 s}}"}};

/// Policies of power, which are drawn from random numbers of their own.
const std::vector<std::string> kPowerPolicies{
    "{name: power-budget, parameters: {limits: [{share: 60%, from: 2 s, until: 9 s}]}}",
    "{name: power-budget, parameters: {limits: [{share: 50%, from: 1 s, until: 2 s, every: 5 s}], "
    "spend: pause}}"};

/// Policies of input, drawn likewise.
const std::vector<std::string> kInputPolicies{"{name: prefetch}",
                                              "{name: prefetch, parameters: {steps: 2, late: 1%}}"};

/// Subject of the decisions of each policy that is drawn; at most one policy of each subject is
/// drawn for a scenario.
const std::map<std::string, std::string> kSubjects{{"predictive-rebalance", "shares"},
                                                   {"collective-table", "collective_table"},
                                                   {"memory-aware", "codec_rules"},
                                                   {"fixed-codec", "codec_rules"},
                                                   {"checkpoint-interval", "checkpoint_plan"},
                                                   {"recover", "assign"},
                                                   {"cheapest-goodput", "assign"},
                                                   {"power-budget", "power_cap"},
                                                   {"prefetch", "prefetch"}};

TEST(Rest, EveryPolicyForATrainingJobIsDrawn) {
  const std::vector<std::string> of_queues = queue_policy_names();
  std::string drawn =
      fmt::format("{} {}", fmt::join(kPowerPolicies, " "), fmt::join(kInputPolicies, " "));
  for (const std::vector<std::string>& group : kPolicies) {
    drawn += fmt::format("{}", fmt::join(group, " "));
  }
  for (const std::string& name : policy_names()) {
    const bool orders_queue = std::ranges::find(of_queues, name) != of_queues.end();
    EXPECT_NE(orders_queue, drawn.find("{name: " + name) != std::string::npos) << name;
    EXPECT_NE(orders_queue || name == "static", kSubjects.contains(name)) << name;
  }
}

std::string any_policies(Rng& rng) {
  std::vector<std::string> drawn;
  for (const std::vector<std::string>& group : kPolicies) {
    if (rng.below(2) == 0) drawn.push_back(group[rng.below(group.size())]);
  }
  if (drawn.empty()) drawn.push_back(kPolicies[1][0]);
  Rng power = rng.split_stream("power");
  if (power.below(2) == 0) drawn.push_back(kPowerPolicies[power.below(kPowerPolicies.size())]);
  Rng input = rng.split_stream("input");
  if (input.below(2) == 0) drawn.push_back(kInputPolicies[input.below(kInputPolicies.size())]);
  return fmt::format("policies=[{}]", fmt::join(drawn, ", "));
}

/// A part with the effects that it can have, or a share of all parts of a kind.
std::string any_part(Rng& rng) {
  const char* const kinds[] = {"gpu",   "node", "nic",   "port",  "link",
                               "cable", "leaf", "spine", "plane", "storage"};
  const char* const shares[] = {"gpus", "nodes", "nics", "links", "leaves", "spines"};
  if (rng.below(5) == 0) {
    return fmt::format("{}: {}%, rate: {:.3f}", shares[rng.below(6)], 40 + rng.below(50),
                       0.2 + 0.7 * rng.uniform());
  }
  const std::uint64_t kind = rng.below(10);
  const std::uint64_t index = kind == 0   ? rng.below(24)
                              : kind == 1 ? rng.below(3)
                              : kind < 6  ? rng.below(8)
                                          : 0;
  const std::string part = fmt::format("{}: {}", kinds[kind], index);
  return rng.below(3) == 0 ? part + ", down: true"
                           : fmt::format("{}, rate: {:.3f}", part, 0.2 + 0.7 * rng.uniform());
}

std::string any_effect(Rng& rng, std::uint64_t ranks) {
  const std::string rank = fmt::format("rank: {}", rng.below(ranks));
  const double much = 1.05 + 2 * rng.uniform();
  switch (rng.below(12)) {
    case 0: return rank + ", kill: true";
    case 1: return rank + ", stop: true";
    case 2: return fmt::format("{}, link_slow: {:.3f}", rank, much);
    case 3: return rank + ", link_down: true";
    case 4:
      return fmt::format("{}, ramp: {{slow: {:.3f}, steps: {}}}", rank, much, 1 + rng.below(40));
    case 5:
    case 6: return fmt::format("{}, slow: {:.3f}", rank, much);
    default: return any_part(rng);
  }
}

/// A fault of any kind, at a step or within one, that ends: a link that stays cut ends the run.
std::string any_fault_at_all(Rng& rng, std::uint64_t ranks) {
  const std::uint64_t from = 3 + rng.below(120), lasts = 1 + rng.below(40);
  const std::string effect = any_effect(rng, ranks);
  const auto has = [&effect](const char* word) { return effect.find(word) != std::string::npos; };
  const bool ends = !has("kill") && !has("stop") && !has("ramp");
  if (has("ramp") || rng.below(2) == 0) {
    return fmt::format("{{at_step: {}, {}{}}}", from, effect,
                       ends ? fmt::format(", until_step: {}", from + lasts) : "");
  }
  return fmt::format("{{at_time: {} ms, {}{}}}", 97 * from, effect,
                     ends ? fmt::format(", for: {} ms", 103 * lasts) : "");
}

/// Data that the ranks read, slowly in half of the cases, so that the policies of input decide.
std::string any_input(Rng& rng, bool stored) {
  return fmt::format("job.input={{read: {} ms, workers: {}, prefetch: {}{}}}",
                     rng.below(2) == 0 ? 1 + rng.below(5) : 10 + rng.below(60), 1 + rng.below(3),
                     rng.below(5), stored ? ", stored: 4 MB" : "");
}

/// Checkpoints of a stated duration, or, with `stored`, bytes for a file system.
std::string any_checkpoints(Rng& rng, bool stored) {
  return fmt::format("checkpoints={{folder: k, every: {}, stall: 20 ms, {}}}", 5 + rng.below(60),
                     stored ? "bytes: 2 GB" : "write: 40 ms");
}

/// Failures that are drawn as time advances, beside the faults.
std::string any_failures(Rng& rng) {
  const char* const kinds[] = {
      "{cause: crash, part: job, mtbf: 40 s, kill: true}",
      "{cause: gpu, part: gpu, mtbf: 20 min, down: true, repair: {fixed: 5 s}}",
      "{cause: nic, part: nic, mtbf: 20 min, rate: 0.5, lasts: 3 s}"};
  return fmt::format("failures={{kinds: [{}], repair: 4 s}}", kinds[rng.below(3)]);
}

/// Override of a scenario: the times that detection and recovery take.
constexpr const char* kTimesOfLosses =
    "survival={on_loss: hold, detection: 20 ms, restart: 300 ms, regroup: 30 ms, replacement: 100 "
    "ms}";

/// A training with any policies under any faults, perhaps with a pipeline, input, a shared storage
/// and failures.
LoadedScenario any_scenario_at_all(Rng& rng, const std::string& policy_time) {
  const int tensor = 1 << rng.below(2), data = 4 << rng.below(2);
  Rng more = rng.split_stream("more");  // leaves the other draws as they are
  const int pipeline = tensor * data < 16 && more.below(3) == 0 ? 2 : 1;
  std::vector<std::string> faults;
  for (std::uint64_t i = rng.below(5); i > 0; --i) {
    faults.push_back(any_fault_at_all(rng, static_cast<std::uint64_t>(tensor) * data));
  }
  if (rng.below(3) == 0) faults.push_back(any_removal(rng));
  const double noise = rng.below(2) == 0 ? 0 : 0.02 * rng.uniform();
  std::vector<std::string> overrides{
      fmt::format("run.steps={}", 100 + rng.below(200)),
      "cluster.nodes=3",
      any_policies(rng),
      fmt::format("noise.sample_cv={:.4f}", noise),
      fmt::format("noise.compute_cv={:.4f}", rng.below(2) == 0 ? 0 : noise),
      fmt::format("survival.warm={}", rng.below(3)),
      kTimesOfLosses};
  const bool stored = more.below(4) == 0;
  overrides.push_back(any_checkpoints(rng, stored));
  if (stored) overrides.push_back("cluster.storage={bandwidth: 5 GB/s}");
  if (more.below(3) == 0) overrides.push_back(any_input(more, stored));
  if (more.below(4) == 0) overrides.push_back(any_failures(more));
  overrides.push_back(fmt::format("run.seed={}", 1 + rng.below(1000)));
  overrides.push_back("run.policy_time=" + policy_time);
  return small_scenario(tensor, pipeline, data,
                        fmt::format("faults: [{}]\n", fmt::join(faults, ", ")), overrides);
}

/// Both ways of a run.
struct BothWays {
  Told folded, full;
};

/// Returns the first decision that differs, in both ways; empty without one.
std::string first_difference(const Told& folded, const Told& full) {
  const auto& a = folded.decisions;
  const auto& b = full.decisions;
  const std::size_t both = std::min(a.size(), b.size());
  std::size_t i = 0;
  while (i < both && a[i] == b[i]) ++i;
  if (i == a.size() && i == b.size()) return "";
  return fmt::format("decision {}\n  folded: {}\n  in full: {}", i, i < a.size() ? a[i] : "none",
                     i < b.size() ? b[i] : "none");
}

/// Asserts that the policies of a scenario decide the same in both ways.
BothWays expect_same_decisions(const LoadedScenario& loaded, const std::string& what) {
  const BothWays ways{told(loaded, false), told(loaded, true)};
  const auto& [folded, full] = ways;
  EXPECT_EQ(first_difference(folded, full), "") << what;
  EXPECT_EQ(folded.report.steps_completed(), full.report.steps_completed()) << what;
  EXPECT_EQ(folded.report.failures_size(), full.report.failures_size()) << what;
  return ways;
}

/// Asserts the same, and that both ways take as long.
BothWays expect_same_decisions_and_time(const LoadedScenario& loaded, const std::string& what) {
  const BothWays ways = expect_same_decisions(loaded, what);
  const double full_s = ways.full.report.elapsed_s();
  EXPECT_NEAR(ways.folded.report.elapsed_s(), full_s, 1e-6 * full_s) << what;
  return ways;
}

/// Policies that take no time, or up to the time of about one step for each call.
std::string any_policy_time(std::uint64_t seed) {
  Rng rng = Rng(seed).split_stream("policy time");
  return fmt::format("{} ms", rng.below(2) == 0 ? 0 : 1 + rng.below(200));
}

/// Decisions of the drawn policies, by policy. `static` decides nothing.
struct DecisionsByPolicy {
  std::map<std::string, std::size_t> of;

  DecisionsByPolicy() {
    for (const auto& [policy, subject] : kSubjects) of[policy] = 0;
  }
  void add(const LoadedScenario& loaded, const Told& told) {
    for (const PolicySpec& policy : loaded.scenario.policies()) {
      const auto subject = kSubjects.find(policy.name());
      if (subject == kSubjects.end()) continue;
      const auto count = told.subjects.find(subject->second);
      of[policy.name()] += count == told.subjects.end() ? 0 : count->second;
    }
  }
};

TEST(Rest, ChangesNoDecisionOfAnyPolicyUnderAnyFault) {
  const std::uint64_t seed = given("ORRERY_SEED", 20'000), runs = given("ORRERY_SEQUENCES", 100);
  std::uint64_t decisions = 0;
  DecisionsByPolicy by_policy;
  for (std::uint64_t i = seed; i < seed + runs; ++i) {
    Rng rng(i);
    const std::string time = any_policy_time(i);
    const LoadedScenario loaded = any_scenario_at_all(rng, time);
    const Told full = expect_same_decisions_and_time(
                          loaded, fmt::format("ORRERY_SEED={} with run.policy_time {}", i, time))
                          .full;
    decisions += full.decisions.size();
    by_policy.add(loaded, full);
  }
  fmt::print("{} scenarios, {} decisions\n", runs, decisions);
  for (const auto& [policy, count] : by_policy.of) fmt::print("{}: {}\n", policy, count);
  if (runs < 50) return;  // a policy may have nothing to decide in a few scenarios
  EXPECT_GT(decisions, 2 * runs);
  if (runs < 100) return;
  for (const auto& [policy, count] : by_policy.of) EXPECT_GT(count, 0u) << policy;
}

/// A rank is slow within a step that begins and ends as the steps around it: the plan of
/// checkpoints follows that step, and then the next one.
TEST(Rest, ChangesNoDecisionAfterAStepThatChangedWhileItRan) {
  const LoadedScenario loaded = small_scenario(
      1, 1, 4,
      "faults: [{at_time: 3007 ms, rank: 1, stop: true}, {at_time: 9021 ms, rank: 0, slow: 3.037, "
      "for: 103 ms}]\n",
      {"run.steps=120", "cluster.nodes=3",
       "policies=[{name: checkpoint-interval, parameters: {method: fixed, interval: 2 s}}, {name: "
       "recover, parameters: {how: restart}}]",
       kTimesOfLosses, "checkpoints={folder: k, every: 44, stall: 20 ms, write: 40 ms}",
       "run.policy_time=0 ms"});
  const BothWays ways = expect_same_decisions_and_time(loaded, "a step that changed");
  EXPECT_GT(ways.full.decisions.size(), 3u);
}

/// The slower GPU of a replica of two becomes the faster one within a block.
TEST(Rest, ChangesNoDecisionIfAnotherGpuOfAReplicaBecomesTheSlowest) {
  const LoadedScenario loaded = small_scenario(
      2, 1, 8,
      "faults: [{at_step: 32, rank: 4, ramp: {slow: 1.505, steps: 4}}, "
      "{at_step: 63, rank: 3, slow: 2.304, until_step: 84}, "
      "{at_time: 6208 ms, gpus: 61%, rate: 0.312, for: 2987 ms}]\n",
      {"run.steps=130", "cluster.nodes=3",
       "policies=[{name: predictive-rebalance, parameters: {tick: 5 ms}}, {name: collective-table, "
       "parameters: {rules: [{kind: all-reduce, algorithm: ring, from_bytes: 1 MB}]}}, {name: "
       "memory-aware, parameters: {warm_up_steps: 5}}, {name: cheapest-goodput, parameters: "
       "{repair: 5 s}}, {name: power-budget, parameters: {limits: [{share: 60%, from: 2 s, until: "
       "9 s}]}}, {name: prefetch, parameters: {steps: 2, late: 1%}}]",
       "survival={on_loss: hold, warm: 1, detection: 20 ms, restart: 300 ms, regroup: 30 ms, "
       "replacement: 100 ms}",
       "checkpoints={folder: k, every: 12, stall: 20 ms, write: 40 ms}", "run.seed=938"});
  const BothWays ways = expect_same_decisions_and_time(loaded, "another GPU is the slowest");
  EXPECT_GT(ways.full.decisions.size(), 8u);
}

/// A rank that waits for data between two micro-batches has done whole micro-batches up to a
/// rounding, which differs between both ways.
TEST(Rest, ChangesNoDecisionOfRanksThatWaitBetweenMicroBatches) {
  const LoadedScenario loaded = small_scenario(
      2, 1, 4, "faults: [{at_step: 17, rank: 5, ramp: {slow: 2.087, steps: 33}}]\n",
      {"run.steps=173", "policies=[{name: predictive-rebalance}]", "noise.sample_cv=0.0166",
       "job.input={read: 5 ms, workers: 1, prefetch: 0}", "run.seed=476"});
  const BothWays ways = expect_same_decisions_and_time(loaded, "ranks wait for data");
  EXPECT_GT(ways.full.decisions.size(), 3u);
}

/// The inner replicas of a tree send and receive more gradients than the outer ones, so that their
/// activations take longer.
TEST(Rest, ChangesNoDecisionIfReplicasOfAPipelineMeetUnequalTraffic) {
  const LoadedScenario loaded = small_scenario(
      1, 2, 4, "faults: [{at_step: 20, rank: 1, slow: 1.5, until_step: 80}]\n",
      {"run.steps=120",
       "policies=[{name: predictive-rebalance, parameters: {tick: 5 ms}}, {name: collective-table, "
       "parameters: {rules: [{kind: all-reduce, algorithm: tree}]}}]",
       "noise.sample_cv=0.007", "noise.compute_cv=0.007", "run.seed=764"});
  const BothWays ways = expect_same_decisions_and_time(loaded, "unequal traffic");
  EXPECT_GT(ways.full.decisions.size(), 2u);
}

// ---- queue policies -------------------------------------------------------------------------

/// The queue policy of this number, in ascending order of names and again from the first one on, so
/// that successive numbers leave out none.
std::string queue_policy(std::uint64_t number, Rng& rng) {
  const std::vector<std::string> names = queue_policy_names();
  const std::string& name = names[number % names.size()];
  const char* const placements[] = {"count", "consolidated", "topology", "per-node"};
  // Trainings of seconds never reach the default threshold.
  const char* const more = name == "las" ? ", threshold_gpu_s: 20" : "";
  return fmt::format("{{name: {}, parameters: {{placement: {}{}}}}}", name,
                     placements[rng.below(4)], more);
}

/// A further training of 4, 8 or 16 GPUs, which the policy places unless its first GPUs are free
/// when it comes. `elastic` gives the engine room for every placement.
std::string any_further_job(Rng& rng, std::uint64_t number) {
  const int data = 4 << rng.below(3);
  const std::string place = rng.below(3) == 0 ? fmt::format("first_gpu: {}, ", rng.below(8)) : "";
  return fmt::format(
      "{{name: job-{}, submit: {} ms, {}steps: {}, elastic: true, job: {{model: {{layers: 8, "
      "hidden: 2048, heads: 16, feed_forward: 8192, vocabulary: 32000}}, sequence_length: 2048, "
      "global_batch: {}, layout: {{data: {}}}, bucket: 64 MiB}}}}",
      number, 97 * (1 + rng.below(100)), place, 20 + rng.below(150), 8 * data, data);
}

/// A fault of a part or of a rank of the first job; parts beside several jobs fail at a time.
std::string any_timed_fault(Rng& rng, std::uint64_t ranks) {
  const std::uint64_t from = 103 * (1 + rng.below(150)), lasts = 97 * (1 + rng.below(60));
  const double rate = 0.2 + 0.7 * rng.uniform();
  std::string what;
  switch (rng.below(5)) {
    case 0: return fmt::format("{{at_time: {} ms, rank: {}, kill: true}}", from, rng.below(ranks));
    case 1: what = fmt::format("gpu: {}, down: true", rng.below(24)); break;
    case 2: what = fmt::format("node: {}, rate: {:.3f}", rng.below(3), rate); break;
    case 3: what = fmt::format("nic: {}, rate: {:.3f}", rng.below(24), rate); break;
    default: what = fmt::format("gpu: {}, rate: {:.3f}", rng.below(24), rate);
  }
  return fmt::format("{{at_time: {} ms, {}, for: {} ms}}", from, what, lasts);
}

/// A training and one or two further ones under the queue policy of this number, on three nodes.
LoadedScenario any_queue_scenario(Rng& rng, std::uint64_t number) {
  const int tensor = 1 << rng.below(2), data = 4 << rng.below(2);
  std::vector<std::string> jobs, faults;
  for (std::uint64_t i = 1 + rng.below(2); i > 0; --i) jobs.push_back(any_further_job(rng, i));
  for (std::uint64_t i = rng.below(4); i > 0; --i) {
    faults.push_back(any_timed_fault(rng, static_cast<std::uint64_t>(tensor) * data));
  }
  std::vector<std::string> overrides{
      fmt::format("run.steps={}", 100 + rng.below(200)), "cluster.nodes=3", "elastic=true",
      fmt::format("policies=[{}]", queue_policy(number, rng)),
      fmt::format("jobs=[{}]", fmt::join(jobs, ", ")),
      fmt::format("survival.on_loss={}", rng.below(2) == 0 ? "go-on" : "replace"),
      fmt::format("run.seed={}", 1 + rng.below(1000))};
  if (rng.below(2) == 0) {
    overrides.push_back(
        fmt::format("checkpoints={{folder: k, every: {}, stall: 20 ms, write: 40 ms}}",
                    5 + rng.below(60)));
  }
  return small_scenario(tensor, 1, data, fmt::format("faults: [{}]\n", fmt::join(faults, ", ")),
                        overrides);
}

TEST(Rest, ChangesNoDecisionOfAnyQueuePolicyBesideATraining) {
  const std::uint64_t seed = given("ORRERY_SEED", 30'000), runs = given("ORRERY_SEQUENCES", 40);
  std::uint64_t decisions = 0;
  for (std::uint64_t i = seed; i < seed + runs; ++i) {
    Rng rng(i);
    const LoadedScenario loaded = any_queue_scenario(rng, i);
    const std::string what = fmt::format("ORRERY_SEED={}", i);
    decisions += expect_same_decisions(loaded, what).full.decisions.size();
  }
  fmt::print("{} scenarios with a queue policy, {} decisions\n", runs, decisions);
  EXPECT_GT(decisions, runs / 2);
}

/// A slower part is not a lost one: no policy that decides for a training job decides otherwise
/// because a part that the job does not use becomes slower and is well again.
TEST(Rest, ASlowerPartThatNoRankUsesChangesNoDecision) {
  const std::string losses =
      "{at_step: 20, rank: 1, kill: true}, {at_step: 60, node: 1, down: true, until_step: 90}, "
      "{at_step: 110, gpu: 2, down: true, notice_steps: 5}";
  const std::string slower =
      ", {at_step: 10, gpu: 20, rate: 0.5, until_step: 30}, "
      "{at_step: 21, node: 2, rate: 0.7, until_step: 45}, "
      "{at_step: 59, node: 3, rate: 0.4, until_step: 115}";
  const auto decided = [](const std::string& policy, const std::string& faults) {
    return told(
        small_scenario(1, 1, 16, fmt::format("faults: [{}]\n", faults),
                       {"run.steps=150", "cluster.nodes=4", fmt::format("policies=[{}]", policy),
                        "survival={on_loss: hold, detection: 20 ms, restart: 300 ms, "
                        "regroup: 30 ms, replacement: 100 ms}",
                        "checkpoints={folder: k, every: 25, stall: 20 ms, "
                        "write: 40 ms}"}),
        false);
  };
  std::size_t decisions = 0;
  for (const std::vector<std::string>& group : kPolicies) {
    for (const std::string& policy : group) {
      const std::string all = &group == &kPolicies.back() ? policy : policy + ", {name: recover}";
      const Told without = decided(all, losses);
      Told with = decided(all, losses + slower);
      EXPECT_EQ(with.report.steps_completed(), 150u) << policy;
      EXPECT_EQ(without.decisions, with.decisions) << policy;
      EXPECT_EQ(without.report.elapsed_s(), with.report.elapsed_s()) << policy;
      EXPECT_GE(with.rates["PART_NODE 2"].size(), 2u) << policy;
      EXPECT_GE(with.rates["PART_NODE 3"].size(), 2u) << policy;
      decisions += with.decisions.size();
    }
  }
  EXPECT_GT(decisions, 10u);
}

}  // namespace
}  // namespace orrery::sim
