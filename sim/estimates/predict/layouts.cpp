#include "sim/estimates/predict/layouts.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "sim/estimates/predict/fitting.hpp"
#include "traces/files/csv.hpp"

namespace orrery::estimates {
namespace {

using Status = PricedLayout::Status;
constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

void take(const Job& job, const Cluster& cluster, const LayoutBasis& basis, PricedLayout& made) {
  StepGraph graph(job);
  estimate_memory(graph, made.estimate);
  const Bytes room = cluster.gpu_model().memory, needed = made.estimate.memory.total();
  if (needed > room) {
    made.status = Status::out_of_memory;
    made.reason = fmt::format("needs {:.1f} of {:.1f} GiB", needed.value / kGiB, room.value / kGiB);
    return;
  }
  estimate_times(graph, cluster, made.estimate, basis.machine);
  made.interval = interval_of(made.estimate.step_s, job, basis.complete, cluster.gpu_model());
}

bool is_before(const PricedLayout& a, const PricedLayout& b) {
  if (a.status != b.status) return a.status < b.status;
  if (a.status == Status::ok) return a.estimate.step_s < b.estimate.step_s;
  return a.estimate.memory.total() < b.estimate.memory.total();
}

/// Part of the step time of the busiest stage.
struct StepPart {
  const char* name;
  double StepEstimate::*seconds;
};
constexpr std::array kParts = {
    StepPart{"in kernels", &StepEstimate::compute_s},
    StepPart{"in exchanges inside layers (tensor, context, expert)", &StepEstimate::inside_s},
    StepPart{"waiting for gradients and parameters", &StepEstimate::exposed_s},
    StepPart{"waiting for other pipeline stages", &StepEstimate::pipeline_s}};

/// Compares with the second layout, and with the first one that divides the GPUs otherwise.
std::string reasons(const LayoutSearch& search) {
  if (search.fitting < 2) return "";
  const PricedLayout& first = search.layouts.front();
  const std::string nearest = compare_layouts(first, search.layouts[1]);
  for (std::size_t i = 1; i < search.fitting; ++i) {
    if (divides_alike(first.choice, search.layouts[i].choice)) continue;
    return i == 1 ? nearest : nearest + ". " + compare_layouts(first, search.layouts[i]);
  }
  return nearest;
}

// ---- tables ---------------------------------------------------------------------------------

nlohmann::ordered_json json_of(const PricedLayout& each, std::size_t rank, double tokens) {
  const LayoutChoice& choice = each.choice;
  const StepEstimate& estimate = each.estimate;
  const Interval& interval = each.interval;
  nlohmann::ordered_json json = {{"rank", rank},
                                 {"tensor", choice.tensor},
                                 {"context", choice.context},
                                 {"pipeline", choice.pipeline},
                                 {"data", choice.data},
                                 {"chunks", choice.chunks},
                                 {"expert", choice.expert},
                                 {"micro_batch", choice.micro_batch},
                                 {"shard", name_of(choice.shard)},
                                 {"recompute", name_of(choice.recompute)},
                                 {"status", name_of(each.status)}};
  const bool ok = each.status == Status::ok;
  const auto put = [&](const char* key, bool known, double value) {
    json[key] = known ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
  };
  put("iter_time_s", ok, estimate.step_s);
  put("p10_s", ok, interval.p10_s);
  put("p90_s", ok, interval.p90_s);
  put("p2_5_s", ok, interval.p2_5_s);
  put("p97_5_s", ok, interval.p97_5_s);
  put("tokens_per_s", ok, ok ? tokens / estimate.step_s : 0);
  put("compute_s", ok, estimate.compute_s);
  put("inside_s", ok, estimate.inside_s);
  put("exposed_s", ok, estimate.exposed_s);
  put("pipeline_s", ok, estimate.pipeline_s);
  json["memory_bytes"] = nullptr;
  if (each.status != Status::impossible) {
    json["memory_bytes"] = static_cast<std::int64_t>(estimate.memory.total().value);
  }
  json["reason"] = each.reason;
  json["state"] = nullptr;
  if (ok) json["state"] = orrery::name_of(interval.state);
  return json;
}

std::size_t shown_of(const LayoutSearch& search, std::size_t top) {
  const std::size_t all = search.layouts.size();
  return top == 0 ? all : std::min(top, all);
}

}  // namespace

const char* name_of(Status status) {
  switch (status) {
    case Status::ok: return "ok";
    case Status::out_of_memory: return "out-of-memory";
    case Status::impossible: break;
  }
  return "impossible";
}

PricedLayout price_layout(const Job& job, const Cluster& cluster, const LayoutBasis& basis,
                          LayoutChoice choice) {
  PricedLayout made;
  made.choice = std::move(choice);
  if (!made.choice.objection.empty()) {
    made.status = Status::impossible;
    made.reason = made.choice.objection;
    return made;
  }
  try {
    take(laid_out(job, made.choice, basis.habits), cluster, basis, made);
  } catch (const Error& error) {
    made.status = Status::impossible;
    made.reason = error.message();
  }
  return made;
}

std::string compare_layouts(const PricedLayout& first, const PricedLayout& second) {
  const StepEstimate &a = first.estimate, &b = second.estimate;
  const auto saved = [&](const StepPart& part) { return b.*part.seconds - a.*part.seconds; };
  const auto [least, most] = std::minmax_element(
      kParts.begin(), kParts.end(),
      [&](const StepPart& x, const StepPart& y) { return saved(x) < saved(y); });
  const double ahead = 100 * (b.step_s / a.step_s - 1);
  std::string text = fmt::format("{:.2f}% ahead of {}", ahead, words_of(second.choice));
  const double shown = std::max(5e-5, 1e-4 * a.step_s);
  if (saved(*most) < shown) return text + "; the two are the same but for rounding";
  text += fmt::format(": {:.4g} s less {}", saved(*most), most->name);
  if (-saved(*least) >= shown) {
    text += fmt::format(", though {:.4g} s more {}", -saved(*least), least->name);
  }
  const double memory = (b.memory.total().value - a.memory.total().value) / kGiB;
  return text + fmt::format("; it needs {:.1f} GiB {} of each GPU", std::abs(memory),
                            memory >= 0 ? "less" : "more");
}

LayoutSearch search_layouts(const Job& job, const Cluster& cluster, const LayoutBasis& basis) {
  LayoutSearch search;
  search.tokens = double{1} * job.global_batch() * job.sequence_length();
  const LayoutBounds bounds{cluster.gpus(), cluster.gpus_per_domain()};
  for (LayoutChoice& choice : layout_choices(job, bounds)) {
    search.layouts.push_back(price_layout(job, cluster, basis, std::move(choice)));
  }
  std::stable_sort(search.layouts.begin(), search.layouts.end(), is_before);
  for (PricedLayout& each : search.layouts) {
    search.fitting += each.status == Status::ok;
    if (each.status != Status::out_of_memory) continue;
    each.reason += ", would fit with " + remedy(laid_out(job, each.choice, basis.habits), cluster);
  }
  search.why = reasons(search);
  return search;
}

std::string layouts_json(const LayoutSearch& search, const std::vector<std::string>& assumed,
                         std::size_t top) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < shown_of(search, top); ++i) {
    rows.push_back(json_of(search.layouts[i], i + 1, search.tokens));
  }
  const nlohmann::ordered_json whole = {{"tokens_per_step", search.tokens},
                                        {"layouts_in_all", search.layouts.size()},
                                        {"layouts_that_fit", search.fitting},
                                        {"why", search.why},
                                        {"assumed", assumed},
                                        {"layouts", std::move(rows)}};
  return whole.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string layouts_csv(const LayoutSearch& search, std::size_t top) {
  std::string out;
  for (std::size_t i = 0; i < shown_of(search, top); ++i) {
    const nlohmann::ordered_json row = json_of(search.layouts[i], i + 1, search.tokens);
    std::string header, line;
    for (const auto& [key, value] : row.items()) {
      header += (header.empty() ? "" : ",") + key;
      std::string text = value.is_null()     ? ""
                         : value.is_string() ? value.get<std::string>()
                                             : value.dump();
      if (value.is_number_float()) text = fmt::format("{:.6g}", value.get<double>());
      line += (line.empty() ? "" : ",") + csv_field(text);
    }
    if (i == 0) out += header + "\n";
    out += line + "\n";
  }
  return out;
}

}  // namespace orrery::estimates
