// Kubernetes in memory for tests: nodes in racks, and gangs that the test moves between stages.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "core/error.hpp"
#include "live/kubernetes/adapter.hpp"

namespace orrery::live {

/// Cluster with nodes n01, n02, ... of four GPUs, `per_rack` in each rack.
class FakeKube : public KubeAdapter {
 public:
  explicit FakeKube(std::uint32_t nodes = 4, std::uint32_t per_rack = 4) {
    for (std::uint32_t n = 0; n < nodes; ++n) {
      add_node(fmt::format("n{:02}", n + 1), fmt::format("r{}", n / per_rack));
    }
    reading.is_leader = true;
    reading.holder = "me";
  }

  KubeReading reading;
  std::vector<std::string> orders;  ///< "place ID on N,N" or "evict ID"
  std::string refusal;              ///< answer to all orders; empty: they are carried out
  std::string broken;               ///< reason why the next readings fail
  bool acted = false;               ///< argument of the newest read_cluster()

  /// Adds a usable node of four GPUs.
  void add_node(const std::string& name, const std::string& rack) {
    reading.nodes.push_back({name, 4, true, rack});
  }
  void remove_node(const std::string& name) {
    std::erase_if(reading.nodes, [&](const KubeNode& node) { return node.name == name; });
  }
  KubeGang& add_gang(const std::string& id, std::uint32_t pods, std::uint32_t gpus = 4) {
    KubeGang gang;
    gang.id = id;
    gang.uid = "uid of " + id;
    gang.name = "name of " + id;
    gang.state = GangState::waiting;
    gang.is_managed = true;
    gang.submitted_s = 1000 + static_cast<std::int64_t>(reading.gangs.size());
    gang.limit_s = 3600;
    gang.queue = "team";
    gang.pods = pods;
    gang.gpus_per_pod = gpus;
    return reading.gangs.emplace_back(gang);
  }
  KubeGang& gang(const std::string& id) {
    return *std::find_if(reading.gangs.begin(), reading.gangs.end(),
                         [&](const KubeGang& each) { return each.id == id; });
  }

  KubeReading read_cluster(bool acts) override {
    acted = acts;
    if (!broken.empty()) throw Error(ErrorKind::environment, broken);
    return reading;
  }
  void place_gang(const std::string& id, const std::vector<std::string>& nodes) {
    gang(id).state = GangState::placing;
    gang(id).nodes = nodes;
  }
  std::vector<std::string> place_gangs(const std::vector<GangOrder>& placed) override {
    for (const GangOrder& order : placed) {
      orders.push_back(fmt::format("place {} on {}", order.gang, fmt::join(order.nodes, ",")));
      if (refusal.empty()) place_gang(order.gang, order.nodes);
    }
    return std::vector<std::string>(placed.size(), refusal);
  }
  std::string evict_gang(const std::string& id) override {
    orders.push_back("evict " + id);
    if (!refusal.empty()) return refusal;
    gang(id).state = GangState::leaving;
    return {};
  }
};

}  // namespace orrery::live
