#include "sim/packing/packer.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "sim/packing/fragmentation.hpp"

namespace orrery::sim {
namespace {

constexpr double kMostScore = 100;
// largest node, as published
constexpr double kLargestCpu_milli = 128'000, kLargestGpu_milli = 8'000;

bool may_have(const Pod& pod, const std::string& model) {
  return pod.models.empty() ||
         std::find(pod.models.begin(), pod.models.end(), model) != pod.models.end();
}

/// The first of the nodes with the highest score on which the pod fits.
template <class Score>
std::optional<std::uint32_t> best_node(const Pod& pod, const SharedCluster& cluster,
                                       const Score& score) {
  std::optional<std::uint32_t> best;
  int most = 0;
  for (std::uint32_t node = 0; node < cluster.nodes().size(); ++node) {
    if (!cluster.fits(pod, node)) continue;
    const int here = score(cluster.nodes()[node]);
    if (best && here <= most) continue;
    best = node;
    most = here;
  }
  return best;
}

class RandomPacker : public Packer {
 public:
  explicit RandomPacker(Rng rng) : rng_(rng) {}

  std::optional<Pick> pick_place(const Pod& pod, const SharedCluster& cluster) override {
    std::vector<std::uint32_t> fitting;
    for (std::uint32_t node = 0; node < cluster.nodes().size(); ++node) {
      if (cluster.fits(pod, node)) fitting.push_back(node);
    }
    if (fitting.empty()) return {};
    const std::uint32_t node = fitting[rng_.below(fitting.size())];
    const SharedCluster::Node& chosen = cluster.nodes()[node];
    if (pod.gpus != 1 || pod.gpu_milli == kWholeGpu) return Pick{node, tightest_gpus(pod, chosen)};
    std::vector<std::uint32_t> sufficing;
    for (std::uint32_t gpu = 0; gpu < chosen.gpu_milli.size(); ++gpu) {
      if (chosen.gpu_milli[gpu] >= pod.gpu_milli) sufficing.push_back(gpu);
    }
    return Pick{node, {sufficing[rng_.below(sufficing.size())]}};
  }

 private:
  Rng rng_;
};

class DotProductPacker : public Packer {
 public:
  std::optional<Pick> pick_place(const Pod& pod, const SharedCluster& cluster) override {
    const double cpu = static_cast<double>(pod.cpu_milli) / kLargestCpu_milli;
    const double gpu = static_cast<double>(pod.all_gpu_milli()) / kLargestGpu_milli;
    const auto node = best_node(pod, cluster, [&](const SharedCluster::Node& here) {
      const double product = cpu * static_cast<double>(here.cpu_milli) / kLargestCpu_milli +
                             gpu * static_cast<double>(here.gpu_left) / kLargestGpu_milli;
      return static_cast<int>(kMostScore * (1 - product / 2));
    });
    if (!node) return {};
    return Pick{*node, tightest_gpus(pod, cluster.nodes()[*node])};
  }
};

class BestFitPacker : public Packer {
 public:
  std::optional<Pick> pick_place(const Pod& pod, const SharedCluster& cluster) override {
    const auto node = best_node(pod, cluster, [&](const SharedCluster::Node& here) {
      const double cpu = static_cast<double>(here.cpu_milli - pod.cpu_milli);
      const double gpu = static_cast<double>(here.gpu_left - pod.all_gpu_milli());
      const double left = (cpu / kLargestCpu_milli + gpu / kLargestGpu_milli) / 2;
      return static_cast<int>(kMostScore * (1 - left));
    });
    if (!node) return {};
    return Pick{*node, tightest_gpus(pod, cluster.nodes()[*node])};
  }
};

}  // namespace

SharedCluster::SharedCluster(const std::vector<NodeRecord>& nodes) {
  for (const NodeRecord& node : nodes) {
    nodes_.push_back({.model = node.model,
                      .cpu_milli = node.cpu_milli,
                      .memory_mib = node.memory_mib,
                      .gpu_milli = std::vector<std::uint32_t>(node.gpus, kWholeGpu),
                      .gpu_left = std::uint64_t{node.gpus} * kWholeGpu});
    gpu_milli_ += nodes_.back().gpu_left;
  }
  gpu_milli_left_ = gpu_milli_;
}

bool SharedCluster::fits(const Pod& pod, std::uint32_t index) const {
  const Node& node = nodes_[index];
  if (node.cpu_milli < pod.cpu_milli || node.memory_mib < pod.memory_mib) return false;
  if (pod.gpus == 0) return true;
  if (node.gpu_left < pod.all_gpu_milli() || !may_have(pod, node.model)) return false;
  const auto sufficing =
      std::count_if(node.gpu_milli.begin(), node.gpu_milli.end(),
                    [&pod](std::uint32_t left) { return left >= pod.gpu_milli; });
  return static_cast<std::uint32_t>(sufficing) >= pod.gpus;
}

void SharedCluster::place_pod(const Pod& pod, std::uint32_t index,
                          const std::vector<std::uint32_t>& gpus) {
  Node& node = nodes_[index];
  ensure(node.cpu_milli >= pod.cpu_milli && node.memory_mib >= pod.memory_mib,
         "a pod is placed where CPU and memory suffice");
  ensure(gpus.size() == pod.gpus, "a pod is placed on as many GPUs as it asks for");
  for (const std::uint32_t gpu : gpus) {
    ensure(node.gpu_milli.at(gpu) >= pod.gpu_milli, "a GPU has what is taken from it");
    node.gpu_milli[gpu] -= pod.gpu_milli;
  }
  node.cpu_milli -= pod.cpu_milli;
  node.memory_mib -= pod.memory_mib;
  node.gpu_left -= pod.all_gpu_milli();
  gpu_milli_left_ -= pod.all_gpu_milli();
  ++node.changes;
}

std::vector<std::uint32_t> tightest_gpus(const Pod& pod, const SharedCluster::Node& node) {
  std::vector<std::uint32_t> order(node.gpu_milli.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&node](std::uint32_t a, std::uint32_t b) {
    return node.gpu_milli[a] < node.gpu_milli[b];
  });
  std::vector<std::uint32_t> gpus;
  for (const std::uint32_t gpu : order) {
    if (gpus.size() < pod.gpus && node.gpu_milli[gpu] >= pod.gpu_milli) gpus.push_back(gpu);
  }
  return gpus;
}

std::vector<std::string> packer_names() { return all_names<Packing>(); }

std::unique_ptr<Packer> make_packer(std::string_view name, const std::vector<Pod>& workload,
                                    Rng rng) {
  if (const std::optional<Packing> packing = find_named<Packing>(name)) {
    switch (*packing) {
      case Packing::random: return std::make_unique<RandomPacker>(rng);
      case Packing::dot_product: return std::make_unique<DotProductPacker>();
      case Packing::best_fit: return std::make_unique<BestFitPacker>();
      case Packing::fgd: return std::make_unique<FgdPacker>(workload);
    }
  }
  throw Error(ErrorKind::bad_input, fmt::format("there is no packing '{}'{}", name,
                                                did_you_mean(name, packer_names())));
}

}  // namespace orrery::sim
