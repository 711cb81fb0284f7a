#include "live/kubernetes/kubernetes_cluster.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery::live {

KubernetesCluster::Places KubernetesCluster::read_places(KubeAdapter& adapter) {
  Places places;
  places.nodes = nodes_by_rack(adapter.read_cluster(false).nodes, places.nodes_per_rack);
  if (places.nodes.empty()) {
    throw Error(ErrorKind::bad_input,
                "expected nodes with GPUs (allocatable nvidia.com/gpu), found none: is the device "
                "plugin installed?");
  }
  return places;
}

KubernetesCluster::KubernetesCluster(KubeAdapter& adapter, const Options& options)
    : KubernetesCluster(adapter, options, read_places(adapter)) {}

KubernetesCluster::KubernetesCluster(KubeAdapter& adapter, const Options& options, Places places)
    : QueueCluster("Kubernetes", NodeMap(places.nodes), places.nodes_per_rack, options),
      adapter_(adapter),
      is_candidate_(options.acts),
      acts_(options.acts),
      nodes_per_rack_(places.nodes_per_rack),
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
  show_lost_parts(nodes().lost_parts({reading_.nodes.begin(), reading_.nodes.end()}));
  follower_.follow_gangs(std::move(reading_.gangs), now_s);
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
  for (const GangOrder& order : orders) {
    std::string refusal = "the kill switch is on";
    if (!is_halted()) {
      refusal = order.nodes.empty() ? adapter_.evict_gang(order.gang)
                                    : adapter_.place_gang(order.gang, order.nodes);
    }
    if (refusal.empty()) continue;
    ++mutable_counts().complaints;
    follower_.record_refusal(order, refusal);
  }
}

}  // namespace orrery::live
