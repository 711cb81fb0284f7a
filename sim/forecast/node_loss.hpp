// Cost of losing a node, forecast with intervals: from the instant of a forecast on, futures of a
// queue without the node are compared with the futures of the same draws with the node. Used by
// sim/forecast/twin; the twin of a run (sim/forecast/run_twin) has the intervals only. Pure
// functions; nanoseconds of the policy clock, costs in seconds or GPU-seconds.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/forecast/queue_forecast.hpp"

namespace orrery::sim {

/// Forecast of a cost: mean, median and limits of its intervals. For example, the samples 10, 20
/// and 30 have the median 20 and the limits 4 and 36 of the 80% interval.
struct CostForecast {
  double mean = 0, median = 0;
  double low80 = 0, high80 = 0, low95 = 0, high95 = 0;
};

/// Returns the forecast of a cost with these samples, in any order; zeros without samples. The
/// limits are quantiles as those of ForecastScore, which are never widened, because nobody measures
/// the cost; a limit is below 0 only if a sample is.
CostForecast forecast_cost(std::vector<double> samples);

/// Returns at most `most` nodes at equal distances among the nodes that are not lost: of six nodes
/// and `most` 4 these are 0, 1, 3 and 4.
std::vector<NodeId> nodes_to_lose(const World& world, std::uint32_t most);

/// Cost of losing one node of a cluster under one policy.
struct NodeLoss {
  std::uint64_t samples = 0;   ///< number of futures with a loss; 0: no forecast
  CostForecast wait_s, jct_s;  ///< mean wait and completion time, less those without a loss
  CostForecast lost_gpu_s;     ///< GPU-seconds that the jobs of the node have had, for nothing
};

/// Returns the cost of losing a node at the instant of `from`. Up to kLossFutures of the draws are
/// simulated under the policy of `replay`, each without one of up to kLossNodes nodes: the jobs
/// that run on it wait again and begin anew, and it is back after `away`. `calm`: the futures of
/// the same draws with the node.
NodeLoss forecast_node_loss(const QueueSnapshot& from, const std::vector<FutureDraw>& draws,
                            const PolicyFutures& calm, const JobReplay& replay,
                            const FutureOptions& options, Nanos away);
inline constexpr std::size_t kLossFutures = 12;
inline constexpr std::uint32_t kLossNodes = 4;

}  // namespace orrery::sim
