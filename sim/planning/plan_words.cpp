#include "sim/planning/plan_words.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/units.hpp"
#include "traces/scenario/failure_model.hpp"

namespace orrery::sim {
namespace {

constexpr double kSecondsOfDay = 86'400;

std::string time_of(Nanos time) { return format_quantity(to_seconds(time), Dimension::time); }

/// Assumption about a value of the scenario: its path, its words and its source.
struct Assumption {
  const char* path;
  std::string words;
  const char* source;
};

std::vector<Assumption> assumptions_of_run(const PlanBasis& basis) {
  const Survival& survival = basis.scenario.survival();
  const Checkpoints& saved = basis.scenario.checkpoints();
  const Failures& failures = basis.scenario.failures();
  const Price& price = basis.cluster.price();
  const std::string profile =
      failures.profile().empty() ? "of their own section" : "of the profile " + failures.profile();
  return {
      {"failures", "failures " + profile,
       "traces/catalog/failures.yaml names the publication; another cluster may fail half or "
       "twice as often"},
      {"failures.repair", "failed hardware returns after " + time_of(failures.repair()), "assumed"},
      {"survival.detection", "a loss is known after " + time_of(survival.detection()),
       "assumed; published values lie between 0.3 s and 13 s, docs/month.md"},
      {"survival.restart", "a restart loads the checkpoint in " + time_of(survival.restart()),
       "assumed; OLMo's recoveries have a median of 3 min 42 s, docs/month.md"},
      {"survival.regroup", "new communicators take " + time_of(survival.regroup()),
       "assumed; between 5 s and 1,047 s on 2,048 GPUs, docs/month.md"},
      {"checkpoints.stall", "a checkpoint stalls the training for " + time_of(saved.stall()),
       "assumed; between 0.5 s and 50 s on 512 H100, docs/month.md"},
      {"checkpoints.write", "and is durable " + time_of(saved.write()) + " later",
       "14 bytes a parameter over the storage rate at which 405B take 2 min, docs/month.md"},
      {"cluster.price.gpu_hour",
       price.per_gpu.value > 0
           ? fmt::format("{:.2f} USD for a GPU and hour", price.per_gpu.value * 3600)
           : std::string("no price"),
       "placeholder of topologies/catalog/presets.yaml, no offer"},
      {"cluster.price.pue",
       fmt::format("the site draws {:.2f} times the machines' power", price.pue),
       "topologies/catalog/presets.yaml"},
      {"cluster.price.carbon",
       price.carbon_g_per_kwh > 0
           ? fmt::format("{:.0f} g of carbon dioxide for a kilowatt-hour", price.carbon_g_per_kwh)
           : std::string("carbon is not computed"),
       "no figure given: set cluster.price.carbon"}};
}

bool is_given(const PlanQuestion& question, std::string_view path) {
  if (path == "failures" && !question.failures.empty()) return true;
  if (path == "cluster.price.gpu_hour" && !question.instances.empty()) return true;
  if (path == "cluster.price.carbon" && question.grid) return true;
  return std::any_of(question.overrides.begin(), question.overrides.end(),
                     [&](const std::string& each) {
                       const std::string key = each.substr(0, each.find('='));
                       return key == path || path.starts_with(key + ".");
                     });
}

std::string money(double usd) {
  if (std::abs(usd) >= 1e6) return fmt::format("{:.3f} million USD", usd / 1e6);
  return fmt::format("{:.0f} USD", usd);
}

std::string days(double seconds) { return fmt::format("{:.1f} d", seconds / kSecondsOfDay); }

bool costs_nothing(const PlanBasis& basis) {
  const Survival& survival = basis.scenario.survival();
  return survival.detection() + survival.restart() + survival.regroup() < kNanosPerSecond;
}

}  // namespace

std::vector<std::string> assumptions_of(const PlanQuestion& question, const PlanBasis& basis) {
  std::vector<std::string> all = basis.assumed;
  for (std::string& each : all) each += " (as orrery layouts assumes it)";
  for (const Assumption& each : assumptions_of_run(basis)) {
    const char* const source = is_given(question, each.path) ? "given" : each.source;
    all.push_back(fmt::format("{} ({})", each.words, source));
  }
  for (const PriceRow& each : question.instances) all.push_back(words_of(each));
  if (question.grid) all.push_back(words_of(*question.grid));
  const bool replaces = std::find(question.recoveries.begin(), question.recoveries.end(),
                                  Recovery::replace) != question.recoveries.end();
  all.emplace_back(
      "after a loss all ranks restart from the newest checkpoint, on spare nodes where hardware "
      "failed (recover: restart)");
  if (replaces) {
    all.push_back(fmt::format(
        "in rows that recover by replacing lost ranks, the training program gives replacements the "
        "state of another replica; a process on a spare node can join after {} (recover: replace; "
        "assumed)",
        time_of(basis.scenario.survival().replacement())));
  }
  all.emplace_back(
      "a step takes the time of the nodes on which the job then runs: it stays on a spare in "
      "another scalable unit, where rings share links between switches, until a later loss moves "
      "it (as recover: restart does; without contention between different exchanges)");
  all.emplace_back(
      "the error of the step price is one factor for the whole run, drawn from the interval of "
      "the prediction (docs/accuracy.md)");
  return all;
}

std::vector<std::string> warnings_of(const PlanQuestion& question, const PlanBasis& basis,
                                     const std::vector<PlannedRun>& rows) {
  std::vector<std::string> warnings;
  const PlannedRun& first = rows.front();
  const Failures& failures = basis.scenario.failures();
  if (failure_kinds(failures).empty() || failures.scale() == 0) {
    warnings.emplace_back(
        "no failures are planned: the date is that of an undisturbed run; name a profile with "
        "--failures (" +
        fmt::format("{}", fmt::join(failure_profile_names(), ", ")) + ")");
  } else if (costs_nothing(basis)) {
    warnings.emplace_back("a failure costs less than a second: set survival.restart");
  }
  const std::vector<std::string> left_out = causes_left_out(failures);
  if (!left_out.empty()) {
    warnings.push_back(
        fmt::format("failures of these causes are left out, simulate the scenario with them: {}",
                    fmt::join(left_out, ", ")));
  }
  if (first.outcome.unfinished > 0) {
    warnings.push_back(
        fmt::format("{:.0f}% of the played runs never end", 100 * first.outcome.unfinished));
  }
  if (first.layout.priced.interval.state == estimates::PredictionState::transferred) {
    warnings.push_back("no run of this software on this GPU was fitted (" +
                       first.layout.priced.interval.distance + "): the date can be far off");
  }
  if (question.budget_usd && basis.cluster.price().per_gpu.value <= 0) {
    warnings.emplace_back("a budget without a price: set cluster.price.gpu_hour");
  }
  const bool has_goals = question.deadline_s || question.budget_usd;
  if (has_goals && first.goals_met < question.confidence) {
    warnings.push_back(fmt::format("no row meets the goals with {:.0f}%: the first has {:.0f}%",
                                   100 * question.confidence, 100 * first.goals_met));
  }
  return warnings;
}

std::string comparison_of(const PlannedRun& first, const PlannedRun& second) {
  const double later = second.outcome.finish_s.p50 - first.outcome.finish_s.p50;
  std::string text =
      fmt::format("{} of {} GPUs of {} {} {} in the median case than {} of {} of {} ({})",
                  first.job_gpus, first.gpus, first.cluster, later >= 0 ? "end" : "end later, by",
                  later >= 0 ? days(later) + " earlier" : days(-later), second.job_gpus,
                  second.gpus, second.cluster, words_of(second.layout.priced.choice));
  if (first.cost_usd && second.cost_usd) {
    const double dearer = first.cost_usd->p50 - second.cost_usd->p50;
    text += fmt::format("; {} {}", money(std::abs(dearer)), dearer > 0 ? "dearer" : "cheaper");
  }
  text += fmt::format("; goodput {:.2f}% against {:.2f}%", 100 * first.outcome.goodput,
                      100 * second.outcome.goodput);
  const bool alike = first.job_gpus == second.job_gpus && first.cluster == second.cluster &&
                     first.layout.global_batch == second.layout.global_batch;
  if (alike) {
    return text +
           ". Step: " + estimates::compare_layouts(first.layout.priced, second.layout.priced);
  }
  return text + fmt::format("; {:.1f} against {:.1f} tokens/s on each GPU of the job",
                            first.layout.tokens_per_s / first.job_gpus,
                            second.layout.tokens_per_s / second.job_gpus);
}

}  // namespace orrery::sim
