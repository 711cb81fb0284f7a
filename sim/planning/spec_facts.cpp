// Rules of the training spec about hardware and about recorded runs.
#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "sim/planning/plan_changes.hpp"
#include "sim/planning/spec_words.hpp"
#include "sim/planning/training_spec.hpp"

namespace orrery::sim {
namespace {

// Limits of the rules; docs/spec.md has the reason and the source of each.
constexpr double kLeastNetwork = 4e-5;  ///< bytes of the network for each operation of the GPU
constexpr double kLeastGoodput = 0.9, kMostRecovery_s = 900, kMostRepeated = 0.02;
constexpr double kMostStalled = 0.01, kMostSpread = 1.1;

SpecFinding graded_with(const char* rule, bool good, std::string expected, std::string found,
                        std::string fix) {
  SpecFinding finding = graded(rule, good, std::move(expected), std::move(found));
  if (!good) finding.fix = std::move(fix);
  return finding;
}

/// Returns the value at a share of sorted values, which must not be empty.
double at_share(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

double sum_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

SpecFinding network_rule(const Cluster& cluster, const GainOf& gain_of) {
  const Cluster::Shape& shape = cluster.shape();
  const GpuModel& gpu = cluster.gpu_model();
  const double each = shape.nic_bandwidth.value * shape.nics_per_node / shape.gpus_per_node;
  const double rate = gpu.bf16.value > 0 ? gpu.bf16.value : gpu.fp32.value;
  const std::string expected =
      fmt::format("at least {:.0f} Gbit/s of network for each GPU ({:.0e} bytes an operation)",
                  rate * kLeastNetwork * 8e-9, kLeastNetwork);
  if (cluster.nodes() == 1) return not_graded("cluster.network", expected, "one node");
  const double factor = rate * kLeastNetwork / each;
  SpecFinding finding = graded_with(
      "cluster.network", factor <= 1, expected, fmt::format("{:.0f} Gbit/s", each * 8e-9),
      fmt::format("faster or more NICs: {:.1f} times the bandwidth, also between switches",
                  factor));
  if (finding.grade != SpecGrade::fail) return finding;
  set_gain(finding, gain_of([factor](Scenario& scenario) {
             scale_network(*scenario.mutable_cluster(), factor);
           }));
  return finding;
}

SpecFinding rails_rule(const Cluster& cluster, const GainOf& gain_of) {
  const Cluster::Shape& shape = cluster.shape();
  const std::string expected = "a NIC for each GPU";
  if (cluster.nodes() == 1) return not_graded("cluster.rails", expected, "one node");
  SpecFinding finding =
      graded_with("cluster.rails", shape.nics_per_node >= shape.gpus_per_node, expected,
                  fmt::format("{} NICs for {} GPUs", shape.nics_per_node, shape.gpus_per_node),
                  "more NICs: GPUs that share one wait for each other");
  if (finding.grade != SpecGrade::fail) return finding;
  set_gain(finding, gain_of([nics = shape.gpus_per_node](Scenario& scenario) {
             scenario.mutable_cluster()->mutable_node()->set_nics_per_node(nics);
           }));
  return finding;
}

SpecFinding fabric_rule(const Cluster& cluster, const GainOf& gain_of) {
  const Cluster::Shape& shape = cluster.shape();
  const char* const rule = "cluster.fabric";
  const std::string expected = "as much bandwidth up from a leaf as its nodes send";
  if (shape.fabric != FabricKind::fat_tree || cluster.units() < 2) {
    return not_graded(rule, expected, "no links between leaves");
  }
  // A link of a spraying fabric represents all spines.
  const double up = shape.spine_link_bandwidth.value * (cluster.is_spraying() ? 1 : shape.spines);
  const double down = shape.nic_bandwidth.value * shape.nodes_per_unit;
  SpecFinding finding =
      graded_with(rule, up >= 0.999 * down, expected, fmt::format("{:.2f} of it", up / down),
                  "more spines or faster links to them");
  if (finding.grade != SpecGrade::fail) return finding;
  set_gain(finding, gain_of([factor = down / up](Scenario& scenario) {
             FabricSpec& fabric = *scenario.mutable_cluster()->mutable_fabric();
             fabric.set_spine_link_bandwidth(factor * fabric.spine_link_bandwidth());
           }));
  return finding;
}

SpecFinding price_rule(const Cluster& cluster, const GainOf&) {
  const Price& price = cluster.price();
  const bool has_price = price.per_gpu.value > 0 || price.purchase > 0;
  SpecFinding finding = graded_with(
      "cluster.price", has_price && price.carbon_g_per_kwh > 0, "a price and a carbon intensity",
      fmt::format("{}, {}", has_price ? "a price" : "no price",
                  price.carbon_g_per_kwh > 0 ? "a carbon intensity" : "no carbon intensity"),
      "those of your offer and of your grid");
  if (finding.grade == SpecGrade::fail) {
    finding.no_gain = "a price changes the cost of the run, not its time";
    if (!has_price) finding.set.emplace_back("cluster.price.gpu_hour=\"3 USD/h\"");
    if (price.carbon_g_per_kwh <= 0) finding.set.emplace_back("cluster.price.carbon=400");
  }
  return finding;
}

/// Returns the elapsed time of a recorded run, never 0.
double elapsed_of(const RunFacts& facts) { return std::max(facts.elapsed_s, 1e-9); }

SpecFinding goodput_rule(const RunFacts& facts) {
  const double useful = std::max(0.0, facts.worked_s - sum_of(facts.repeated_s));
  const double share = useful / elapsed_of(facts);
  SpecFinding finding = graded_with(
      "run.goodput", share >= kLeastGoodput,
      fmt::format("at least {} of the time in steps that count", spec_percent(kLeastGoodput)),
      spec_percent(share), "the rules that fail below say where the time went");
  if (finding.grade == SpecGrade::fail) finding.gain = 1 - share / kLeastGoodput;
  return finding;
}

SpecFinding recovery_rule(const RunFacts& facts) {
  const std::string expected = fmt::format("a median of at most {} from a loss to the next step",
                                           spec_time(kMostRecovery_s));
  if (facts.standstill_s.empty()) return not_graded("run.recovery", expected, "no losses");
  const double median = at_share(facts.standstill_s, 0.5);
  const auto count = static_cast<double>(facts.standstill_s.size());
  SpecFinding finding = graded_with("run.recovery", median <= kMostRecovery_s, expected,
                                    fmt::format("{} over {:.0f} losses", spec_time(median), count),
                                    "warm spares, and a checkpoint in memory");
  if (finding.grade == SpecGrade::fail) {
    const double saved = sum_of(facts.standstill_s) - count * kMostRecovery_s;
    finding.gain = std::max(0.0, saved / elapsed_of(facts));
  }
  return finding;
}

SpecFinding lost_work_rule(const RunFacts& facts) {
  const std::string expected =
      fmt::format("at most {} of the time repeated", spec_percent(kMostRepeated));
  if (facts.standstill_s.empty()) return not_graded("run.lost-work", expected, "no losses");
  const double share = sum_of(facts.repeated_s) / elapsed_of(facts);
  SpecFinding finding = graded_with("run.lost-work", share <= kMostRepeated, expected,
                                    spec_percent(share), "checkpoints more often");
  if (finding.grade == SpecGrade::fail) finding.gain = share - kMostRepeated;
  return finding;
}

SpecFinding saves_rule(const RunFacts& facts) {
  const std::string expected =
      fmt::format("checkpoints that are all durable and stall at most {} of the time",
                  spec_percent(kMostStalled));
  if (facts.saves == 0) return not_graded("run.checkpoints", expected, "no checkpoints");
  const double share = sum_of(facts.stalls_s) / elapsed_of(facts);
  SpecFinding finding = graded_with(
      "run.checkpoints", facts.saves_failed == 0 && share <= kMostStalled, expected,
      fmt::format("{} of {} failed, {}", facts.saves_failed, facts.saves, spec_percent(share)),
      "asynchronous checkpoints; look at the storage if some failed");
  if (finding.grade != SpecGrade::fail) return finding;
  if (share > kMostStalled) {
    finding.gain = share - kMostStalled;
  } else {
    finding.no_gain = "a failed checkpoint costs time at the next loss only";
  }
  return finding;
}

SpecFinding spread_rule(const RunFacts& facts) {
  const std::string expected =
      fmt::format("a 90th percentile of the step times of at most {} medians", kMostSpread);
  if (facts.step_s.size() < 10) return not_graded("run.spread", expected, "fewer than 10 steps");
  const double spread = at_share(facts.step_s, 0.9) / at_share(facts.step_s, 0.5);
  SpecFinding finding =
      graded_with("run.spread", spread <= kMostSpread, expected, fmt::format("{:.3f}", spread),
                  "find the slow ranks: orrery.read_log has the times of each");
  if (finding.grade != SpecGrade::fail) return finding;
  const double limit = kMostSpread * at_share(facts.step_s, 0.5);
  double above = 0;
  for (const double each : facts.step_s) above += std::max(0.0, each - limit);
  // A large group of equal steps has a part of its steps in step_s.
  finding.gain = above / sum_of(facts.step_s) * facts.worked_s / elapsed_of(facts);
  return finding;
}

}  // namespace

std::vector<SpecFinding> cluster_findings(const Cluster& cluster, const GainOf& gain_of) {
  std::vector<SpecFinding> findings;
  for (const auto rule : {network_rule, rails_rule, fabric_rule, price_rule}) {
    findings.push_back(rule(cluster, gain_of));
  }
  return findings;
}

SpecReport grade_cluster(const Cluster& cluster) {
  const auto gain_of = [](const std::function<void(Scenario&)>&) {
    return PredictedGain{.reason =
                             "a cluster alone has no training job: grade a scenario on this "
                             "cluster"};
  };
  return {.subject = "cluster", .basis = "", .findings = cluster_findings(cluster, gain_of)};
}

std::vector<SpecFinding> grade_facts(const RunFacts& facts) {
  return {goodput_rule(facts), recovery_rule(facts), lost_work_rule(facts), saves_rule(facts),
          spread_rule(facts)};
}

}  // namespace orrery::sim
