#include "traces/workload/recorded_step.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/schema/json.hpp"
#include "core/schema/yaml_loader.hpp"
#include "traces/chakra/recorded_op.hpp"
#include "traces/workload/job_choices.hpp"
#include "traces/workload/recorded_passes.hpp"
#include "traces/workload/sharding.hpp"

namespace orrery {
namespace {

/// Largest collective among all ranks that counts as one of the data-parallel group: norms, flags
/// and counts.
constexpr double kSmallCollective = 64 * 1024;

/// Keys that are allowed beside `program`.
constexpr std::array<std::string_view, 8> kAllowed{"program",  "sequence_length", "global_batch",
                                                   "layout",   "max_share",       "stack",
                                                   "software", "gradient_bytes"};

std::uint32_t shard_group(const Job& job, std::uint32_t data) {
  const std::uint32_t group = job.layout().shard_group();
  return group == 0 ? data : group;
}

void check_groups(const Job& job, std::vector<Problem>& out) {
  std::set<std::pair<std::uint32_t, std::uint32_t>> told;
  const RecordedStep& step = job.program().step();
  std::vector<const RecordedOp*> ops;
  for (std::uint32_t stage = 0; stage < stages_of(step); ++stage) {
    for (const RecordedOp& op : ops_of(step, stage)) ops.push_back(&op);
  }
  for (const RecordedOp* each : ops) {
    const RecordedOp& op = *each;
    if (op.collective().empty() || is_message(op)) continue;
    const std::optional<Communicator> which = recorded_communicator(job, op);
    if (which &&
        (which == Communicator::tensor || collective_of(op) != RecordedCollective::all_to_all))
      continue;
    if (!told.emplace(op.size(), op.stride()).second) continue;
    const std::string group = fmt::format("0, {}, ... ({} ranks)", op.stride(), op.size());
    out.push_back(
        {"layout", which ? fmt::format("the recording has an all-to-all among the ranks {}: only "
                                       "tensor-parallel groups may have one",
                                       group)
                         : fmt::format("the recording has a collective among the ranks {}, which "
                                       "are no group of this layout: write the layout.tensor or "
                                       "layout.shard_group of the recorded program",
                                       group)});
  }
}

void check_stages(const Job& job, std::vector<Problem>& out) {
  const RecordedStep& step = job.program().step();
  const Layout& layout = job.layout();
  const auto as_recorded = [&out](const char* key, std::uint32_t recorded, std::uint32_t value) {
    if (std::max(1u, value) == recorded) return;
    out.push_back(
        {fmt::format("layout.{}", key),
         fmt::format("expected {}, as recorded, found {}: leave the key out", recorded, value)});
  };
  as_recorded("pipeline", stages_of(step), layout.pipeline());
  as_recorded("chunks", recorded_chunks(step), layout.chunks());
  const bool apart = rank_order_of(layout) == RankOrder::pipeline_last;
  if (stages_of(step) == 1) return;
  if (layout.data() > 1 && recorded_data(job) > 1 && apart != step.stages_apart()) {
    out.push_back({"layout.order", "expected the recorded order: leave the key out"});
  }
  const std::uint32_t data = std::max(1u, layout.data());
  const std::uint32_t most = (job.global_batch() + data - 1) / data;
  if (!has_replayed_order(step, most)) {
    out.push_back(
        {"global_batch",
         fmt::format("expected at most {} micro-batches for a replica, found {}: the recording of "
                     "the schedule {} has no part that repeats, record more micro-batches",
                     step.micro_batches(), most, step.schedule())});
  }
}

}  // namespace

std::vector<std::string> keys_beside_program(const Job& job) {
  Job plain, whole = job;
  if (job.model().ByteSizeLong() == 0) whole.clear_model();
  fill_defaults(plain);
  fill_defaults(whole);
  const auto without = to_json(plain), with = to_json(whole);
  std::vector<std::string> keys;
  const auto& type = *Job::descriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const std::string& name = type.field(i)->name();
    const bool allowed = std::find(kAllowed.begin(), kAllowed.end(), name) != kAllowed.end();
    if (!allowed && with[name] != without[name]) keys.push_back(name);
  }
  return keys;
}

void complete_program(Job& job) {
  const RecordedStep& step = job.program().step();
  *job.mutable_model()->mutable_recorded() = step.parameters();
  Layout& layout = *job.mutable_layout();
  const std::uint32_t tensor = std::max(1u, layout.tensor()), stages = stages_of(step);
  if (layout.data() == 0) layout.set_data(std::max(1u, step.ranks() / (tensor * stages)));
  if (!layout.has_pipeline()) layout.set_pipeline(stages);
  if (!layout.has_chunks()) layout.set_chunks(recorded_chunks(step));
  if (!layout.has_order() && stages > 1 && step.stages_apart()) layout.set_order("pipeline-last");
  if (step.sharded() && !layout.has_shard()) set_sharding(layout, Sharding::parameters);
  if (job.sequence_length() == 0) job.set_sequence_length(std::max(1u, step.tokens()));
  if (job.global_batch() == 0) job.set_global_batch(step.micro_batches() * layout.data());
  if (!job.has_gradient_bytes() && step.gradient_value_bytes() > 0) {
    job.set_gradient_bytes(step.gradient_value_bytes());
  }
}

std::uint32_t recorded_data(const Job& job) {
  const RecordedStep& step = job.program().step();
  return std::max(1u, step.ranks() / (std::max(1u, job.layout().tensor()) * stages_of(step)));
}

double recorded_share(const Job& job) {
  if (!job.program().step().sharded()) return 1;
  return double{1} * shard_group(job, recorded_data(job)) / shard_group(job, job.layout().data());
}

std::optional<Communicator> recorded_communicator(const Job& job, const RecordedOp& op) {
  const std::uint32_t tensor = std::max(1u, job.layout().tensor()), data = recorded_data(job);
  const std::uint32_t shard = shard_group(job, data);
  // Neighbours of a replica are its stages, unless those of a stage are its replicas.
  const RecordedStep& step = job.program().step();
  const std::uint32_t apart = step.stages_apart() ? 1 : stages_of(step);
  const auto is = [&op](std::uint32_t size, std::uint32_t stride) {
    return op.size() == size && op.stride() == stride;
  };
  if (tensor > 1 && is(tensor, 1)) return Communicator::tensor;
  const bool sharded =
      job.program().step().sharded() && collective_of(op) != RecordedCollective::all_reduce;
  if (is(data, tensor * apart)) {
    return sharded && shard == data ? Communicator::shard : Communicator::gradient;
  }
  if (shard < data && is(shard, tensor * apart)) return Communicator::shard;
  if (shard < data && is(data / shard, shard * tensor * apart)) return Communicator::replicate;
  if (is(tensor * data, 1) && op.bytes() <= kSmallCollective) return Communicator::gradient;
  return {};
}

void check_program(const Job& job, std::vector<Problem>& out) {
  const RecordedStep& step = job.program().step();
  const Layout& layout = job.layout();
  const auto only_one = [&out](const char* key, std::uint32_t value) {
    if (value <= 1) return;
    out.push_back(
        {fmt::format("layout.{}", key),
         fmt::format("expected 1 for a recorded program, found {}: only the data-parallel "
                     "size may differ from the recording",
                     value)});
  };
  only_one("context", layout.context());
  only_one("expert", layout.expert());
  check_stages(job, out);
  const std::uint32_t tensor = std::max(1u, layout.tensor());
  if (step.ranks() % (tensor * stages_of(step)) != 0) {
    out.push_back({"layout.tensor", fmt::format("tensor = {} must divide the {} recorded ranks",
                                                tensor, step.ranks() / stages_of(step))});
    return;
  }
  if (step.sharded() != (sharding_of(layout) != Sharding::nothing)) {
    out.push_back(
        {"layout.shard", fmt::format("expected {}, as recorded, found '{}': leave the key out",
                                     step.sharded() ? "a shard" : "'nothing'", layout.shard())});
  }
  if (layout.shard_group() > 0 && (layout.data() % layout.shard_group() != 0 ||
                                   recorded_data(job) % layout.shard_group() != 0)) {
    out.push_back({"layout.shard_group",
                   fmt::format("shard_group = {} must divide data = {} and the recorded {}",
                               layout.shard_group(), layout.data(), recorded_data(job))});
    return;
  }
  check_groups(job, out);
}

}  // namespace orrery
