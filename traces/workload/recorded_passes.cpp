#include "traces/workload/recorded_passes.hpp"

#include <algorithm>

#include "traces/chakra/recorded_op.hpp"

namespace orrery {
namespace {

using Kind = Pass::Kind;

/// Order in which all stages of a recording run their passes.
enum class Schedule : std::uint8_t { one_f_one_b, forward_first, other };

std::vector<Pass> order_of(const std::vector<RecordedPass>& passes) {
  std::vector<Pass> order;
  order.reserve(passes.size());
  for (const RecordedPass& each : passes) order.push_back(each.pass);
  return order;
}

PipelinePlace place_of(const RecordedStep& step, std::uint32_t stage,
                       std::uint32_t micro_batches) {
  return {.stage = stage,
          .stages = stages_of(step),
          .chunks = recorded_chunks(step),
          .micro_batches = micro_batches};
}

/// Returns all forward passes, then all backward passes.
std::vector<Pass> forward_first(std::uint32_t micro_batches) {
  std::vector<Pass> order;
  for (const Kind kind : {Kind::forward, Kind::backward}) {
    for (std::uint32_t i = 0; i < micro_batches; ++i) order.push_back({kind, i, 0});
  }
  return order;
}

Schedule schedule_of(const RecordedStep& step) {
  const std::uint32_t count = step.micro_batches();
  bool alternates = true, apart = recorded_chunks(step) == 1;
  for (std::uint32_t stage = 0; stage < stages_of(step); ++stage) {
    const std::vector<Pass> order = order_of(recorded_passes(step, stage));
    alternates = alternates && order == pass_order(place_of(step, stage, count));
    apart = apart && order == forward_first(count);
  }
  if (alternates) return Schedule::one_f_one_b;
  return apart ? Schedule::forward_first : Schedule::other;
}

}  // namespace

std::vector<RecordedPass> recorded_passes(const RecordedStep& step, std::uint32_t stage) {
  std::vector<RecordedPass> passes;
  const RecordedOps& ops = ops_of(step, stage);
  const RecordedOp* before = nullptr;
  for (int i = 0; i < ops.size(); ++i) {
    const RecordedOp& op = ops[i];
    const RecordedPhase phase = phase_of(op);
    if (phase == RecordedPhase::update) continue;
    // Receives begin a pass. A send ends one, and its chunk is that of the receiver.
    const bool sends = collective_of(op) == RecordedCollective::send;
    const bool begins = collective_of(op) == RecordedCollective::receive &&
                        (before == nullptr || collective_of(*before) != collective_of(op));
    const bool goes_on = before != nullptr && !begins && phase_of(*before) == phase &&
                         before->micro_batch() == op.micro_batch() &&
                         (sends || passes.back().pass.chunk == op.chunk());
    if (!goes_on) {
      const std::uint32_t chunk = op.chunk();
      Pass pass{phase == RecordedPhase::forward ? Kind::forward : Kind::backward,
                op.micro_batch(), chunk};
      const bool again = std::any_of(passes.begin(), passes.end(), [&](const RecordedPass& each) {
        return each.pass == pass;
      });
      if (again && pass.kind == Kind::backward) pass.kind = Kind::weights;
      passes.push_back({pass, {}});
    }
    passes.back().ops.push_back(i);
    before = &op;
  }
  return passes;
}

std::uint32_t recorded_chunks(const RecordedStep& step) {
  std::uint32_t chunks = 1;
  for (std::uint32_t stage = 0; stage < stages_of(step); ++stage) {
    for (const RecordedOp& op : ops_of(step, stage)) chunks = std::max(chunks, op.chunk() + 1);
  }
  return chunks;
}

std::vector<Pass> replayed_order(const RecordedStep& step, std::uint32_t stage,
                                 std::uint32_t micro_batches) {
  std::vector<Pass> order = order_of(recorded_passes(step, stage));
  if (micro_batches <= step.micro_batches()) {
    std::erase_if(order, [=](const Pass& each) { return each.micro_batch >= micro_batches; });
    return order;
  }
  switch (schedule_of(step)) {
    case Schedule::one_f_one_b: return pass_order(place_of(step, stage, micro_batches));
    case Schedule::forward_first: return forward_first(micro_batches);
    case Schedule::other: break;
  }
  std::vector<Pass> first = order;
  std::erase_if(first, [](const Pass& each) { return each.micro_batch > 0; });
  for (std::uint32_t more = step.micro_batches(); more < micro_batches; ++more) {
    for (Pass& each : first) each.micro_batch = more;
    order.insert(order.end(), first.begin(), first.end());
  }
  return order;
}

}  // namespace orrery
