#include "sim/planning/plan_tables.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "traces/files/csv.hpp"

namespace orrery::sim {
namespace {

using Json = nlohmann::ordered_json;

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(); }
Json number(const std::optional<double>& value) { return value ? number(*value) : Json(); }

Json json_of(const Quantiles& of) {
  return {{"p10", number(of.p10)}, {"p50", number(of.p50)}, {"p90", number(of.p90)}};
}

Json layout_json(const LayoutChoice& choice) {
  return {{"tensor", choice.tensor},
          {"context", choice.context},
          {"pipeline", choice.pipeline},
          {"data", choice.data},
          {"chunks", choice.chunks},
          {"expert", choice.expert},
          {"micro_batch", choice.micro_batch},
          {"shard", name_of(choice.shard)},
          {"recompute", name_of(choice.recompute)}};
}

Json step_json(const estimates::StepEstimate& step) {
  return {{"compute_s", step.compute_s},
          {"inside_s", step.inside_s},
          {"exposed_s", step.exposed_s},
          {"pipeline_s", step.pipeline_s}};
}

Json run_json(const PlannedRun& row) {
  const TimeShares& shares = row.outcome.shares;
  const double lost = shares.checkpoints + shares.lost_work + shares.detection + shares.recovery +
                      shares.waiting + shares.displaced;
  return {{"steps", 1 - lost},
          {"checkpoints", shares.checkpoints},
          {"lost_work", shares.lost_work},
          {"detection", shares.detection},
          {"recovery", shares.recovery},
          {"waiting", shares.waiting},
          {"displaced", shares.displaced}};
}

Json changes_json(const Plan& plan) {
  Json all = Json::array();
  for (const PlanChange& each : plan.changes) {
    all.push_back({{"change", each.change},
                   {"saved_s", number(each.saved_s)},
                   {"saved_usd", number(each.saved_usd)}});
  }
  return all;
}

Json nearest_json(const std::optional<NearestRun>& nearest) {
  if (!nearest) return {};
  return {{"id", nearest->id},
          {"model", nearest->model},
          {"gpu", nearest->gpu},
          {"stack", nearest->stack},
          {"gpus", nearest->gpus},
          {"distance", nearest->distance},
          {"differences", nearest->differences},
          {"measured_s", nearest->measured_s},
          {"predicted_s", nearest->predicted_s}};
}

std::size_t shown_of(const Plan& plan, std::size_t top) {
  return top == 0 ? plan.rows.size() : std::min(top, plan.rows.size());
}

/// Writes the values of a row as cells, nested keys joined by "_".
void add_cells(const Json& of, const std::string& prefix, std::string& header, std::string& line) {
  for (const auto& [key, value] : of.items()) {
    const std::string name = prefix.empty() ? key : prefix + "_" + key;
    if (value.is_object()) {
      add_cells(value, name, header, line);
      continue;
    }
    std::string text = value.is_null()           ? ""
                       : value.is_string()       ? value.get<std::string>()
                       : value.is_number_float() ? fmt::format("{:.6g}", value.get<double>())
                                                 : value.dump();
    header += (header.empty() ? "" : ",") + name;
    line += (line.empty() ? "" : ",") + csv_field(text);
  }
}

}  // namespace

nlohmann::ordered_json row_json(const PlannedRun& row, std::size_t rank) {
  const estimates::PricedLayout& priced = row.layout.priced;
  const double step = priced.estimate.step_s;
  return {{"rank", rank},
          {"cluster", row.cluster},
          {"gpus", row.gpus},
          {"job_gpus", row.job_gpus},
          {"layout", layout_json(priced.choice)},
          {"policies",
           {{"recovery", name_of(row.run.recovery)},
            {"spare_nodes", row.spare_nodes},
            {"checkpoint_every_steps", row.run.every},
            {"checkpoint_every_s", static_cast<double>(row.run.every) * step},
            {"sets_played", row.policies.tried.size()},
            {"gain_s", number(row.policies.gain_s)},
            {"why", row.policies.why}}},
          {"global_batch", row.layout.global_batch},
          {"steps", row.run.steps},
          {"step_time_s", step},
          {"simulated_step_s", row.contention == 1 ? Json() : Json(step * row.contention)},
          {"step_interval_s",
           {{"p2_5", priced.interval.p2_5_s},
            {"p10", priced.interval.p10_s},
            {"p90", priced.interval.p90_s},
            {"p97_5", priced.interval.p97_5_s}}},
          {"step_parts_s", step_json(priced.estimate)},
          {"state", name_of(priced.interval.state)},
          {"tokens_per_s", row.layout.tokens_per_s},
          {"memory_bytes", row.memory_bytes},
          {"memory_headroom_bytes", row.gpu_memory_bytes - row.memory_bytes},
          {"goodput", number(row.outcome.goodput)},
          {"failures", row.outcome.failures},
          {"time_shares", run_json(row)},
          {"finish_s", json_of(row.outcome.finish_s)},
          {"finish_failures_only_s", json_of(row.outcome.failures_only_s)},
          {"unfinished", row.outcome.unfinished},
          {"cost_usd", row.cost_usd ? number(row.cost_usd->p50) : Json()},
          {"cost_interval_usd", row.cost_usd ? json_of(*row.cost_usd) : Json()},
          {"energy_j", number(row.energy_j)},
          {"carbon_kg", number(row.carbon_kg)},
          {"deadline_met", number(row.deadline_met)},
          {"within_budget", number(row.within_budget)}};
}

nlohmann::ordered_json plan_json(const PlanQuestion& question, const Plan& plan, std::size_t top) {
  Json rows = Json::array();
  for (std::size_t i = 0; i < shown_of(plan, top); ++i) {
    rows.push_back(row_json(plan.rows[i], i + 1));
  }
  return {{"model", question.job.model},
          {"tokens", question.tokens},
          {"deadline_s", number(question.deadline_s)},
          {"budget_usd", number(question.budget_usd)},
          {"confidence", question.confidence},
          {"seeds", question.seeds},
          {"candidates", std::move(rows)},
          {"order", plan.order},
          {"why", plan.why},
          {"changes", changes_json(plan)},
          {"basis",
           plan.rows.empty() ? Json() : Json{{"distance", plan.distance}, {"state", plan.state}}},
          {"nearest_measured", nearest_json(plan.nearest)},
          {"assumed", plan.assumed},
          {"warnings", plan.warnings}};
}

std::string plan_csv(const PlanQuestion& question, const Plan& plan, std::size_t top) {
  const Json whole = plan_json(question, plan, top);
  std::string out;
  for (const Json& row : whole["candidates"]) {
    Json cells = row;
    cells["cost_interval_usd"] = row["cost_interval_usd"].is_null()
                                     ? json_of(Quantiles{NAN, NAN, NAN})
                                     : row["cost_interval_usd"];
    std::string header, line;
    add_cells(cells, "", header, line);
    if (out.empty()) out = header + "\n";
    out += line + "\n";
  }
  return out;
}

}  // namespace orrery::sim
