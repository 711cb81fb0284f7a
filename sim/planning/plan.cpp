#include "sim/planning/plan.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.hpp"
#include "sim/planning/plan_changes.hpp"
#include "sim/planning/plan_words.hpp"
#include "sim/planning/simulated_step.hpp"
#include "topologies/builder.hpp"

namespace orrery::sim {
namespace {

/// Seeds of the first look at all candidates of a size, rows that are played with all seeds, and
/// rows of a plan.
constexpr std::size_t kFirstLook = 40, kPlayed = 8, kRows = 40;
/// First rows whose step is simulated.
constexpr std::size_t kSimulated = 4;

void check_whole_question(const PlanQuestion& question) {
  std::vector<std::string> missing;
  if (question.job.model.empty()) missing.emplace_back("a model");
  if (question.clusters.empty()) missing.emplace_back("a cluster");
  if (question.gpus.empty()) missing.emplace_back("a number of GPUs");
  if (question.tokens <= 0) missing.emplace_back("a number of tokens");
  if (missing.empty()) return;
  std::string words = missing.back();
  missing.pop_back();
  if (!missing.empty()) words = fmt::format("{} and {}", fmt::join(missing, ", "), words);
  throw Error(ErrorKind::bad_input, "plan: expected " + words);
}

/// Returns the numbers of GPUs in whole nodes of the cluster, each once, and adds a sentence for
/// each number that is rounded down.
std::vector<std::uint32_t> whole_nodes(const PlanQuestion& question, const std::string& cluster,
                                       std::vector<std::string>& rounded) {
  Topology one = asked_cluster(cluster);
  one.set_nodes(1);
  resolve(one, {}, "");
  const std::uint32_t each = one.node().gpus_per_node();
  std::vector<std::uint32_t> sizes;
  for (const std::uint32_t gpus : question.gpus) {
    const std::uint32_t whole = gpus / each * each;
    if (whole == 0) {
      throw Error(ErrorKind::bad_input,
                  fmt::format("plan: {} GPUs are fewer than a node of {}, which has {}", gpus,
                              cluster, each));
    }
    if (whole != gpus) {
      rounded.push_back(fmt::format("{} GPUs are {} in whole nodes of {}", gpus, whole, cluster));
    }
    if (std::find(sizes.begin(), sizes.end(), whole) == sizes.end()) sizes.push_back(whole);
  }
  return sizes;
}

/// Returns the fixed interval of checkpoints if the user has set it.
std::optional<std::uint64_t> fixed_interval(const PlanQuestion& question, const PlanBasis& basis) {
  for (const std::string& each : question.overrides) {
    if (each.starts_with("checkpoints.every=")) {
      return basis.scenario.checkpoints().every();
    }
  }
  return {};
}

/// Removes all but the candidates whose runs end first, by a few seeds.
void keep_first(std::vector<std::pair<double, Candidate>>& by_date) {
  std::stable_sort(by_date.begin(), by_date.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  if (by_date.size() > kPlayed) by_date.resize(kPlayed);
}

Scenario scenario_of_row(const PlanBasis& basis, const PlannedRun& row) {
  Scenario scenario = basis.scenario;
  scenario.set_name("plan");
  scenario.set_description(fmt::format("{} of {} GPUs of {}: {}", row.job_gpus, row.gpus,
                                       row.cluster, words_of(row.layout.priced.choice)));
  *scenario.mutable_job() = job_of(basis, row.layout);
  scenario.mutable_checkpoints()->set_every(row.run.every);
  if (row.run.recovery != Recovery::restart) set_recovery(row.run.recovery, scenario);
  scenario.mutable_run()->set_steps(row.run.steps);
  return scenario;
}

/// Basis of all rows of one cluster and size, and the failures that they meet.
struct Ground {
  Ground(PlanBasis of, std::uint32_t seeds) : basis(std::move(of)), weather(basis, seeds) {}
  Ground(const Ground&) = delete;  // the failures refer to the basis
  Ground& operator=(const Ground&) = delete;

  const PlanBasis basis;
  Weather weather;
};

/// Returns the candidates whose runs end first, by a few seeds, the first one first.
std::vector<Candidate> first_candidates(const PlanQuestion& question, Ground& ground) {
  std::vector<std::pair<double, Candidate>> by_date;
  for (Candidate& each : find_candidates(ground.basis, question.batch_change)) {
    const LongRun run = long_run_of(ground.basis, each, fixed_interval(question, ground.basis));
    by_date.emplace_back(failures_only(run, ground.weather, kFirstLook).p50, std::move(each));
  }
  keep_first(by_date);
  std::vector<Candidate> first;
  for (auto& [date, each] : by_date) first.push_back(std::move(each));
  return first;
}

class Planner {
 public:
  explicit Planner(const PlanQuestion& question) : question_(question) {}
  Plan make();

 private:
  Ground& ground_of(const std::string& cluster, std::uint32_t gpus);
  void add_rows(Ground& ground);
  void play(Ground& ground, PlannedRun& row) const;
  PlannedRun row_of(Ground& ground, Candidate candidate) const;
  void simulate_steps();
  void explain();

  const PlanQuestion& question_;
  std::map<std::pair<std::string, std::uint32_t>, std::unique_ptr<Ground>> grounds_;
  Plan plan_;
};

Ground& Planner::ground_of(const std::string& cluster, std::uint32_t gpus) {
  std::unique_ptr<Ground>& ground = grounds_[{cluster, gpus}];
  if (!ground) {
    ground = std::make_unique<Ground>(basis_of(question_, cluster, gpus), question_.seeds);
  }
  return *ground;
}

/// Plays the row with its step and writes all that follows from the course of the run.
void Planner::play(Ground& ground, PlannedRun& row) const {
  row.run.step = to_nanos(row.layout.priced.estimate.step_s * row.contention);
  row.outcome = play_seeds(row.run, row.layout.priced.interval, ground.weather);
  price_row(question_, ground.basis.cluster, row);
}

PlannedRun Planner::row_of(Ground& ground, Candidate candidate) const {
  const Cluster& cluster = ground.basis.cluster;
  PlannedRun row;
  row.cluster = ground.basis.name;
  row.gpus = cluster.gpus();
  row.job_gpus = candidate.job_nodes * cluster.shape().gpus_per_node;
  row.spare_nodes = cluster.nodes() - candidate.job_nodes;
  const auto every = fixed_interval(question_, ground.basis);
  row.run = long_run_of(ground.basis, candidate, every);
  const Slowdown slowdown = row.run.slowdown;
  row.policies =
      choose_policies(question_, ground.basis, candidate, every, slowdown, ground.weather);
  candidate.policies = row.policies.policies;
  row.run = long_run_of(ground.basis, candidate, every, &slowdown);
  row.memory_bytes = candidate.priced.estimate.memory.total().value;
  row.gpu_memory_bytes = cluster.gpu_model().memory.value;
  row.layout = std::move(candidate);
  play(ground, row);
  row.scenario = scenario_of_row(ground.basis, row);
  return row;
}

void Planner::add_rows(Ground& ground) {
  const auto known =
      std::find_if(question_.found.begin(), question_.found.end(), [&](const FoundLayouts& each) {
        return each.cluster == ground.basis.name && each.gpus == ground.basis.cluster.gpus();
      });
  std::vector<Candidate> candidates = known != question_.found.end()
                                          ? priced_again(ground.basis, *known)
                                          : first_candidates(question_, ground);
  for (Candidate& each : candidates) plan_.rows.push_back(row_of(ground, std::move(each)));
}

void rank_rows(const PlanQuestion& question, std::vector<PlannedRun>& rows) {
  const bool has_goals = question.deadline_s || question.budget_usd;
  const auto meets = [&](const PlannedRun& row) {
    return has_goals && row.goals_met >= question.confidence;
  };
  const auto cost = [](const PlannedRun& row) { return row.cost_usd ? row.cost_usd->p50 : 0; };
  std::stable_sort(rows.begin(), rows.end(), [&](const PlannedRun& a, const PlannedRun& b) {
    if (meets(a) != meets(b)) return meets(a);
    if (meets(a) && question.deadline_s && cost(a) != cost(b)) return cost(a) < cost(b);
    if (!meets(a) && has_goals && a.goals_met != b.goals_met) return a.goals_met > b.goals_met;
    return a.outcome.finish_s.p50 < b.outcome.finish_s.p50;
  });
  if (rows.size() > kRows) rows.resize(kRows);
}

std::string order_of(const PlanQuestion& question) {
  if (!question.deadline_s && !question.budget_usd) return "by the median date";
  return fmt::format("rows that meet {} with {:.0f}% first, {}; then the others by probability",
                     !question.budget_usd   ? "the deadline"
                     : !question.deadline_s ? "the budget"
                                            : "deadline and budget",
                     100 * question.confidence,
                     question.deadline_s ? "the cheapest first" : "the earliest first");
}

/// Simulates the step of the first rows, in which flows share links, and plays them again.
void Planner::simulate_steps() {
  const std::size_t count = std::min(kSimulated, plan_.rows.size());
  for (std::size_t i = 0; i < count; ++i) {
    PlannedRun& row = plan_.rows[i];
    row.contention = simulated_step(row.scenario) / row.layout.priced.estimate.step_s;
    play(ground_of(row.cluster, row.gpus), row);
  }
  std::vector<PlannedRun> first(std::make_move_iterator(plan_.rows.begin()),
                                std::make_move_iterator(plan_.rows.begin() + count));
  rank_rows(question_, first);
  std::move(first.begin(), first.end(), plan_.rows.begin());
}

/// Compares the first row with the second, and with the first one of other numbers of GPUs.
std::string reasons_of(const std::vector<PlannedRun>& rows) {
  if (rows.size() < 2) return "";
  const PlannedRun& first = rows.front();
  std::string text = comparison_of(first, rows[1]);
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const bool alike = rows[i].job_gpus == first.job_gpus && rows[i].gpus == first.gpus &&
                       rows[i].cluster == first.cluster;
    if (alike) continue;
    return i == 1 ? text : text + ". " + comparison_of(first, rows[i]);
  }
  return text;
}

void Planner::explain() {
  const PlannedRun& best = plan_.rows.front();
  const PlanBasis& basis = ground_of(best.cluster, best.gpus).basis;
  for (std::string& each : assumptions_of(question_, basis)) {
    plan_.assumed.push_back(std::move(each));
  }
  plan_.warnings = warnings_of(question_, basis, plan_.rows);
  plan_.distance = best.layout.priced.interval.distance;
  plan_.state = name_of(best.layout.priced.interval.state);
  plan_.why = reasons_of(plan_.rows);
  plan_.why += (plan_.why.empty() ? "" : ". ") + std::string("Policies: ") + best.policies.why;
  plan_.changes = changes_of(basis, best);
  if (question_.measured.empty()) return;
  plan_.nearest = nearest_run(question_.measured, best.scenario.job(), basis.cluster);
}

Plan Planner::make() {
  plan_.order = order_of(question_);
  for (const std::string& cluster : question_.clusters) {
    for (const std::uint32_t gpus : whole_nodes(question_, cluster, plan_.assumed)) {
      add_rows(ground_of(cluster, gpus));
    }
  }
  rank_rows(question_, plan_.rows);
  if (plan_.rows.empty()) {
    plan_.why = "no layout fits on any of these GPUs";
    return std::move(plan_);
  }
  if (question_.simulates_steps) simulate_steps();
  explain();
  return std::move(plan_);
}

}  // namespace

Plan make_plan(const PlanQuestion& question) {
  check_whole_question(question);
  return Planner(question).make();
}

std::vector<std::pair<std::string, std::uint32_t>> plan_tasks(const PlanQuestion& question) {
  check_whole_question(question);
  std::vector<std::pair<std::string, std::uint32_t>> tasks;
  std::vector<std::string> rounded;
  for (const std::string& cluster : question.clusters) {
    for (const std::uint32_t gpus : whole_nodes(question, cluster, rounded)) {
      tasks.emplace_back(cluster, gpus);
    }
  }
  return tasks;
}

FoundLayouts find_layouts(const PlanQuestion& question, const std::string& cluster,
                          std::uint32_t gpus) {
  Ground ground(basis_of(question, cluster, gpus), question.seeds);
  FoundLayouts found{cluster, gpus, {}};
  for (Candidate& each : first_candidates(question, ground)) {
    found.layouts.push_back({each.job_nodes, each.global_batch, std::move(each.priced.choice)});
  }
  return found;
}

}  // namespace orrery::sim
