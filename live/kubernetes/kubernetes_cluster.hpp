// Kubernetes cluster as a world of policies. Observes nodes and gangs at fixed intervals, shows the
// differences as events, and carries out assignments through the adapter. Used by the command
// `cluster kubernetes`. One thread. Policy time is nanoseconds since 1970.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "live/kubernetes/adapter.hpp"
#include "live/kubernetes/gang_follower.hpp"
#include "live/queue/queue_cluster.hpp"

namespace orrery::live {

/// Backend whose cluster is a Kubernetes cluster. While another controller leads, nothing is shown
/// and nothing is decided. All state is in the objects of the cluster: a new process continues from
/// the first reading. Not thread-safe.
class KubernetesCluster : public QueueCluster, private GangOutlet {
 public:
  /// Options of a run.
  struct Options : QueueCluster::Options {
    bool acts = true;              ///< false: no order is sent
    std::int64_t patience_s = 60;  ///< see GangFollower
    /// nodes for which there is room, those that join later included; 0: a quarter more than at the
    /// start
    std::uint32_t places = 0;
    /// time after which a node that has left frees its place, if no gang is on the node
    std::int64_t keeps_place_s = 24 * 3600;
  };

  /// Reads the nodes. Nodes that join later get one of the free places of their rack; nodes that
  /// leave free theirs after a day. `adapter` must outlive this object. Throws an environment Error
  /// if the cluster does not answer, and bad_input if no node has GPUs.
  KubernetesCluster(KubeAdapter& adapter, const Options& options);

  std::string id_of(JobId job) const override { return follower_.id_of(job); }
  std::size_t open_orders() const override { return follower_.open_orders(); }
  std::string lease_text() const override;
  std::string mode_objection(HandOverMode mode) const override;
  /// Returns the number of places of each rack; 0 if no label names racks.
  std::uint32_t nodes_per_rack() const { return nodes_per_rack_; }

 private:
  /// Nodes of the first reading, and the size of their racks.
  struct Places {
    std::vector<QueueNode> nodes;
    std::uint32_t nodes_per_rack = 0;
  };
  KubernetesCluster(KubeAdapter& adapter, const Options& options, Places places);
  static Places read_places(KubeAdapter& adapter, std::uint32_t places);
  void update_places(std::int64_t now_s);
  void adopt_node(const KubeNode& node);
  void place_gangs(const std::vector<GangOrder>& orders);
  void record_answer(const GangOrder& order, const std::string& refusal);

  // QueueCluster
  bool read_cluster() override;
  void show_changes(std::int64_t now_s) override;
  std::string objection(const Assign& assign) const override;
  void order(const Assign& assign, std::int64_t now_s) override;
  void send_orders() override;
  void set_acting(bool acts) override { acts_ = acts; }
  // GangOutlet
  void emit_event(Event event) override { QueueCluster::emit_event(std::move(event)); }
  void report(std::string text) override { report_to_operator(text); }

  KubeAdapter& adapter_;
  const bool is_candidate_;  ///< takes part in the election of a leader
  bool acts_;
  const std::uint32_t nodes_per_rack_;
  const std::int64_t keeps_place_s_;
  GangFollower follower_;
  KubeReading reading_;                ///< newest
  std::string holder_;                 ///< leader that was reported last
  std::vector<std::string> problems_;  ///< those of the newest report
  std::vector<GangOrder> orders_;
  std::map<std::string, std::int64_t> gone_since_;  ///< nodes that have left, by their names
  std::set<std::string> without_place_;             ///< nodes that were reported
};

}  // namespace orrery::live
