#include "sim/forecast/node_loss.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

namespace orrery::sim {
namespace {

/// Returns the value that the fraction `share` of further samples would not exceed. The ascending
/// samples divide the line into equally likely parts; beyond the outer ones they go on with the
/// mean distance of the three outermost.
double quantile_of_costs(const std::vector<double>& samples, double share) {
  const auto last = static_cast<double>(samples.size() - 1);
  const double at = share * (last + 2) - 1;
  const double inside = std::clamp(at, 0.0, last);
  const auto below = static_cast<std::size_t>(inside);
  const std::size_t above = std::min(below + 1, samples.size() - 1);
  double value =
      samples[below] + (inside - static_cast<double>(below)) * (samples[above] - samples[below]);
  if (samples.size() < 3) return value;
  const std::size_t end = samples.size() - 1;
  if (at < 0) value -= -at * (samples[2] - samples[0]) / 2;
  if (at > last) value += (at - last) * (samples[end] - samples[end - 2]) / 2;
  return samples[0] >= 0 ? std::max(value, 0.0) : value;
}

/// Futures without one node.
struct LostNode {
  QueueSnapshot from;
  std::vector<FutureDraw> draws;
  LaterChanges back;  ///< return of the node
  double lost_gpu_s = 0;
};

/// Returns the futures of the draws `first`, `first` + `step`, ... up to `count` without the node.
LostNode lose_node(const QueueSnapshot& from, NodeId node, const std::vector<FutureDraw>& draws,
                   std::size_t first, std::size_t step, std::size_t count) {
  LostNode out{.from = from.without_node(node), .draws = {}, .back = {}};
  for (std::size_t i = first; i < count; i += step) out.draws.push_back(draws[i]);
  for (std::size_t job = 0; job < from.jobs().size(); ++job) {
    if (from.jobs()[job].is_running == out.from.jobs()[job].is_running) continue;
    const Nanos served = from.jobs()[job].served;
    out.lost_gpu_s += to_seconds(served) * from.spec(job).gpus;
    for (FutureDraw& draw : out.draws) {
      if (draw.left[job] != kNever) draw.left[job] += served;
    }
  }
  return out;
}

}  // namespace

CostForecast forecast_cost(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  return {.mean = std::accumulate(samples.begin(), samples.end(), 0.0) /
                  static_cast<double>(samples.size()),
          .median = quantile_of_costs(samples, 0.5),
          .low80 = quantile_of_costs(samples, 0.1),
          .high80 = quantile_of_costs(samples, 0.9),
          .low95 = quantile_of_costs(samples, 0.025),
          .high95 = quantile_of_costs(samples, 0.975)};
}

std::vector<NodeId> nodes_to_lose(const World& world, std::uint32_t most) {
  std::vector<NodeId> present, out;
  for (std::uint32_t node = 0; node < world.cluster().nodes(); ++node) {
    if (!world.state().is_lost({PartKind::node, node})) present.push_back({node});
  }
  const std::size_t count = std::min<std::size_t>(present.size(), most);
  for (std::size_t i = 0; i < count; ++i) out.push_back(present[i * present.size() / count]);
  return out;
}

NodeLoss forecast_node_loss(const QueueSnapshot& from, const std::vector<FutureDraw>& draws,
                            const PolicyFutures& calm, const JobReplay& replay,
                            const FutureOptions& options, Nanos away) {
  const std::vector<NodeId> nodes = nodes_to_lose(from.world(), kLossNodes);
  const std::size_t count = std::min(draws.size(), kLossFutures);
  std::array<std::vector<double>, kQueueGoals> added;
  std::vector<double> lost_gpu_s;
  for (std::size_t k = 0; k < nodes.size() && k < count; ++k) {
    LostNode lost = lose_node(from, nodes[k], draws, k, nodes.size(), count);
    const PartChanged back{.part = {PartKind::node, nodes[k].value}, .to = {}};
    lost.back.parts.emplace_back(from.now() + away, back);
    const PolicyFutures futures =
        simulate_futures(lost.from, lost.draws, replay, options, lost.back);
    for (std::size_t i = 0; i < lost.draws.size(); ++i) {
      for (std::size_t goal = 0; goal < kQueueGoals; ++goal) {
        added[goal].push_back(futures.goals[goal][i] - calm.goals[goal][k + i * nodes.size()]);
      }
      lost_gpu_s.push_back(lost.lost_gpu_s);
    }
  }
  const auto cost_of = [&added](QueueGoal goal) {
    return forecast_cost(added[static_cast<std::size_t>(goal)]);
  };
  return {.samples = lost_gpu_s.size(),
          .wait_s = cost_of(QueueGoal::wait),
          .jct_s = cost_of(QueueGoal::jct),
          .lost_gpu_s = forecast_cost(lost_gpu_s)};
}

}  // namespace orrery::sim
