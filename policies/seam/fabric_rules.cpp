#include "policies/seam/fabric_rules.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "core/schema/yaml_loader.hpp"
#include "traces/workload/layout_check.hpp"

namespace orrery {
namespace {

enum class Fabric { simulated, grpc, nccl };

Fabric fabric_of(const Scenario& scenario) {
  if (scenario.job().model().builtin().empty()) return Fabric::simulated;
  return scenario.live().fabric() == "nccl" ? Fabric::nccl : Fabric::grpc;
}

constexpr std::uint32_t kMostTerms = 1024;             // room of a FixedPointSum
constexpr std::uint32_t kMostSequences = 100'000'000;  // limit of Job.global_batch

std::string first_problem(Job job) {
  fill_defaults(job);
  const auto problems = job_problems(job, false);
  return problems.empty() ? "" : "job." + problems.front().path + ": " + problems.front().message;
}

bool shards_gradients(const Scenario& scenario) {
  const std::string& shard = scenario.job().layout().shard();
  return !shard.empty() && shard != "nothing";
}

std::string objection(const Scenario& scenario, const CodecRules& rules) {
  if (shards_gradients(scenario)) return "sharded gradients cannot be compressed";
  if (fabric_of(scenario) == Fabric::nccl) return "NCCL cannot sum compressed gradients";
  const bool coded = std::any_of(rules.begin(), rules.end(),
                                 [](const CodecRule& each) { return each.codec != Codec::none; });
  if (!coded || !reproducible_sums(scenario)) return {};
  return "live.reproducible: gradients of reproducible sums cannot be compressed";
}

std::string objection(const Scenario& scenario, const CollectiveTable& table) {
  using enum CollectiveAlgorithm;
  if (fabric_of(scenario) != Fabric::grpc) return {};
  const bool fine = std::all_of(table.begin(), table.end(), [](const CollectiveRule& rule) {
    return rule.kind != CollectiveKind::all_reduce || rule.algorithm == automatic ||
           rule.algorithm == ring || rule.algorithm == tree || rule.algorithm == halving_doubling;
  });
  return fine ? "" : "ranks on CPUs sum by ring, tree or halving-doubling";
}

/// Returns the reason why the run writes no checkpoints to the tier.
std::string objection(const Scenario& scenario, Tier tier) {
  if (tier == Tier::storage && scenario.live().checkpoints().storage().empty()) {
    return "live.checkpoints.storage: expected a folder for checkpoints of the tier storage, found "
           "none; name one, or use another tier";
  }
  if (tier != Tier::peer || scenario.cluster().nodes() > 1) return {};
  return "tier peer: expected a cluster of 2 nodes or more, so that another node can hold a copy, "
         "found 1 node; use the tier memory or local-disk";
}

std::string objection(const Scenario& scenario, const CheckpointPlan& plan) {
  if (plan.every_steps > 0 && !scenario.live().has_checkpoints()) {
    return "live.checkpoints: this run has no folder for checkpoints";
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
      std::string why = replicas_objection(scenario.job(), assign.layout.data);
      if (!why.empty()) return why;
    }
    if (fabric_of(scenario) == Fabric::simulated) return {};
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
    if (!scenario.live().has_checkpoints()) {
      return "live.checkpoints: this run has no folder for checkpoints";
    }
    return objection(scenario, save.tier);
  }
};

}  // namespace

Kinds<Setting> settable(const Scenario& scenario) {
  auto all = Kinds<Setting>::of<Shares, CollectiveTable, CodecRules, OnLoss, Batch, Delay>();
  if (scenario.live().has_checkpoints()) all = all | Kinds<Setting>::of<CheckpointPlan>();
  return all;
}

std::string fabric_refusal(const Scenario& scenario, const Decision& decision, bool is_placed) {
  return std::visit(Refusal{scenario, is_placed}, decision.what);
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
  const std::string& said = scenario.survival().on_loss();
  if (said == "replace") return {LossResponse::replace};
  if (said == "go-on") return {LossResponse::go_on};
  if (said == "hold") return {LossResponse::hold};
  const bool decided = applied && needs.actions.has<Assign>();
  return {decided ? LossResponse::go_on : LossResponse::replace};
}

bool reproducible_sums(const Scenario& scenario) {
  return !scenario.job().model().builtin().empty() && scenario.live().reproducible();
}

}  // namespace orrery
