#include "policies/run/policy_bench.hpp"

#include <utility>

#include "core/error.hpp"

namespace orrery {
namespace {

constexpr std::uint32_t kMicroBatchesOfReplica = 10;

Cluster bench_cluster(std::uint32_t nodes, std::uint32_t gpus_per_node) {
  GpuModel gpu{};
  gpu.name = "bench";
  Cluster::Shape shape{};
  shape.nodes = nodes;
  shape.gpus_per_node = gpus_per_node;
  shape.nics_per_node = 1;
  shape.nodes_per_unit = nodes;
  shape.spines = 1;
  return {std::move(gpu), shape, Price{}};
}

}  // namespace

PolicyBench::PolicyBench(std::uint32_t nodes, std::uint32_t gpus_per_node)
    : cluster_(bench_cluster(nodes, gpus_per_node)), world_(cluster_) {}

void PolicyBench::apply(Event event) {
  world_.apply(event, now_);
  unseen_.push_back(std::move(event));
}

JobId PolicyBench::start_job(std::uint32_t gpus) {
  JobSpec spec;
  spec.id = {world_.jobs().submitted()};
  spec.name = "bench";
  spec.gpus = gpus;
  spec.layout.data = gpus;
  spec.least_gpus = 1;
  spec.micro_batches = kMicroBatchesOfReplica * gpus;
  spec.max_micro_batches = spec.micro_batches;
  spec.can = Kinds<Setting>::all();
  Standing where{.gpus = {}, .layout = spec.layout};
  for (GpuId gpu{0}; gpu.value < cluster_.gpus() && where.gpus.size() < gpus; ++gpu.value) {
    if (world_.state().owner[gpu.value] != ClusterState::kNobody) continue;
    where.gpus.push_back(gpu);
  }
  ensure(where.gpus.size() == gpus, "expected enough free GPUs for the job");
  const JobId id = spec.id;
  apply(JobSubmitted{std::move(spec)});
  apply(JobStarted{.job = id, .epoch = {1}, .from = 0, .where = std::move(where)});
  return id;
}

Event PolicyBench::loss_of(JobId job, std::vector<RankId> ranks) const {
  return RanksLost{job, std::move(ranks), {world_.jobs()[job].epoch.value + 1}};
}

std::vector<Decision> PolicyBench::observe(Policy& policy, std::vector<Event> events) {
  Context context{rng_, {Kinds<Action>::all(), Kinds<Setting>::all()}};
  if (started_ != &policy) policy.start(context, cluster_, nullptr);
  started_ = &policy;
  world_.begin_batch();
  for (Event& event : events) apply(std::move(event));
  const std::vector<Event> shown = std::exchange(unseen_, {});
  const Observation seen{.now = now_,
                         .sequence = calls_++,
                         .events = shown,
                         .cluster = cluster_,
                         .state = world_.state(),
                         .jobs = world_.jobs(),
                         .samples = samples_};
  DecisionList decisions(next_decision_);
  policy.observe(context, seen, decisions);
  next_decision_ = decisions.next();
  return decisions.items();
}

}  // namespace orrery
