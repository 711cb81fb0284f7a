#include "sim/estimates/step/stepper.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "traces/workload/model.hpp"
#include "traces/workload/stacks.hpp"

namespace orrery::estimates {
namespace {

/// Folded plans share links. If every GPU is slow in its own way, each ring of replicas meets links
/// of its own: in layouts with tensor parallelism inside nodes a quarter of the GPUs' number.
constexpr std::uint32_t kFoldedLinks = 16384, kGpusOfFoldedLink = 4;

std::uint32_t folded_links(std::uint32_t gpus) {
  return std::max(kFoldedLinks, 64 + gpus / kGpusOfFoldedLink);
}
/// A long ramp creates a new state in every step; old states are rarely reused.
constexpr std::size_t kMostRemembered = 1024;

std::shared_ptr<Engine> make(const EngineFactory& engine, EngineRoom room) {
  return engine(room.hosts, room.links);
}

/// Adds the host's launch and wait times to the profile, if the stack knows them, for this job's
/// layout.
void take_host(const Job& job, const Cluster& cluster, const SoftwareStack& stack,
               CostProfile& profile) {
  const double tensor = std::max(1u, job.layout().tensor());
  const double stages = std::max(1u, job.layout().pipeline());
  const double ranks = tensor * stages * job.layout().data() * std::max(1u, job.layout().context());
  const double nodes = std::ceil(ranks / cluster.shape().gpus_per_node);
  Seconds host{to_seconds(stack.host_layer())};
  if (tensor > 1) host += Seconds{to_seconds(stack.host_tensor())};
  if (tensor > 1 && stages > 1 && nodes > 1) {
    host += Seconds{to_seconds(stack.host_stages())} * tensor;
  }
  profile.layer_host = job.compiled() ? Seconds{} : host;
  const double experts = job.model().has_experts() ? job.model().experts().count() : 0;
  const Seconds waiting = Seconds{to_seconds(stack.host_experts())} +
                          Seconds{to_seconds(stack.host_each_expert())} *
                              (experts / std::max(1u, job.layout().expert()));
  profile.expert_gap = job.compiled() ? Seconds{} : waiting;
  if (job.adapter_rank() > 0 && !job.compiled()) {
    profile.layer_gap += Seconds{to_seconds(stack.host_adapters())};
  }
  // All published runs of that size polled for messages (docs/accuracy.md).
  constexpr double kStalledNodes = 48;
  profile.transfer_gap = Seconds{to_seconds(stack.transfer_gap())};
  if (nodes >= kStalledNodes) profile.transfer_gap += Seconds{to_seconds(stack.transfer_stall())};
}

/// Returns the time that the host adds to every step: of a measured machine, else of the software
/// stack.
Seconds rest_of_step(const MachineCosts& machine, const Job& job) {
  if (machine.kernels) return machine.control;
  const SoftwareStack& stack = stack_of(job);
  const Layout& layout = job.layout();
  const std::uint32_t stages = std::max(1u, layout.pipeline());
  const double group = double{1} * layout.data() * std::max(1u, layout.context());
  const double exchanged = parameter_count(job.model()) / std::max(1u, layout.tensor()) / stages;
  const double doublings = std::log2(std::max(1.0, group));
  const double layers = std::ceil(double{1} * job.model().layers() / stages);
  return Seconds{to_seconds(stack.step_gap())} + Seconds{to_seconds(stack.host_update())} * layers +
         Seconds{to_seconds(stack.group_gap())} * (exchanged / 1e9 * doublings);
}

GradientCodes codes_on(const MachineCosts& machine, const Job& job, const Cluster& cluster) {
  return {job, machine.plain_bytes,
          machine.codecs ? *machine.codecs
                         : known_speeds(job, cluster.gpu_model().memory_bandwidth.value)};
}

/// Returns a text that differs if any rule differs.
std::string key_of(const std::vector<CodecRule>& rules) {
  std::string key;
  for (const CodecRule& rule : rules) {
    key += fmt::format("{} {} {} {};", rule.bucket_class, static_cast<int>(rule.codec),
                       rule.parameter, rule.error_feedback);
  }
  return key;
}

/// Returns the optimizer's blocks, each once: work that a stack does once per step belongs to them.
std::set<std::uint32_t> optimizer_blocks(const StepGraph& graph) {
  std::set<std::uint32_t> blocks;
  for (std::uint32_t stage = 0; stage < graph.pipeline(); ++stage) {
    blocks.insert(graph.block_of_optimizer(stage));
  }
  return blocks;
}

}  // namespace

/// The bound counts the links of as many nodes as the job fills.
EngineRoom engine_room(const Cluster& cluster, const StepGraph& graph, bool full_detail) {
  const Cluster::Shape& shape = cluster.shape();
  const auto above = [](std::uint32_t count, std::uint32_t each) {
    return (count + each - 1) / each;
  };
  const std::uint32_t nodes = above(graph.ranks(), shape.gpus_per_node);
  std::uint32_t fabric = 0;  // links per rail in one direction
  if (shape.fabric == FabricKind::fat_tree) {
    const std::uint32_t units = above(nodes, shape.nodes_per_unit);
    fabric = units * shape.spines;
    if (shape.units_per_pod > 0) {
      fabric += above(units, shape.units_per_pod) * shape.spines * shape.cores;
    }
  } else {
    fabric = (cluster.links() - 2 * cluster.gpus() - 2 * cluster.nodes() * cluster.rails() + 1) /
             2 / cluster.rails();
  }
  const std::uint32_t all =
      2 * nodes * (shape.gpus_per_node + shape.nics_per_node) + 2 * fabric * cluster.rails();
  return {hosts_needed(graph), full_detail ? all : std::min(all, folded_links(graph.ranks()))};
}

CostProfile job_profile(const Job& job, const Cluster& cluster, const MachineCosts& machine) {
  if (machine.kernels) {
    CostProfile own = *machine.kernels;
    own.link_limit = machine.link_limit;
    return own;
  }
  const GpuModel& gpu = cluster.gpu_model();
  const SoftwareStack& stack = stack_of(job);
  CostProfile profile =
      software_profile(gpu, attention_of(job), stack, job.model().has_experts());
  if (job.model().has_experts() && !job.model().experts().padded()) {
    profile.grouped = grouped_rate(gpu, stack);
  }
  take_host(job, cluster, stack, profile);
  profile = with_measured(std::move(profile), machine.node, gpu);
  profile.link_limit = machine.link_limit;
  return over_links(std::move(profile), cluster);
}

std::vector<BlockPrice> block_prices(const Cluster& cluster, const StepGraph& graph,
                                     const BlockGroups& groups, const ExchangePrice& exchanges,
                                     const MachineCosts& machine) {
  const Precision precision = product_precision(precision_of(graph.job()));
  const CostProfile profile = job_profile(graph.job(), cluster, machine);
  std::vector<BlockPrice> prices;
  for (const Block& block : graph.blocks()) {
    prices.push_back(price(block, cluster.gpu_model(), precision, groups, profile));
  }
  const Seconds rest = rest_of_step(machine, graph.job()) +
                       exchange_load(graph, profile.beside, prices, exchanges);
  for (const std::uint32_t block : optimizer_blocks(graph)) {
    if (machine.update) {  // paced ranks are slow in their micro-batches only
      prices[block].compute = prices[block].products = prices[block].memory = {};
      prices[block].tensor = *machine.update * graph.blocks()[block].kernels.front().m + rest;
    } else {
      prices[block].compute += rest;
    }
  }
  return prices;
}

ExchangePrice planned_exchanges(PlanBase& base, CollectiveAlgorithm algorithm) {
  if (algorithm == CollectiveAlgorithm::automatic) algorithm = CollectiveAlgorithm::ring;
  return [&base, algorithm](std::uint32_t stage, Communicator which, OpCollective kind) {
    return base.seconds_per_byte(stage, which, kind_of(kind), algorithm);
  };
}

Stepper::Stepper(const Cluster& cluster, StepGraph& graph, const std::vector<GpuId>& placement,
                 Options options, const EngineFactory& engine, Whole whole)
    : cluster_(cluster),
      graph_(graph),
      placement_(placement),
      options_(options),
      profile_(job_profile(graph.job(), cluster, options.machine)),
      rest_(rest_of_step(options.machine, graph.job())),
      groups_(whole.stepper != nullptr && is_within_replicas(graph)
                  ? whole.stepper->groups_.of(whole.kept)
                  : replica_groups(graph, cluster, placement)),
      plan_base_(cluster, graph, profile_, placement,
                 whole.stepper == nullptr
                     ? estimates::Whole{}
                     : estimates::Whole{&whole.stepper->plan_base_, std::move(whole.kept)}),
      prices_(block_prices(cluster, graph, block_groups(graph, cluster, groups_),
                           planned_exchanges(plan_base_, options.algorithm), options.machine)),
      codes_(codes_on(options.machine, graph.job(), cluster)),
      engine_(make(engine, engine_room(cluster, graph, options.full_detail))) {}

void Stepper::set_collectives(const CollectiveTable& table) {
  if (table == collectives_) return;
  collectives_ = table;
  needs_.reset();
}

void Stepper::set_codecs(const std::vector<CodecRule>& rules) {
  if (key_of(rules) == key_of(codes_.rules())) return;
  codes_.set_rules(rules);
  needs_.reset();
}

void Stepper::set_input(std::uint32_t workers, std::uint32_t prefetch) {
  graph_.set_input(workers, prefetch);
}

void Stepper::set_read_time(Nanos read) { graph_.set_read_time(read); }

PlanRequest Stepper::plan_request(const HardwareState& state,
                                  const std::vector<std::uint32_t>& micro_batches) {
  return {.cluster = cluster_,
          .graph = graph_,
          .profile = profile_,
          .placement = placement_,
          .state = state,
          .micro_batches = micro_batches,
          .full_detail = options_.full_detail,
          .shares_links = engine_->shares_links(),
          .algorithm = options_.algorithm,
          .collectives = collectives_,
          .codes = &codes_,
          .base = &plan_base_};
}

std::unique_ptr<SimulatedStep> Stepper::plan(const PlanRequest& request) {
  auto made = std::make_unique<SimulatedStep>();
  made->plan = make_plan(request);
  made->wire_bytes = wire_bytes(made->plan);
  ++simulated_;
  most_classes_ = std::max<std::uint64_t>(most_classes_, made->plan.classes.size());
  return made;
}

std::shared_ptr<const SimulatedStep> Stepper::simulate_step(const PlanRequest& request,
                                                            std::vector<TimedChange> changes) {
  std::unique_ptr<SimulatedStep> made = plan(request);
  made->run = run_iteration({.engine = *engine_,
                             .graph = graph_,
                             .plan = made->plan,
                             .prices = prices_,
                             .state = request.state,
                             .changes = std::move(changes),
                             .slices = options_.slices});
  return made;
}

std::vector<LinkId> Stepper::links_crossed_by(const HardwareState& state,
                                              const std::vector<std::uint32_t>& micro_batches) {
  return crossed_links(plan_request(state, micro_batches));
}

LinkNeed Stepper::link_need(LinkId link) {
  if (!needs_) {
    // Flows do not depend on the replicas' shares of the batch.
    const std::uint32_t each = std::max(1u, graph_.micro_batches() / graph_.data());
    const HardwareState healthy;
    const std::vector<std::uint32_t> shares(graph_.data(), each);
    needs_ = link_needs(plan_request(healthy, shares));
  }
  const auto found = needs_->find(link.value);
  return found == needs_->end() ? LinkNeed{} : found->second;
}

std::uint64_t Stepper::flows_over(LinkId link) { return link_need(link).flows; }

bool Stepper::has_room(LinkId link, double slow) {
  constexpr double kRounding = 1e-9;
  if (cluster_.link(link).kind < LinkKind::leaf_up) return false;
  const double there = link_rate(cluster_, profile_, link) / slow;
  return link_need(link).bandwidth < there * (1 - kRounding);
}

std::unique_ptr<SimulatedStep> Stepper::planned(const HardwareState& state,
                                                const std::vector<std::uint32_t>& micro_batches,
                                                std::vector<LinkId> pinned) {
  PlanRequest request = plan_request(state, micro_batches);
  request.pinned = std::move(pinned);
  return plan(request);
}

/// Rings, and both steps of a coded exchange, send the size less the rank's own part; an all-reduce
/// sends twice as much.
double Stepper::wire_bytes(const Plan& plan) {
  double sum = 0;
  const std::uint32_t most = plan.most_micro_batches();
  for (std::uint32_t worker = 0; worker < plan.workers(); ++worker) {
    const ReplicaClass& members = plan.classes[worker / plan.stages];
    const double ranks = static_cast<double>(members.members.size()) * graph_.members();
    const std::uint32_t stage = worker % plan.stages;
    for (const Op& op : graph_.program(stage, members.micro_batches, most).ops) {
      if (op.kind != OpKind::collective || op.phase != Phase::gradient) continue;
      const auto& groups = plan.groups_of[worker];
      const auto own = std::find_if(groups.begin(), groups.end(), [&](std::uint32_t group) {
        return plan.groups[group].communicator == op.communicator;
      });
      const double carried = plan.collective(*own, op.collective, op.bytes).carried;
      const std::uint32_t among = graph_.communicator_size(op.communicator);
      const double passes = op.collective == OpCollective::all_reduce ? 2 : 1;
      sum += ranks * passes * carried * (among - 1) / among;
    }
  }
  return sum;
}

std::shared_ptr<const SimulatedStep> Stepper::step(
    const HardwareState& state, const std::vector<std::uint32_t>& micro_batches) {
  if (options_.full_detail) return simulate_step(plan_request(state, micro_batches), {});
  if (memo_.size() >= kMostRemembered) memo_.clear();
  const Input& input = graph_.job().input();
  std::shared_ptr<const SimulatedStep>& known =
      memo_[{state, micro_batches, collectives_, key_of(codes_.rules()),
             {input.workers(), input.prefetch(), input.read()}}];
  if (!known) known = simulate_step(plan_request(state, micro_batches), {});
  return known;
}

std::shared_ptr<const SimulatedStep> Stepper::step_with(
    const HardwareState& state, const std::vector<std::uint32_t>& micro_batches,
    const std::vector<Change>& changes) {
  PlanRequest request = plan_request(state, micro_batches);
  std::vector<TimedChange> timed;
  for (const Change& change : changes) {
    TimedChange next{
        .at = change.at, .slow = {}, .bandwidth = {}, .down = {}, .fatal = change.fatal};
    for (const RankId rank : change.ranks) {
      next.slow.emplace_back(rank, change.state.slow_of(rank));
      request.apart.push_back(rank);
    }
    for (const LinkId link : change.links) {
      next.bandwidth.emplace_back(link, effective_bandwidth(link, change.state));
      if (change.state.down.contains(link.value)) next.down.push_back(link);
      request.pinned.push_back(link);
    }
    timed.push_back(std::move(next));
  }
  return simulate_step(request, std::move(timed));
}

double Stepper::nominal_micro_batch_time() {
  double slowest = 0;
  for (std::uint32_t stage = 0; stage < graph_.pipeline(); ++stage) {
    double total = 0;
    for (const Op& op : graph_.program(stage, 1).ops) {
      if (op.kind != OpKind::compute) continue;
      if (op.phase != Phase::forward && op.phase != Phase::backward) continue;
      total += prices_[op.block].compute.value + prices_[op.block].tensor.value;
    }
    slowest = std::max(slowest, total);
  }
  return slowest;
}

double Stepper::effective_bandwidth(LinkId link, const HardwareState& state) const {
  return link_rate(cluster_, profile_, link) / state.link_slow_of(link);
}

}  // namespace orrery::estimates
