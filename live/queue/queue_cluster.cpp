#include "live/queue/queue_cluster.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "policies/run/registry.hpp"
#include "policies/seam/part_changes.hpp"
#include "topologies/builder.hpp"

namespace orrery::live {
namespace {

using Clock = std::chrono::steady_clock;
constexpr Nanos kMinute = 60 * kNanosPerSecond;

Cluster cluster_of_nodes(const NodeMap& nodes, std::uint32_t nodes_per_rack) {
  JobReplay replay;
  describe_nodes(nodes, nodes_per_rack, replay);
  return cluster_of(replay);
}

}  // namespace

void describe_nodes(const NodeMap& nodes, std::uint32_t nodes_per_rack, JobReplay& replay) {
  replay.set_nodes(nodes.nodes());
  replay.set_gpus_per_node(nodes.gpus_per_node());
  if (nodes_per_rack == 0) return;
  constexpr double kStandInRate = 50e9;  // bytes per second
  Topology& topology = *replay.mutable_cluster();
  topology.set_nodes(nodes.nodes());
  NodeSpec& node = *topology.mutable_node();
  node.set_gpu("H100");
  node.set_gpus_per_node(nodes.gpus_per_node());
  node.set_nics_per_node(1);
  node.set_nic_bandwidth(kStandInRate);
  FabricSpec& fabric = *topology.mutable_fabric();
  fabric.set_kind("fat-tree");
  fabric.set_nodes_per_unit(nodes_per_rack);
  fabric.set_spines(1);
  fabric.set_spine_link_bandwidth(kStandInRate);
  resolve(topology, SourceMap{}, "cluster");
}

Nanos QueueCluster::wall_clock() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

QueueCluster::QueueCluster(std::string scheduler, NodeMap nodes, std::uint32_t nodes_per_rack,
                           Options options)
    : scheduler_(std::move(scheduler)),
      options_(std::move(options)),
      nodes_(std::move(nodes)),
      cluster_(cluster_of_nodes(nodes_, nodes_per_rack)),
      world_(cluster_),
      gate_(world_, {Kinds<Action>::of<Assign>(), {}}, *this) {}

void QueueCluster::begin(const Needs& needs) {
  if (needs.tick == 0) return;
  throw Error(ErrorKind::bad_input,
              fmt::format("jobs of {} run under queue policies, which need no ticks", scheduler_));
}

void QueueCluster::set_mode(HandOverMode mode) {
  options_.is_quiet = mode == HandOverMode::shadow;
  options_.has_ticks = mode == HandOverMode::approve;
  set_acting(mode != HandOverMode::shadow);
}

// ---- decisions ------------------------------------------------------------------------------

std::string QueueCluster::refusal(const Decision& decision) const {
  const auto* assign = std::get_if<Assign>(&decision.what);
  if (assign == nullptr) {
    return fmt::format("a job of {} has nothing to set and nothing to save", scheduler_);
  }
  if (!failure_.empty()) return fmt::format("{} does not answer", scheduler_);
  const auto recent = std::count_if(acted_at_.begin(), acted_at_.end(),
                                    [this](Nanos at) { return at > now_ - kMinute; });
  if (options_.per_minute > 0 && recent >= options_.per_minute) {
    return fmt::format("the limit of {} actions a minute is reached", options_.per_minute);
  }
  return objection(*assign);
}

void QueueCluster::emit_event(Event event) {
  world_.apply(event, now_);
  events_.push_back(std::move(event));
}

void QueueCluster::apply(const DecisionList& decisions) {
  world_.begin_batch();
  gate_.accept_decisions(decisions, now_);
  if (options_.is_quiet) gate_.pop_due_wakes(now_);
  send_or_report();
}

void QueueCluster::carry_out(const Decision& decision) {
  const auto& assign = std::get<Assign>(decision.what);
  ++(assign.is_release() ? counts_.stops : counts_.starts);
  has_released_ = has_released_ || assign.is_release();
  std::erase_if(acted_at_, [this](Nanos at) { return at <= now_ - kMinute; });
  acted_at_.push_back(now_);
  order(assign, reading_s_);
}

// ---- readings -------------------------------------------------------------------------------

std::optional<Observation> QueueCluster::next() {
  // A released job stops at the instant of its release: its service is the same in a replay.
  if (!std::exchange(has_released_, false) || events_.empty()) {
    is_over_ = !read_events();
    if (is_over_) return {};
  }
  shown_ = std::exchange(events_, {});
  return Observation{.now = now_,
                     .sequence = calls_++,
                     .events = shown_,
                     .cluster = cluster_,
                     .state = world_.state(),
                     .jobs = world_.jobs(),
                     .samples = samples_};
}

bool QueueCluster::read_events() {
  do {
    if (!wait_for_reading()) return false;
    if (!observe_cluster()) continue;
    if (options_.drain_parameters) {
      for (ParameterSet& set : options_.drain_parameters()) emit_event(std::move(set));
    }
    if (gate_.pop_due_wakes(now_) || options_.has_ticks) emit_event(Tick{});
  } while (events_.empty());
  return true;
}

/// Blocks until the next reading is due; returns false if the run ends before.
bool QueueCluster::wait_for_reading() {
  constexpr std::chrono::milliseconds kSlice(50);
  if (!begun_) begun_ = next_reading_ = Clock::now();
  if (options_.at_reading) options_.at_reading();
  while (true) {
    const Clock::time_point now = Clock::now();
    if (options_.stopped && options_.stopped()) return false;
    if (now - *begun_ >= options_.until) return false;
    if (now >= *next_reading_) break;
    std::this_thread::sleep_for(std::min<Clock::duration>(*next_reading_ - now, kSlice));
  }
  next_reading_ = Clock::now() + options_.every;
  return true;
}

/// Reads the cluster and shows the differences. Returns false, and changes nothing, if the reading
/// fails or shows nothing.
bool QueueCluster::observe_cluster() {
  ++counts_.readings;
  const Clock::time_point begin = Clock::now();
  bool is_shown = false;
  try {
    is_shown = read_cluster();
  } catch (const Error& error) {
    report_failure(error.what());
    return false;
  }
  counts_.slowest = std::max<std::chrono::nanoseconds>(counts_.slowest, Clock::now() - begin);
  if (!failure_.empty()) report_to_operator(scheduler_ + " answers again");
  failure_.clear();
  if (!is_shown) return false;
  const Nanos at = wall_clock() + clock_ahead();
  now_ = std::max(now_ + 1, at);
  reading_s_ = at / kNanosPerSecond;
  show_changes(reading_s_);
  send_or_report();
  return true;
}

void QueueCluster::show_lost_parts(const std::set<Part>& lost) {
  const auto reported = reported_parts(lost, {}, {});
  for (const PartChanged& change : part_changes(world_.state().parts, reported)) {
    emit_event(change);
  }
}

void QueueCluster::send_or_report() {
  try {
    send_orders();
  } catch (const Error& error) {
    report_failure(error.what());
  }
}

void QueueCluster::report_failure(const std::string& why) {
  ++counts_.failed_readings;
  if (why != failure_) report_to_operator(fmt::format("this reading changes nothing: {}", why));
  failure_ = why;
}

void QueueCluster::report_to_operator(const std::string& text) const {
  if (options_.tell) options_.tell(text);
}

}  // namespace orrery::live
