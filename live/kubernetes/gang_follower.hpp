// State of the gangs of one Kubernetes cluster, as readings show it, turned into events of the
// policies' world and orders. Used by live/kubernetes/kubernetes_cluster. One thread. Instants are
// seconds since 1970, durations seconds.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "live/kubernetes/adapter.hpp"
#include "live/kubernetes/reading.hpp"
#include "live/queue/node_map.hpp"
#include "policies/seam/decision.hpp"
#include "policies/seam/world.hpp"

namespace orrery::live {

/// Receiver of the consequences of a reading.
class GangOutlet {
 public:
  virtual ~GangOutlet() = default;
  /// Applies an event to the world and shows it to the policies.
  virtual void emit_event(Event event) = 0;
  /// Tells the operator about something that no policy decided.
  virtual void report(std::string text) = 0;
};

/// State machine of all gangs of a cluster. Every gang of the world has one job; a job becomes
/// known when its gang may be placed, or when its pods occupy GPUs. For example, a gang whose pods
/// are all bound without an order is a job that is submitted and starts in one reading.
class GangFollower {
 public:
  /// Constructs a follower; all references must outlive it. `patience_s`: time until a placement
  /// that is not carried out is reported, and pause after three refused orders.
  GangFollower(const World& world, const NodeMap& nodes, std::int64_t patience_s,
               GangOutlet& outlet)
      : world_(world), nodes_(nodes), patience_s_(patience_s), outlet_(outlet) {}

  /// Compares the gangs of a reading at `now_s` with those known and emits the events of all
  /// differences.
  void follow_gangs(std::vector<KubeGang> gangs, std::int64_t now_s);

  /// Returns the reason why a decision cannot be carried out; empty if it can.
  std::string objection(const Assign& assign) const;
  /// Returns the order of an accepted decision at `now_s`; emits the event of a stop.
  GangOrder order(const Assign& assign, std::int64_t now_s);
  /// Takes back an order that the cluster has refused: a gang that was to be placed waits again.
  void record_refusal(const GangOrder& refused, const std::string& why);

  /// Returns the id of the gang of a job of the world; empty for an unknown job.
  std::string id_of(JobId job) const;
  /// Returns the number of gangs with a placement that is not complete.
  std::size_t open_orders() const;

 private:
  /// Stage of a gang. `unseen`: not in the world. `leaving`: was ordered to stop.
  enum class Stage : std::uint8_t { unseen, waiting, ordered, placed, leaving };
  struct Tracked {
    std::string uid;
    bool is_managed = false;
    Stage stage = Stage::unseen;
    JobId job{};                          ///< valid unless `unseen`
    Assign assign = {};                   ///< valid if `ordered`
    std::vector<std::string> nodes = {};  ///< node of each pod of a placed gang
    std::uint32_t pods_per_node = 1;
    bool needs_rack = false;
    std::int64_t since_s = 0;       ///< instant of an order
    std::int64_t not_before_s = 0;  ///< pause after refused orders
    std::uint32_t refusals = 0;
    bool is_reported = false;  ///< the operator knows of its problem
  };

  void end_missing(const std::vector<KubeGang>& gangs);
  void follow_gang(const std::string& id, Tracked& known, const KubeGang& gang);
  void show_waiting(Tracked& known, const KubeGang& gang);
  void show_placed(Tracked& known, const KubeGang& gang);
  void submit_gang(Tracked& known, const KubeGang& gang);
  void stop_gang(Tracked& known);
  void leave_world(Tracked& known, Ending how);
  void report_once(Tracked& known, std::string text);
  bool is_requeued(const Tracked& known) const;
  std::string misfit(const KubeGang& gang) const;
  std::optional<GpuRuns> find_gpus(const Tracked& known, const KubeGang& gang) const;

  const World& world_;
  const NodeMap& nodes_;
  const std::int64_t patience_s_;
  GangOutlet& outlet_;
  std::map<std::string, Tracked> gangs_;  ///< keys are ids
  std::map<JobId, std::string> ids_;      ///< ids of the gangs of the world's jobs
  std::int64_t now_s_ = 0;
};

}  // namespace orrery::live
