#include "traces/published/layout_reader.hpp"

#include <algorithm>
#include <string>

#include "core/schema/yaml_tree.hpp"
#include "traces/published/published_options.hpp"
#include "traces/workload/job_choices.hpp"
#include "traces/workload/model.hpp"
#include "traces/workload/rank_shape.hpp"
#include "traces/workload/sharding.hpp"

namespace orrery {
namespace {

/// Returns true if the row's words name sequence parallelism by all-to-all (arXiv:2309.14509).
bool names_ulysses(const TableRow& row) {
  for (const std::string* text : {&row.overlap, &row.attention, &row.framework}) {
    if (mentions(lower_case(*text), "ulysses")) return true;
  }
  return false;
}

}  // namespace

/// Sets the number of chunks. A run without a pipeline has one, whatever its table says, unless
/// the table's number is impossible.
void LayoutReader::read_chunks() {
  const std::uint32_t stages = layout().pipeline();
  const std::uint32_t published =
      stages > 1 ? draft_.or_one(row().vpp, "vpp") : row().vpp.value_or(1);
  const std::uint32_t most = std::max(1u, most_parts(draft_.job().model()) / stages);
  if (published > most) {
    throw Refusal{
        fmt::format("vpp is {}, expected at most {} chunks a stage: the {} layers, the "
                    "embedding and the loss on {} stages",
                    published, most, draft_.job().model().layers(), stages)};
  }
  layout().set_chunks(stages > 1 ? published : 1);
}

void LayoutReader::read_context() {
  layout().set_context(draft_.or_one(row().cp, "cp"));
  const std::string kind = lower_case(row().context_kind);
  if (!kind.empty() && !find_named<ContextKind>(kind)) {
    throw Refusal{fmt::format("context_kind is '{}', expected ring or ulysses",
                              shown(row().context_kind))};
  }
  if (layout().context() == 1) return;
  const ContextKind usual = names_ulysses(row()) ? ContextKind::ulysses : ContextKind::ring;
  const ContextKind chosen = kind.empty() ? usual : named<ContextKind>(kind);
  layout().set_context_kind(std::string(name_of(chosen)));
}

void LayoutReader::read_layout() {
  const std::uint32_t gpus = draft_.required_count(row().n_gpus, "n_gpus");
  layout().set_tensor(draft_.required_count(row().tp, "tp"));
  layout().set_pipeline(draft_.required_count(row().pp, "pp"));
  read_context();
  layout().set_expert(row().moe_experts ? draft_.or_one(row().ep, "ep") : 1);
  read_chunks();
  layout().set_order("pipeline-last");
  const double replica = double(layout().tensor()) * layout().pipeline() * layout().context();
  if (row().dp) {
    layout().set_data(*row().dp);
  } else {
    layout().set_data(std::max(1u, static_cast<std::uint32_t>(gpus / replica)));
    draft_.add_assumption("dp {}", layout().data());
  }
  if (replica * layout().data() != gpus) {
    throw Refusal{
        fmt::format("tp x pp x cp x dp = {} is not n_gpus = {}", replica * layout().data(), gpus)};
  }
  if (row().moe_experts && row().expert_tensor) layout().set_expert_tensor(*row().expert_tensor);
  bool split = draft_.habits().splits_tokens;
  if (row().seq_parallel) {
    split = *row().seq_parallel == 1;
  } else if (layout().tensor() > 1) {
    draft_.add_assumption("sequence parallelism {}", split ? "on" : "off");
  }
  layout().set_sequence_parallel(split);
}

void LayoutReader::read_mode(const std::string& text) {
  if (text.empty()) {
    set_sharding(layout(), draft_.habits().shard);
    if (layout().data() > 1) draft_.add_assumption("shard {}", layout().shard());
  } else if (mentions(text, "zero-2") || mentions(text, "zero2") || mentions(text, "grad/opt")) {
    set_sharding(layout(), Sharding::gradients);
  } else if (mentions(text, "fsdp") || mentions(text, "hsdp") || mentions(text, "zero-3") ||
             mentions(text, "zero3")) {
    set_sharding(layout(), draft_.splits_batch() ? Sharding::gradients : Sharding::parameters);
  } else if (mentions(text, "zero-1") || mentions(text, "zero1") ||
             mentions(text, "distributed optimizer")) {
    set_sharding(layout(), Sharding::optimizer);
  } else if (text.starts_with("none") || text == "ddp" || text == "zero-0" || text == "zero0") {
    set_sharding(layout(), Sharding::nothing);
  } else {
    throw Refusal{fmt::format("dp_shard '{}' is not known", shown(row().dp_shard))};
  }
}

void LayoutReader::read_sharding() {
  const std::string text = lower_case(row().dp_shard);
  read_mode(text);
  std::uint32_t group =
      number_after(text, "shard group ").value_or(number_after(text, "within ").value_or(0));
  if (text == "hsdp") {
    group = draft_.run().cluster.node().gpus_per_node();
    draft_.add_assumption("shard group {}", group);
  }
  if (mentions(text, "see label")) {
    group = least_group();
    draft_.add_assumption("shard group {}", group);
  }
  const std::uint32_t peers = layout().data() * layout().context();
  const std::uint32_t copies = number_after(text, "data ").value_or(1);  // "HSDP: data 4 x FSDP 64"
  if (copies > 1 && mentions(text, "hsdp") && peers % copies == 0) group = peers / copies;
  if (group >= peers) group = 0;
  layout().set_shard_group(group);
}

/// Returns the smallest sharding group of 1, 2, 4, ... nodes whose memory is at most half full of
/// weights, gradients and optimizer state, or the largest of these groups that divides the ranks;
/// the other groups hold copies.
std::uint32_t LayoutReader::least_group() const {
  const double states = 16 * parameter_count(draft_.job().model());
  const double memory = draft_.gpu_memory().value_or(80e9);
  const std::uint32_t peers = layout().data() * layout().context();
  std::uint32_t group = std::min(draft_.run().cluster.node().gpus_per_node(), peers);
  while (group < peers && states / group > memory / 2 && peers % (2 * group) == 0) group *= 2;
  return group;
}

}  // namespace orrery
