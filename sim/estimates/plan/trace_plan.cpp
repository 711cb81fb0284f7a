#include "sim/estimates/plan/trace_plan.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "core/error.hpp"
#include "sim/estimates/collectives/collective_groups.hpp"
#include "sim/estimates/collectives/protocols.hpp"

namespace orrery::estimates {
namespace {

/// Collective with the buffer size of collective_schedule(): Chakra's comm_size is the input of one
/// rank, but the buffer of an all-gather is the input of all ranks.
struct Call {
  CollectiveKind kind{};
  double bytes = 0;
};

Call call_of(const FoldedCollective& collective, std::size_t ranks) {
  const auto bytes = static_cast<double>(collective.bytes);
  switch (collective.kind) {
    case ChakraCollective::all_reduce: return {CollectiveKind::all_reduce, bytes};
    case ChakraCollective::all_gather:
      return {CollectiveKind::all_gather, bytes * static_cast<double>(ranks)};
    case ChakraCollective::all_to_all: return {CollectiveKind::all_to_all, bytes};
    case ChakraCollective::reduce_scatter:
    case ChakraCollective::reduce_scatter_block: return {CollectiveKind::reduce_scatter, bytes};
    // A reduction to one rank is a reversed broadcast.
    case ChakraCollective::broadcast:
    case ChakraCollective::reduce: return {CollectiveKind::broadcast, bytes};
    case ChakraCollective::barrier: return {CollectiveKind::all_reduce, 0};
    case ChakraCollective::gather:
    case ChakraCollective::scatter: break;
  }
  throw Error(ErrorKind::internal, "the reader accepts only collectives that can be planned");
}

class Planner {
 public:
  Planner(const ChakraTrace& trace, const FoldedTrace& folded, const Cluster& cluster,
          const CostProfile& profile, CollectiveAlgorithm algorithm)
      : trace_(trace), folded_(folded), cluster_(cluster), profile_(profile),
        algorithm_(algorithm) {}

  TracePlan plan() {
    TracePlan plan;
    for (const FoldedCollective& each : folded_.collectives) {
      plan.collectives.push_back(collective(each));
    }
    for (const FoldedSend& each : folded_.sends) plan.sends.push_back(send(each));
    plan.links = binding_links(
        flows_, cluster_.links(),
        [&](LinkId link) { return link_rate(cluster_, profile_, link); }, {});
    return plan;
  }

 private:
  const std::vector<GpuGroup>& gpus_of(std::uint32_t team) {
    std::vector<GpuGroup>& gpus = gpus_[team];
    if (!gpus.empty()) return gpus;
    for (const std::uint32_t group : folded_.teams[team]) {
      GpuGroup& members = gpus.emplace_back();
      for (const std::uint32_t rank : trace_.groups[group]) members.push_back({rank});
    }
    return gpus;
  }

  std::uint32_t flow(std::vector<LinkLoad> loads) {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> key;
    for (const LinkLoad& load : loads) key.emplace_back(load.link.value, load.flows);
    const auto next = static_cast<std::uint32_t>(flows_.size());
    const auto [entry, fresh] = known_flows_.emplace(std::move(key), next);
    if (fresh) flows_.push_back(std::move(loads));
    return entry->second;
  }

  CollectiveAlgorithm algorithm_for(std::uint32_t team, const Call& call) {
    if (algorithm_ != CollectiveAlgorithm::automatic) return algorithm_;
    const auto [entry, fresh] =
        chosen_.emplace(std::tuple(team, call.kind, call.bytes), CollectiveAlgorithm::ring);
    if (fresh) {
      entry->second =
          choose_nccl_algorithm(cluster_, profile_, call.kind, gpus_of(team), Bytes{call.bytes});
    }
    return entry->second;
  }

  TraceTransfer collective(const FoldedCollective& of) {
    const Call call = call_of(of, trace_.groups[folded_.teams[of.team].front()].size());
    const CollectiveAlgorithm algorithm = algorithm_for(of.team, call);
    const auto [entry, fresh] =
        schedules_.emplace(std::tuple(of.team, call.kind, algorithm), CollectiveSchedule{});
    if (fresh) {
      entry->second = collective_schedule(cluster_, call.kind, algorithm, gpus_of(of.team));
    }
    return transfer(call.kind, entry->second, call.bytes);
  }

  /// Returns the phases of a schedule with the costs of the protocol that is fastest for `bytes`.
  TraceTransfer transfer(CollectiveKind kind, const CollectiveSchedule& schedule, double bytes) {
    PricedSchedule priced = price_protocols(cluster_, profile_, kind, schedule, Bytes{bytes});
    TraceTransfer transfer;
    for (CollectivePhase& phase : priced.schedule.phases) {
      transfer.phases.push_back(
          {flow(std::move(phase.links)), phase.share * bytes, phase.latency.value});
    }
    return transfer;
  }

  TraceTransfer send(const FoldedSend& of) {
    std::map<std::uint32_t, std::uint32_t> loads;
    CollectivePhase phase{.links = {}, .share = 1, .rounds = 1, .far_rounds = 0, .latency = {}};
    for (const auto& [from, to] : of.pairs) {
      route_.clear();
      cluster_.route({from}, {to}, route_);
      for (const LinkId link : route_) ++loads[link.value];
      phase.latency = std::max(phase.latency, cluster_.latency({from}, {to}));
      if (by_domain(cluster_, {{from}, {to}}).size() > 1) phase.far_rounds = 1;
    }
    for (const auto& [link, count] : loads) phase.links.push_back({{link}, count});
    return transfer(CollectiveKind::send_receive,
                    {.algorithm = CollectiveAlgorithm::direct, .phases = {std::move(phase)}},
                    static_cast<double>(of.bytes));
  }

  const ChakraTrace& trace_;
  const FoldedTrace& folded_;
  const Cluster& cluster_;
  const CostProfile& profile_;
  const CollectiveAlgorithm algorithm_;
  std::vector<std::vector<LinkLoad>> flows_;
  std::map<std::vector<std::pair<std::uint32_t, std::uint32_t>>, std::uint32_t> known_flows_;
  std::map<std::uint32_t, std::vector<GpuGroup>> gpus_;  ///< groups by team
  std::map<std::tuple<std::uint32_t, CollectiveKind, double>, CollectiveAlgorithm> chosen_;
  std::map<std::tuple<std::uint32_t, CollectiveKind, CollectiveAlgorithm>, CollectiveSchedule>
      schedules_;
  std::vector<LinkId> route_;  ///< scratch buffer of send()
};

}  // namespace

double price(const TraceOp& op, const GpuModel& gpu, FlopPerSecond peak) {
  const auto bytes = static_cast<double>(op.bytes);
  if (op.kind == TraceOpKind::memory) return bytes / gpu.pcie.value;
  if (op.cpu || op.duration_ns > 0) return static_cast<double>(op.duration_ns) * 1e-9;
  return std::max(static_cast<double>(op.flop) / peak.value, bytes / gpu.memory_bandwidth.value);
}

TraceBounds bounds(const ChakraTrace& trace, const FoldedTrace& folded, const TracePlan& plan,
                   const GpuModel& gpu, FlopPerSecond peak) {
  const auto alone = [&](const TraceTransfer& transfer) {
    double seconds = 0;
    for (const TracePhase& phase : transfer.phases) {
      std::map<std::uint32_t, double> taken;  // seconds per byte, by slot
      for (const std::uint32_t slot : plan.links.of_flow[phase.flow]) {
        taken[slot] += 1 / plan.links.links[slot].bandwidth;
      }
      double slowest = 0;
      for (const auto& [slot, each] : taken) slowest = std::max(slowest, each);
      seconds += phase.latency + phase.bytes * slowest;
    }
    return seconds;
  };
  std::vector<double> communication(folded.classes.size(), 0);
  TraceBounds out;
  const auto add = [&](const std::vector<ClassOp>& ops, double seconds) {
    std::set<std::uint32_t> classes;
    for (const ClassOp& at : ops) classes.insert(at.of_class);
    for (const std::uint32_t of_class : classes) communication[of_class] += seconds;
    out.serial += seconds;
  };
  for (std::size_t i = 0; i < folded.collectives.size(); ++i) {
    add(folded.collectives[i].ops, alone(plan.collectives[i]));
  }
  for (std::size_t i = 0; i < folded.sends.size(); ++i) {
    add({folded.sends[i].from}, alone(plan.sends[i]));
  }
  for (std::size_t i = 0; i < folded.classes.size(); ++i) {
    double gpu_time = 0;
    for (const TraceOp& op : trace.programs[folded.classes[i].program].ops) {
      if (op.kind != TraceOpKind::compute && op.kind != TraceOpKind::memory) continue;
      const double seconds = price(op, gpu, peak);
      out.serial += seconds;
      if (op.kind == TraceOpKind::compute && !op.cpu) gpu_time += seconds;
    }
    out.compute = std::max(out.compute, gpu_time);
    out.communication = std::max(out.communication, communication[i]);
  }
  return out;
}

TracePlan plan_trace(const ChakraTrace& trace, const FoldedTrace& folded, const Cluster& cluster,
                     const CostProfile& profile, CollectiveAlgorithm algorithm) {
  return Planner(trace, folded, cluster, profile, algorithm).plan();
}

}  // namespace orrery::estimates
