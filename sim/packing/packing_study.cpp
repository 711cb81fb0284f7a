#include "sim/packing/packing_study.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "core/error.hpp"
#include "core/random.hpp"
#include "sim/packing/fragmentation.hpp"
#include "sim/packing/packer.hpp"

namespace orrery::sim {
namespace {

/// Order of arrival: a permutation, then random draws.
class Arrivals {
 public:
  Arrivals(const std::vector<Pod>& pods, Rng rng) : pods_(pods), rng_(rng), order_(pods.size()) {
    for (std::uint32_t i = 0; i < order_.size(); ++i) order_[i] = i;
    for (std::size_t i = order_.size(); i > 1; --i) {
      std::swap(order_[i - 1], order_[rng_.below(i)]);
    }
  }
  const Pod& next() {
    if (at_ < order_.size()) return pods_[order_[at_++]];
    return pods_[rng_.below(pods_.size())];
  }

 private:
  const std::vector<Pod>& pods_;
  Rng rng_;
  std::vector<std::uint32_t> order_;
  std::size_t at_ = 0;
};

}  // namespace

double PackingRun::at(double demand) const {
  const auto percent = static_cast<std::size_t>(std::floor(100 * demand + 1e-9));
  return allocated.at(std::min(percent, allocated.size() - 1));
}

PackingRun pack(const std::vector<Pod>& pods, const std::vector<NodeRecord>& nodes,
                const std::string& policy, double demand, std::uint64_t seed) {
  SharedCluster cluster(nodes);
  const Rng rng(seed);
  const auto packer = make_packer(policy, pods, rng.split_stream("packing"));
  Arrivals arrivals(pods, rng.split_stream("arrivals"));
  const auto all = static_cast<double>(cluster.gpu_milli());
  PackingRun run{.policy = policy, .seed = seed, .allocated = {}};
  const auto percents = static_cast<std::size_t>(std::floor(100 * demand + 1e-9));
  ensure(std::any_of(pods.begin(), pods.end(), [](const Pod& pod) { return pod.gpus > 0; }),
         "some of the pods need GPUs");
  std::uint64_t asked = 0;
  while (true) {
    const Pod& pod = arrivals.next();
    asked += pod.all_gpu_milli();
    // Records the allocated fraction at each percent that this pod exceeds.
    const double given = 1 - static_cast<double>(cluster.gpu_milli_left()) / all;
    while (run.allocated.size() <= percents &&
           100 * static_cast<double>(asked) > static_cast<double>(run.allocated.size()) * all) {
      run.allocated.push_back(given);
    }
    if (run.allocated.size() > percents) break;
    ++run.arrived;
    const std::optional<Pick> pick = packer->pick_place(pod, cluster);
    if (pick) cluster.place_pod(pod, pick->node, pick->gpus);
    run.turned_away += pick ? 0 : 1;
  }
  const TypicalPods typical(pods);
  for (const SharedCluster::Node& node : cluster.nodes()) {
    run.fragmented += typical.fragmented(node) / all;
  }
  return run;
}

}  // namespace orrery::sim
