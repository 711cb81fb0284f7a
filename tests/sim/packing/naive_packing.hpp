// Packing by its definitions alone: every node, every GPU and every pod of the workload is looked
// at for every pod that comes; nothing is kept.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/packing/packer.hpp"

namespace orrery::sim {

/// Packing by definition, for comparison with the real packers.
struct NaivePacking {
  using Node = SharedCluster::Node;
  std::string policy;
  std::vector<Pod> workload;

  static std::int64_t sum(const std::vector<std::uint32_t>& gpus) {
    std::int64_t all = 0;
    for (const std::uint32_t left : gpus) all += left;
    return all;
  }
  static bool kind(const Pod& pod, const Node& node) {
    return pod.models.empty() ||
           std::count(pod.models.begin(), pod.models.end(), node.model) > 0;
  }
  static bool enough_gpus(const Pod& pod, const Node& node) {
    std::uint32_t found = 0;
    for (const std::uint32_t left : node.gpu_milli) found += left >= pod.gpu_milli ? 1 : 0;
    return found >= pod.gpus;
  }
  static bool fits(const Pod& pod, const Node& node) {
    return pod.cpu_milli <= node.cpu_milli && pod.memory_mib <= node.memory_mib &&
           (pod.gpus == 0 || (kind(pod, node) && enough_gpus(pod, node)));
  }
  /// Requests by how often, the most frequent ones, until 95% of the pods are among them.
  std::vector<std::pair<Pod, double>> typical() const {
    std::vector<std::pair<Pod, double>> kinds;
    for (const Pod& pod : workload) {
      const auto same = std::find_if(kinds.begin(), kinds.end(), [&pod](const auto& known) {
        return known.first.cpu_milli == pod.cpu_milli && known.first.gpus == pod.gpus &&
               known.first.gpu_milli == pod.gpu_milli && known.first.models == pod.models;
      });
      if (same == kinds.end()) {
        kinds.emplace_back(pod, 1);
      } else {
        same->second += 1;
      }
    }
    std::sort(kinds.begin(), kinds.end(), [](const auto& a, const auto& b) {
      const auto key = [](const auto& one) {
        return std::tuple(one.second, one.first.cpu_milli, one.first.gpu_milli, one.first.gpus,
                          one.first.models);
      };
      return key(a) > key(b);
    });
    double taken = 0;
    std::vector<std::pair<Pod, double>> out;
    for (const auto& each : kinds) {
      if (taken >= 0.95 * double(workload.size())) break;
      taken += each.second;
      out.push_back(each);
    }
    for (auto& each : out) each.second /= taken;
    return out;
  }
  double fragmented(const Node& node) const {
    double all = 0;
    for (const auto& [pod, share] : typical()) {
      const bool usable = pod.gpus > 0 && kind(pod, node) && enough_gpus(pod, node) &&
                          pod.cpu_milli <= node.cpu_milli;
      for (const std::uint32_t left : node.gpu_milli) {
        if (!usable || left < pod.gpu_milli) all += share * left;
      }
    }
    return all;
  }
  static Node with(const Pod& pod, Node node, const std::vector<std::uint32_t>& gpus) {
    node.cpu_milli -= pod.cpu_milli;
    for (const std::uint32_t gpu : gpus) node.gpu_milli[gpu] -= pod.gpu_milli;
    return node;
  }
  /// The GPUs with the least left first.
  static std::vector<std::uint32_t> tightest(const Pod& pod, const Node& node) {
    std::vector<std::uint32_t> out;
    while (out.size() < pod.gpus) {
      int best = -1;
      for (std::uint32_t gpu = 0; gpu < node.gpu_milli.size(); ++gpu) {
        const bool taken = std::count(out.begin(), out.end(), gpu) > 0;
        if (taken || node.gpu_milli[gpu] < pod.gpu_milli) continue;
        if (best < 0 || node.gpu_milli[gpu] < node.gpu_milli[std::uint32_t(best)]) best = int(gpu);
      }
      out.push_back(std::uint32_t(best));
    }
    return out;
  }
  int score(const Pod& pod, const Node& node, const std::vector<std::uint32_t>& gpus) const {
    const double cpu = double(node.cpu_milli), gpu = double(sum(node.gpu_milli));
    const double asked_cpu = double(pod.cpu_milli), asked_gpu = double(pod.all_gpu_milli());
    if (policy == "dot-product") {
      const double product =
          asked_cpu / 128000 * cpu / 128000 + asked_gpu / 8000 * gpu / 8000;
      return int(100 * (1 - product / 2));
    }
    if (policy == "best-fit") {
      return int(100 * (1 - ((cpu - asked_cpu) / 128000 + (gpu - asked_gpu) / 8000) / 2));
    }
    const double more =  // compared to a millionth: the sums are rounded
        std::round((fragmented(with(pod, node, gpus)) - fragmented(node)) * 1e6) / 1e6;
    return int(100 / (1 + std::exp(more / 1000)));
  }
  std::optional<Pick> pick_place(const Pod& pod, const std::vector<Node>& nodes) const {
    std::optional<Pick> best;
    int most = -1;
    for (std::uint32_t n = 0; n < nodes.size(); ++n) {
      if (!fits(pod, nodes[n])) continue;
      std::vector<std::vector<std::uint32_t>> ways{tightest(pod, nodes[n])};
      if (policy == "fgd" && pod.gpus == 1 && pod.gpu_milli < 1000) {
        ways.clear();
        for (std::uint32_t gpu = 0; gpu < nodes[n].gpu_milli.size(); ++gpu) {
          if (nodes[n].gpu_milli[gpu] >= pod.gpu_milli) ways.push_back({gpu});
        }
      }
      for (const auto& gpus : ways) {
        const int here = score(pod, nodes[n], gpus);
        if (here <= most) continue;
        most = here;
        best = Pick{n, gpus};
      }
    }
    return best;
  }
};

}  // namespace orrery::sim
