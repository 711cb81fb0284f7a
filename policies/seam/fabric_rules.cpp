#include "policies/seam/fabric_rules.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "core/schema/yaml_loader.hpp"
#include "traces/scenario/live_fabric.hpp"
#include "traces/workload/job_choices.hpp"
#include "traces/workload/layout_check.hpp"
#include "traces/workload/sharding.hpp"

namespace orrery {
namespace {

/// Returns true if the steps of the job read data. Live runs, which a built-in model may have, read
/// none; the input of a recorded step is part of its computation.
bool has_read_data(const Job& job) {
  return job.has_input() && !job.has_program() && job.model().builtin().empty();
}

/// Returns the fabric of the live run; nothing for a model that is only simulated.
std::optional<LiveFabric> fabric_of(const Scenario& scenario) {
  if (scenario.job().model().builtin().empty()) return {};
  return live_fabric(scenario.live());
}

constexpr std::uint32_t kMostTerms = 1024;             // room of a FixedPointSum
constexpr std::uint32_t kMostSequences = 100'000'000;  // limit of Job.global_batch

std::string first_problem(Job job) {
  fill_defaults(job);
  const auto problems = job_problems(job, false);
  return problems.empty() ? "" : "job." + problems.front().path + ": " + problems.front().message;
}

bool shards_gradients(const Scenario& scenario) {
  return sharding_of(scenario.job().layout()) != Sharding::nothing;
}

std::string objection(const Scenario& scenario, const CodecRules& rules) {
  if (shards_gradients(scenario)) return "sharded gradients cannot be compressed";
  if (fabric_of(scenario) == LiveFabric::nccl) return "NCCL cannot sum compressed gradients";
  const bool coded = std::any_of(rules.begin(), rules.end(),
                                 [](const CodecRule& each) { return each.codec != Codec::none; });
  if (!coded || !reproducible_sums(scenario)) return {};
  return "live.reproducible: gradients of reproducible sums cannot be compressed";
}

/// Returns true if the scenario may call collectives of the kind in a step. A recorded program, or
/// a trace, may call any.
bool may_call(const Scenario& scenario, CollectiveKind kind) {
  const Layout& layout = scenario.job().layout();
  if (!scenario.has_job() || scenario.job().has_program()) return true;
  switch (kind) {
    case CollectiveKind::all_reduce: return true;
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::all_gather:
      return sharding_of(layout) != Sharding::nothing || layout.tensor() > 1 ||
             layout.context() > 1;
    case CollectiveKind::all_to_all: return layout.expert() > 1 || layout.context() > 1;
    case CollectiveKind::send_receive: return layout.pipeline() > 1;
    case CollectiveKind::broadcast: return false;
  }
  return true;
}

/// Returns the reason why a rule has no collective to hold for. A rule that leaves the choice to
/// the fabric changes nothing and may stay in a table.
std::string unused_rule(const Scenario& scenario, const CollectiveTable& table) {
  for (const CollectiveRule& rule : table) {
    const bool chooses = rule.algorithm != CollectiveAlgorithm::automatic;
    if (!chooses || may_call(scenario, rule.kind)) continue;
    return fmt::format("job.layout: the job calls no {}, for which the table has the algorithm {}",
                       name_of(rule.kind), name_of(rule.algorithm));
  }
  return {};
}

std::string objection(const Scenario& scenario, const CollectiveTable& table) {
  using enum CollectiveAlgorithm;
  if (std::string why = unused_rule(scenario, table); !why.empty()) return why;
  if (fabric_of(scenario) != LiveFabric::grpc) return {};
  const bool fine = std::all_of(table.begin(), table.end(), [](const CollectiveRule& rule) {
    return rule.kind != CollectiveKind::all_reduce || rule.algorithm == automatic ||
           rule.algorithm == ring || rule.algorithm == tree || rule.algorithm == halving_doubling;
  });
  return fine ? "" : "ranks on CPUs sum by ring, tree or halving-doubling";
}

/// Returns the reason why the run writes no checkpoints to the tier.
std::string objection(const Scenario& scenario, Tier tier) {
  if (tier == Tier::storage && scenario.checkpoints().storage().empty()) {
    return "checkpoints.storage: expected a folder for checkpoints of the tier storage, found "
           "none; name one, or use another tier";
  }
  if (tier != Tier::peer || scenario.cluster().nodes() > 1) return {};
  return "tier peer: expected a cluster of 2 nodes or more, so that another node can hold a copy, "
         "found 1 node; use the tier memory or local-disk";
}

std::string objection(const Scenario& scenario, const CheckpointPlan& plan) {
  if (plan.every_steps > 0 && !scenario.has_checkpoints()) {
    return "checkpoints: this run has no folder for checkpoints";
  }
  return objection(scenario, plan.tier);
}

std::string objection(const Scenario& scenario, const Batch& batch) {
  if (reproducible_sums(scenario) && batch.micro_batches > kMostTerms) {
    return fmt::format(
        "live.reproducible: a reproducible sum has room for {} micro-batches, not {}", kMostTerms,
        batch.micro_batches);
  }
  Job other = scenario.job();
  const std::uint64_t sequences = std::uint64_t{batch.micro_batches} * other.micro_batch();
  if (sequences > kMostSequences) {
    return fmt::format("expected a batch of at most {} sequences, found {}", kMostSequences,
                       sequences);
  }
  other.set_global_batch(static_cast<std::uint32_t>(sequences));
  other.mutable_layout()->set_data(std::min(other.layout().data(), batch.micro_batches));
  return first_problem(other);
}

template <class Any>
std::string objection(const Scenario&, const Any&) {
  return {};
}

struct Refusal {
  const Scenario& scenario;
  bool is_placed;  ///< the job has GPUs, whether or not their ranks still work

  std::string operator()(const Assign& assign) const {
    if (!assign.is_release()) {
      std::string why = layout_objection(scenario.job(), assign.layout);
      if (!why.empty()) return why;
    }
    if (!fabric_of(scenario)) return {};
    if (assign.is_release()) return {};
    // A new beginning would lose the training without a word.
    if (is_placed && assign.state == StateFrom::none) {
      return "expected the state of a peer or a checkpoint for a job with GPUs, found none: "
             "release its GPUs first";
    }
    const std::vector<GpuId> gpus = assign.gpus.to_vector();
    return std::is_sorted(gpus.begin(), gpus.end()) ? "" : "expected GPUs in ascending order";
  }
  std::string operator()(const Configure& configure) const {
    return std::visit([this](const auto& what) { return objection(scenario, what); },
                      configure.what);
  }
  std::string operator()(const Save& save) const {
    if (!scenario.has_checkpoints()) {
      return "checkpoints: this run has no folder for checkpoints";
    }
    return objection(scenario, save.tier);
  }
};

}  // namespace

Kinds<Setting> settable(const Scenario& scenario) {
  auto all = Kinds<Setting>::of<Shares, CollectiveTable, CodecRules, OnLoss, Batch, Delay>();
  if (scenario.has_checkpoints()) all = all | Kinds<Setting>::of<CheckpointPlan>();
  // Live runs, which a built-in model may have, set no limits of power.
  if (scenario.job().model().builtin().empty()) all = all | Kinds<Setting>::of<PowerCap>();
  if (has_read_data(scenario.job())) all = all | Kinds<Setting>::of<Prefetch>();
  return all;
}

std::string fabric_refusal(const Scenario& scenario, const Decision& decision, bool is_placed) {
  return std::visit(Refusal{scenario, is_placed}, decision.what);
}

bool can_change_layout(const Job& job) {
  return !job.has_program() && !job.has_pace() && job.model().builtin().empty();
}

ParallelLayout layout_of(const Layout& layout) {
  return {.tensor = layout.tensor(),
          .context = layout.context(),
          .pipeline = layout.pipeline(),
          .data = layout.data(),
          .pipeline_last = rank_order_of(layout) == RankOrder::pipeline_last};
}

Job with_layout(Job job, const ParallelLayout& layout) {
  Layout& sizes = *job.mutable_layout();
  sizes.set_tensor(layout.tensor);
  sizes.set_context(layout.context);
  sizes.set_pipeline(layout.pipeline);
  sizes.set_data(layout.data);
  return job;
}

std::string layout_objection(const Job& job, const ParallelLayout& layout) {
  return first_problem(with_layout(job, layout));
}

std::string replicas_objection(const Job& job, std::uint32_t replicas) {
  Job other = job;
  other.mutable_layout()->set_data(replicas);
  return first_problem(std::move(other));
}

std::uint32_t most_gpus(const Job& job, bool elastic, std::uint32_t gpus) {
  const Layout& layout = job.layout();
  const std::uint32_t replica = layout.tensor() * layout.context() * layout.pipeline();
  std::uint32_t replicas = layout.data();
  if (elastic) {
    std::uint32_t most = gpus / replica;
    while (most > replicas && !replicas_objection(job, most).empty()) --most;
    replicas = std::max(replicas, most);
  }
  return replicas * replica;
}

std::uint32_t max_micro_batches(const Scenario& scenario, std::uint32_t micro_batches,
                                std::uint32_t replicas) {
  const double even = static_cast<double>(micro_batches) / replicas;
  return static_cast<std::uint32_t>(
      std::max(std::ceil(even), std::floor(even * scenario.job().max_share())));
}

OnLoss loss_response(const Scenario& scenario, const Needs& needs, bool applied) {
  const auto said = find_named<LossResponse>(scenario.survival().on_loss());
  if (said) return {*said};
  const bool decided = applied && needs.actions.has<Assign>();
  return {decided ? LossResponse::go_on : LossResponse::replace};
}

bool reproducible_sums(const Scenario& scenario) {
  return !scenario.job().model().builtin().empty() && scenario.live().reproducible();
}

}  // namespace orrery
