#include "sim/planning/training_spec.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "policies/checkpointing/interval.hpp"
#include "sim/planning/graded_run.hpp"
#include "sim/planning/plan_changes.hpp"
#include "sim/planning/spec_words.hpp"
#include "traces/workload/sharding.hpp"

namespace orrery::sim {
namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
// Limits of the rules; docs/spec.md has the reason and the source of each.
constexpr double kLayoutLoss = 0.05, kMemoryFree = 0.05, kMostBubble = 0.15, kMostExposed = 0.05;
constexpr double kMostStall = 0.01, kIntervalFactor = 2, kMostWaiting = 0.01;
constexpr double kMostRestart_s = 600, kMostDetection_s = 60, kLeastCost_s = 10;

using Change = std::function<void(Scenario&)>;

/// Adds the fix of a rule that fails, and the gain of `change`, which makes the fix.
SpecFinding fixed(SpecFinding finding, const GradedRun& run, std::string words,
                  std::vector<std::string> set, const Change& change) {
  if (finding.grade != SpecGrade::fail) return finding;
  finding.fix = std::move(words);
  finding.set = std::move(set);
  set_gain(finding, run.gain_of(change));
  return finding;
}

std::vector<std::string> layout_values(const LayoutChoice& choice) {
  std::vector<std::string> set;
  const auto add = [&](const char* key, std::uint32_t value) {
    set.push_back(fmt::format("job.layout.{}={}", key, value));
  };
  add("tensor", choice.tensor), add("context", choice.context), add("pipeline", choice.pipeline);
  add("data", choice.data), add("chunks", choice.chunks);
  if (choice.expert > 1) add("expert", choice.expert);
  set.push_back(fmt::format("job.layout.shard={}", name_of(choice.shard)));
  set.push_back(fmt::format("job.micro_batch={}", choice.micro_batch));
  set.push_back(fmt::format("job.recompute={}", name_of(choice.recompute)));
  return set;
}

// ---- configure ----------------------------------------------------------------------------------

SpecFinding layout_rule(const GradedRun& run) {
  const char* const rule = "configure.layout";
  const std::string expected = fmt::format(
      "a step at most {} longer than that of the fastest layout", spec_percent(kLayoutLoss));
  const Job& job = run.scenario().job();
  if (job.has_program() || !job.model().builtin().empty()) {
    return not_graded(rule, expected, "the job has no layouts");
  }
  const Cluster nodes = cluster_of(run.basis(), run.job_nodes());
  const estimates::LayoutSearch search = estimates::search_layouts(job, nodes);
  if (search.fitting == 0) return not_graded(rule, expected, "no layout of the search fits");
  const estimates::PricedLayout& best = search.layouts.front();
  const double longer = run.step().step_s / best.estimate.step_s - 1;
  SpecFinding finding = graded(
      rule, longer <= kLayoutLoss, expected,
      fmt::format("{} for {}, {} for {}", spec_time(run.step().step_s), words_of(choice_of(job)),
                  spec_time(best.estimate.step_s), words_of(best.choice)));
  if (finding.grade != SpecGrade::fail) return finding;
  finding.fix = words_of(best.choice);
  finding.set = layout_values(best.choice);
  set_gain(finding, run.gain_of_step(best.estimate.step_s));
  return finding;
}

SpecFinding memory_rule(const GradedRun& run) {
  const double used = run.step().memory.total().value, all = run.cluster().gpu_model().memory.value;
  const double free = 1 - used / all;
  SpecFinding finding =
      graded("configure.memory", free >= kMemoryFree,
             fmt::format("at least {} of the memory of each GPU free", spec_percent(kMemoryFree)),
             fmt::format("{:.1f} of {:.1f} GiB used by the fullest GPU", used / kGiB, all / kGiB));
  return fixed(std::move(finding), run, "recompute the inner part of attention",
               {"job.recompute=selective"},
               [](Scenario& scenario) { scenario.mutable_job()->set_recompute("selective"); });
}

SpecFinding tensor_rule(const GradedRun& run) {
  const Layout& layout = run.scenario().job().layout();
  const std::uint32_t tensor = layout.tensor();
  const std::uint32_t domain = run.cluster().gpus_per_domain();
  SpecFinding finding =
      graded("configure.tensor", tensor <= domain,
             fmt::format("a tensor group inside an NVLink domain of {} GPUs", domain),
             fmt::format("a tensor group of {}", tensor));
  if (finding.grade != SpecGrade::fail) return finding;
  if (tensor % domain != 0) {
    finding.fix = fmt::format("tensor {} and more pipeline stages", domain);
    finding.no_gain = fmt::format("a tensor group of {} has no whole number of groups of {}",
                                  tensor, domain);
    return finding;
  }
  const std::uint32_t stages = layout.pipeline() * (tensor / domain);
  return fixed(std::move(finding), run,
               fmt::format("tensor {} and {} pipeline stages", domain, stages),
               {fmt::format("job.layout.tensor={}", domain),
                fmt::format("job.layout.pipeline={}", stages)},
               [domain, stages](Scenario& scenario) {
                 Layout& changed = *scenario.mutable_job()->mutable_layout();
                 changed.set_tensor(domain);
                 changed.set_pipeline(stages);
               });
}

SpecFinding bubble_rule(const GradedRun& run) {
  const double share = run.step().pipeline_s / run.step().step_s;
  SpecFinding finding = graded("configure.bubble", share <= kMostBubble,
                               fmt::format("at most {} of the step waits for other pipeline stages",
                                           spec_percent(kMostBubble)),
                               spec_percent(share));
  const std::uint32_t chunks = 2 * std::max(1u, run.scenario().job().layout().chunks());
  return fixed(std::move(finding), run, fmt::format("{} model chunks a stage", chunks),
               {fmt::format("job.layout.chunks={}", chunks)}, [chunks](Scenario& scenario) {
                 scenario.mutable_job()->mutable_layout()->set_chunks(chunks);
               });
}

// ---- synchronise --------------------------------------------------------------------------------

SpecFinding exposed_rule(const GradedRun& run) {
  const double share = run.step().exposed_s / run.step().step_s;
  SpecFinding finding =
      graded("synchronise.overlap", share <= kMostExposed,
             fmt::format("at most {} of the step waits for gradients and parameters",
                         spec_percent(kMostExposed)),
             spec_percent(share));
  if (run.scenario().job().overlap()) {
    return fixed(std::move(finding), run,
                 "gradients overlap already: more micro-batches a step, or faster NICs (gain: "
                 "of NICs and links between switches twice as fast)",
                 {}, [](Scenario& scenario) { scale_network(*scenario.mutable_cluster(), 2); });
  }
  return fixed(std::move(finding), run, "exchange gradients beside the backward pass",
               {"job.overlap=true"},
               [](Scenario& scenario) { scenario.mutable_job()->set_overlap(true); });
}

SpecFinding shard_rule(const GradedRun& run) {
  const Layout& layout = run.scenario().job().layout();
  const char* const rule = "synchronise.shard";
  const std::string expected = "optimizer state in shares over the data-parallel ranks";
  if (layout.data() == 1) return not_graded(rule, expected, "the job has one replica");
  const Sharding shard = sharding_of(layout);
  SpecFinding finding =
      graded(rule, shard != Sharding::nothing, expected, std::string(name_of(shard)));
  return fixed(std::move(finding), run, "shard the optimizer (ZeRO-1)",
               {"job.layout.shard=optimizer"}, [](Scenario& scenario) {
                 set_sharding(*scenario.mutable_job()->mutable_layout(), Sharding::optimizer);
               });
}

// ---- checkpoint ---------------------------------------------------------------------------------

/// Returns the best interval of checkpoints, in steps, for their stall and the failure rate.
double best_interval(const GradedRun& run) {
  const double stall = std::max(1.0, to_seconds(run.run().stall)),
               step = to_seconds(run.run().step);
  return std::clamp(std::round(daly_interval(stall, run.mtbf_s()) / step), 1.0, 1e12);
}

SpecFinding checkpoint_rule(const GradedRun& run) {
  const bool has = run.scenario().has_checkpoints();
  SpecFinding finding = graded("checkpoint.written", has, "checkpoints (the key checkpoints)",
                               has ? "checkpoints" : "none: a loss of all replicas costs the run");
  const auto every = static_cast<std::uint64_t>(best_interval(run));
  return fixed(
      std::move(finding), run, fmt::format("a checkpoint every {} steps", every),
      {fmt::format("checkpoints={{folder: checkpoints, every: {}, stall: 5 s, write: 2 min}}",
                   every)},
      [every](Scenario& scenario) {
        Checkpoints& made = *scenario.mutable_checkpoints();
        made.set_folder("checkpoints");
        made.set_every(every);
        made.set_stall(5 * kNanosPerSecond);
        made.set_write(120 * kNanosPerSecond);
      });
}

SpecFinding interval_rule(const GradedRun& run) {
  const char* const rule = "checkpoint.interval";
  if (!std::isfinite(run.mtbf_s())) {
    return not_graded(rule, "an interval by Daly's formula", "no failure interrupts the job");
  }
  const double best = best_interval(run);
  const double low = std::max(1.0, std::floor(best / kIntervalFactor));
  const double high = std::ceil(best * kIntervalFactor);
  const std::string expected =
      fmt::format("a checkpoint every {:.0f} to {:.0f} steps (Daly: {:.0f}, {})", low, high, best,
                  spec_time(best * to_seconds(run.run().step)));
  if (!run.scenario().has_checkpoints()) return not_graded(rule, expected, "no checkpoints");
  const auto& policies = run.scenario().policies();
  const bool chosen = std::any_of(policies.begin(), policies.end(), [](const PolicySpec& each) {
    return each.name() == "checkpoint-interval";
  });
  if (chosen) return graded(rule, true, expected, "the policy checkpoint-interval sets it");
  const auto every = static_cast<double>(run.scenario().checkpoints().every());
  SpecFinding finding = graded(rule, every >= low && every <= high, expected,
                               fmt::format("every {:.0f} steps", every));
  const auto wanted = static_cast<std::uint64_t>(best);
  return fixed(std::move(finding), run, fmt::format("a checkpoint every {} steps", wanted),
               {fmt::format("checkpoints.every={}", wanted)}, [wanted](Scenario& scenario) {
                 scenario.mutable_checkpoints()->set_every(wanted);
               });
}

SpecFinding durable_rule(const GradedRun& run) {
  const char* const rule = "checkpoint.durable";
  const std::string expected = "each checkpoint durable before the next one begins";
  if (!run.scenario().has_checkpoints()) return not_graded(rule, expected, "no checkpoints");
  const double needs = to_seconds(run.run().stall + run.run().write);
  const double between = static_cast<double>(run.run().every) * to_seconds(run.run().step);
  SpecFinding finding =
      graded(rule, needs <= between, expected,
             fmt::format("{} to write, {} between two", spec_time(needs), spec_time(between)));
  const auto every = static_cast<std::uint64_t>(std::ceil(needs / to_seconds(run.run().step)));
  return fixed(std::move(finding), run, fmt::format("a checkpoint every {} steps", every),
               {fmt::format("checkpoints.every={}", every)}, [every](Scenario& scenario) {
                 scenario.mutable_checkpoints()->set_every(every);
               });
}

SpecFinding stall_rule(const GradedRun& run) {
  const char* const rule = "checkpoint.stall";
  const std::string expected =
      fmt::format("checkpoints stall the training for 0.1 s or more, and at most {} of the time",
                  spec_percent(kMostStall));
  if (!run.scenario().has_checkpoints()) return not_graded(rule, expected, "no checkpoints");
  const double stall = to_seconds(run.run().stall);
  const double between = static_cast<double>(run.run().every) * to_seconds(run.run().step);
  const double share = stall / (stall + between);
  SpecFinding finding = graded(rule, stall >= 0.1 && share <= kMostStall, expected,
                               fmt::format("{} each, {}", spec_time(stall), spec_percent(share)));
  if (stall < 0.1) {
    return fixed(
        std::move(finding), run,
        "write the measured stall of a checkpoint, such as 5 s: none is planned",
        {"checkpoints.stall=\"5 s\""}, [](Scenario& scenario) {
          scenario.mutable_checkpoints()->set_stall(5 * kNanosPerSecond);
        });
  }
  return fixed(std::move(finding), run, "asynchronous checkpoints that stall a tenth as long",
               {fmt::format("checkpoints.stall=\"{} s\"", stall / 10)},
               [](Scenario& scenario) {
                 Checkpoints& made = *scenario.mutable_checkpoints();
                 made.set_stall(made.stall() / 10);
               });
}

// ---- recover ------------------------------------------------------------------------------------

SpecFinding failures_rule(const GradedRun& run) {
  SpecFinding finding =
      graded("recover.planned", !run.assumes_failures(), "failures in the plan (section failures)",
             run.assumes_failures()
                 ? "none"
                 : fmt::format("a failure of the job every {}", spec_time(run.mtbf_s())));
  if (run.assumes_failures()) {
    finding.fix = "the counts of a cluster: a profile, or those of orrery fit failures";
    finding.set = {"failures={profile: llama3, repair: 6 h}"};
    finding.no_gain = "the fix changes the plan, not the run: all gains assume these failures";
  }
  return finding;
}

SpecFinding cost_rule(const GradedRun& run) {
  const Survival& survival = run.scenario().survival();
  const double cost = to_seconds(survival.detection() + survival.restart() + survival.regroup());
  const bool good = cost >= kLeastCost_s && to_seconds(survival.restart()) <= kMostRestart_s;
  SpecFinding finding = graded("recover.restart", good,
                               fmt::format("a loss that costs at least {}, and a restart within {}",
                                           spec_time(kLeastCost_s), spec_time(kMostRestart_s)),
                               fmt::format("{} to detect, {} to restart, {} to regroup",
                                           spec_time(to_seconds(survival.detection())),
                                           spec_time(to_seconds(survival.restart())),
                                           spec_time(to_seconds(survival.regroup()))));
  return fixed(
      std::move(finding), run, "the times of a restart from a checkpoint: 4 min",
      {"survival.restart=\"4 min\"", "survival.detection=\"30 s\"", "survival.regroup=\"60 s\""},
      [](Scenario& scenario) {
        Survival& to = *scenario.mutable_survival();
        to.set_restart(240 * kNanosPerSecond);
        to.set_detection(30 * kNanosPerSecond);
        to.set_regroup(60 * kNanosPerSecond);
      });
}

SpecFinding policy_rule(const GradedRun& run) {
  const auto& policies = run.scenario().policies();
  const auto found = std::find_if(policies.begin(), policies.end(), [](const PolicySpec& each) {
    return each.name() == "recover" || each.name() == "cheapest-goodput";
  });
  SpecFinding finding = graded("recover.policy", found != policies.end(),
                               "a policy that recovers (recover, cheapest-goodput)",
                               found == policies.end() ? "none" : found->name());
  if (finding.grade == SpecGrade::fail) {
    finding.fix = "restart from the newest checkpoint, on spare nodes";
    finding.no_gain =
        "without a policy the run waits for people at each loss, and the scenario does not say for "
        "how long";
    // A value of `policies` replaces all of them.
    if (policies.empty()) finding.set = {"policies=[{name: recover, parameters: {how: restart}}]"};
  }
  return finding;
}

SpecFinding spares_rule(const GradedRun& run) {
  const double waiting = run.shares().waiting;
  const std::uint32_t nodes = run.cluster().nodes();
  SpecFinding finding =
      graded("recover.spares", waiting <= kMostWaiting,
             fmt::format("at most {} of the time waits for hardware", spec_percent(kMostWaiting)),
             fmt::format("{} with {} spare nodes", spec_percent(waiting), nodes - run.job_nodes()));
  return fixed(std::move(finding), run, "one more node",
               {fmt::format("cluster.nodes={}", nodes + 1)},
               [nodes](Scenario& scenario) { scenario.mutable_cluster()->set_nodes(nodes + 1); });
}

// ---- monitor ------------------------------------------------------------------------------------

SpecFinding detection_rule(const GradedRun& run) {
  const Survival& survival = run.scenario().survival();
  const double detection = to_seconds(survival.detection());
  const double heartbeat = to_seconds(survival.heartbeat_timeout());
  SpecFinding finding =
      graded("monitor.detection", std::max(detection, heartbeat) <= kMostDetection_s,
             fmt::format("a lost rank known within {}", spec_time(kMostDetection_s)),
             fmt::format("{} in the simulator, heartbeats of {} live", spec_time(detection),
                         spec_time(heartbeat)));
  return fixed(std::move(finding), run, "heartbeats of 30 s",
               {"survival.detection=\"30 s\"", "survival.heartbeat_timeout=\"30 s\""},
               [](Scenario& scenario) {
                 scenario.mutable_survival()->set_detection(30 * kNanosPerSecond);
                 scenario.mutable_survival()->set_heartbeat_timeout(30 * kNanosPerSecond);
               });
}

SpecFinding slow_rule(const GradedRun& run) {
  constexpr std::array<std::string_view, 2> kWatch{"predictive-rebalance", "cheapest-goodput"};
  const auto& policies = run.scenario().policies();
  const auto found = std::find_if(policies.begin(), policies.end(), [&](const PolicySpec& each) {
    return std::find(kWatch.begin(), kWatch.end(), each.name()) != kWatch.end();
  });
  SpecFinding finding = graded("monitor.slow-ranks", found != policies.end(),
                               "a policy that reads the times of ranks and answers a slow one",
                               found == policies.end() ? "none" : found->name());
  if (finding.grade == SpecGrade::fail) {
    finding.fix = "predictive-rebalance beside the other policies";
    finding.no_gain = "the runs that are played for gains have no slow ranks";
    if (policies.empty()) finding.set = {"policies=[{name: predictive-rebalance}]"};
  }
  return finding;
}

SpecFinding metrics_rule(const GradedRun& run) {
  const std::string& where = run.scenario().live().metrics();
  SpecFinding finding = graded("monitor.metrics", !where.empty(),
                               "metrics of the run for a monitoring system (live.metrics)",
                               where.empty() ? "none" : where);
  if (finding.grade == SpecGrade::fail) {
    finding.fix = "a file for node_exporter's textfile collector";
    finding.no_gain = "metrics show the run and do not change it";
    finding.set = {"live.metrics=orrery.prom"};
  }
  return finding;
}

}  // namespace

std::size_t SpecReport::count_of(SpecGrade grade) const {
  return static_cast<std::size_t>(std::count_if(
      findings.begin(), findings.end(), [&](const auto& each) { return each.grade == grade; }));
}

SpecReport grade_scenario(const Scenario& scenario) {
  if (!scenario.has_job()) {
    throw Error(ErrorKind::bad_input,
                "expected a scenario with a training job (key 'job'), found none: the training "
                "spec has no rules for other work");
  }
  const GradedRun run(scenario);
  SpecReport report{.subject = "scenario", .basis = "", .findings = {}};
  report.basis = run.assumes_failures()
                     ? "failures are assumed: the counts of Llama 3, hardware back after 6 h"
                     : "the failures of the scenario";
  for (const auto rule :
       {layout_rule, memory_rule, tensor_rule, bubble_rule, exposed_rule, shard_rule,
        checkpoint_rule, interval_rule, durable_rule, stall_rule, failures_rule, cost_rule,
        policy_rule, spares_rule, detection_rule, slow_rule, metrics_rule}) {
    report.findings.push_back(rule(run));
  }
  const auto gain_of = [&run](const Change& change) { return run.gain_of(change); };
  for (SpecFinding& each : cluster_findings(run.cluster(), gain_of)) {
    report.findings.push_back(std::move(each));
  }
  return report;
}

}  // namespace orrery::sim
