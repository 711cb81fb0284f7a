#include "live/kubernetes/kubernetes_cluster.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery::live {

namespace {

constexpr std::size_t kMostInBatch = 100;  // orders whose answer is awaited at once

}  // namespace

KubernetesCluster::Places KubernetesCluster::read_places(KubeAdapter& adapter,
                                                         std::uint32_t places) {
  Places found;
  std::vector<KubeNode> nodes = adapter.read_cluster(false).nodes;
  const auto count = static_cast<std::uint32_t>(nodes.size());
  if (places == 0) places = count + (count + 3) / 4;
  found.nodes = nodes_by_rack(std::move(nodes), places, found.nodes_per_rack);
  if (count == 0) {
    throw Error(ErrorKind::bad_input,
                "expected nodes with GPUs (allocatable nvidia.com/gpu), found none: is the device "
                "plugin installed?");
  }
  return found;
}

KubernetesCluster::KubernetesCluster(KubeAdapter& adapter, const Options& options)
    : KubernetesCluster(adapter, options, read_places(adapter, options.places)) {}

KubernetesCluster::KubernetesCluster(KubeAdapter& adapter, const Options& options, Places places)
    : QueueCluster("Kubernetes", NodeMap(places.nodes, places.nodes_per_rack),
                   places.nodes_per_rack, options),
      adapter_(adapter),
      is_candidate_(options.acts),
      acts_(options.acts),
      nodes_per_rack_(places.nodes_per_rack),
      keeps_place_s_(options.keeps_place_s),
      follower_(world(), nodes(), options.patience_s, *this) {}

std::string KubernetesCluster::lease_text() const {
  if (holder_.empty()) return {};
  return fmt::format("{} {}", reading_.is_leader ? "leads as" : "waits for", holder_);
}

std::string KubernetesCluster::mode_objection(HandOverMode mode) const {
  if (is_candidate_ || mode == HandOverMode::shadow) return {};
  return "expected a controller that takes part in the election of a leader, found one that was "
         "started with --mode shadow; start it again with --mode approve or drive";
}

bool KubernetesCluster::read_cluster() {
  reading_ = adapter_.read_cluster(acts_ && !is_halted());
  if (reading_.holder != holder_) {
    report(reading_.is_leader ? fmt::format("this controller leads as {}", reading_.holder)
                              : fmt::format("{} leads; waiting", reading_.holder));
    holder_ = reading_.holder;
  }
  return reading_.is_leader;
}

void KubernetesCluster::show_changes(std::int64_t now_s) {
  for (const std::string& problem : reading_.problems) {
    const bool is_known = std::find(problems_.begin(), problems_.end(), problem) != problems_.end();
    if (!is_known) report(problem);
  }
  problems_ = reading_.problems;
  update_places(now_s);
  show_lost_parts(nodes().lost_parts(reading_.nodes));
  follower_.follow_gangs(std::move(reading_.gangs), now_s);
}

/// Frees the places of nodes that left long ago, and gives a place to each node that has joined.
void KubernetesCluster::update_places(std::int64_t now_s) {
  std::set<std::string> present;
  for (const KubeNode& node : reading_.nodes) present.insert(node.name);
  const std::uint32_t gpus = nodes().gpus_per_node();
  for (std::uint32_t place = 0; place < nodes().nodes(); ++place) {
    const std::string name = nodes().name({place});
    if (name.empty() || present.contains(name)) continue;
    const std::int64_t since_s = gone_since_.try_emplace(name, now_s).first->second;
    if (now_s - since_s < keeps_place_s_) continue;
    if (!unowned_gpus(world().state(), {NodeId{place}}, gpus, gpus)) continue;
    gone_since_.erase(name);
    mutable_nodes().release({place});
  }
  for (const KubeNode& node : reading_.nodes) {
    gone_since_.erase(node.name);
    if (!nodes().find(node.name)) adopt_node(node);
  }
}

void KubernetesCluster::adopt_node(const KubeNode& node) {
  if (mutable_nodes().adopt_node(node)) {
    without_place_.erase(node.name);
    report(fmt::format("the node {} has joined", node.name));
    if (node.gpus <= nodes().gpus_per_node()) return;
    report(fmt::format("the node {} has {} GPUs, and this run uses {} of each node; start the "
                       "command again to use all",
                       node.name, node.gpus, nodes().gpus_per_node()));
    return;
  }
  if (!without_place_.insert(node.name).second) return;
  report(fmt::format("expected a free place for the node {}, which has joined{}, found none; start "
                     "the command again, with a larger --places",
                     node.name, node.rack.empty() ? "" : fmt::format(" the rack {}", node.rack)));
}

std::string KubernetesCluster::objection(const Assign& assign) const {
  return follower_.objection(assign);
}

void KubernetesCluster::order(const Assign& assign, std::int64_t now_s) {
  orders_.push_back(follower_.order(assign, now_s));
}

void KubernetesCluster::send_orders() {
  const std::vector<GangOrder> orders = std::exchange(orders_, {});
  if (orders.empty() || !acts_) return;
  std::vector<GangOrder> batch;
  for (const GangOrder& order : orders) {
    if (is_halted()) {
      record_answer(order, "the kill switch is on");
    } else if (!order.nodes.empty()) {
      batch.push_back(order);
      if (batch.size() == kMostInBatch) place_gangs(std::exchange(batch, {}));
    } else {
      place_gangs(std::exchange(batch, {}));
      record_answer(order, adapter_.evict_gang(order.gang));
    }
  }
  place_gangs(batch);
}

void KubernetesCluster::place_gangs(const std::vector<GangOrder>& orders) {
  if (orders.empty()) return;
  const std::vector<std::string> refusals = adapter_.place_gangs(orders);
  for (std::size_t i = 0; i < orders.size(); ++i) record_answer(orders[i], refusals[i]);
}

void KubernetesCluster::record_answer(const GangOrder& order, const std::string& refusal) {
  if (refusal.empty()) return;
  ++mutable_counts().complaints;
  follower_.record_refusal(order, refusal);
}

}  // namespace orrery::live
