#include "traces/workload/recorded_passes.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "traces/chakra/recorded_op.hpp"

namespace orrery {
namespace {

using Kind = Pass::Kind;
using Order = std::vector<Pass>;

/// Order in which all stages of a recording run their passes.
enum class Schedule : std::uint8_t { one_f_one_b, forward_first, other };

Order order_of(const std::vector<RecordedPass>& passes) {
  Order order;
  order.reserve(passes.size());
  for (const RecordedPass& each : passes) order.push_back(each.pass);
  return order;
}

PipelinePlace place_of(const RecordedStep& step, std::uint32_t stage, std::uint32_t micro_batches) {
  return {.stage = stage,
          .stages = stages_of(step),
          .chunks = recorded_chunks(step),
          .micro_batches = micro_batches};
}

/// Returns all forward passes, then all backward passes.
Order forward_first(std::uint32_t micro_batches) {
  Order order;
  for (const Kind kind : {Kind::forward, Kind::backward}) {
    for (std::uint32_t i = 0; i < micro_batches; ++i) order.push_back({kind, i, 0});
  }
  return order;
}

/// Recorded passes of all stages, and their order for more micro-batches.
class Pipeline {
 public:
  explicit Pipeline(const RecordedStep& step)
      : step_(step), stages_(stages_of(step)), recorded_(step.micro_batches()) {
    for (std::uint32_t stage = 0; stage < stages_; ++stage) {
      passes_.push_back(recorded_passes(step, stage));
      orders_.push_back(order_of(passes_.back()));
    }
  }

  Schedule schedule() const {
    bool alternates = true, apart = recorded_chunks(step_) == 1;
    for (std::uint32_t stage = 0; stage < stages_; ++stage) {
      alternates = alternates && orders_[stage] == pass_order(place_of(step_, stage, recorded_));
      apart = apart && orders_[stage] == forward_first(recorded_);
    }
    if (alternates) return Schedule::one_f_one_b;
    return apart ? Schedule::forward_first : Schedule::other;
  }

  /// Returns the orders of all stages for more micro-batches than recorded, with a recorded part
  /// repeated; nothing if no part of the recording can be repeated.
  std::optional<std::vector<Order>> extended(std::uint32_t micro_batches) const {
    for (std::uint32_t period = 1; period < recorded_; ++period) {
      for (std::uint32_t first = 0; first + period < recorded_; ++first) {
        std::vector<Order> orders;
        for (const Order& order : orders_) {
          Order longer = repeated(order, first, period, micro_batches);
          if (longer.empty()) break;
          orders.push_back(std::move(longer));
        }
        if (orders.size() < stages_) continue;
        if (is_complete(orders) && is_runnable(orders)) return orders;
      }
    }
    return {};
  }

 private:
  static Order repeated(const Order& order, std::uint32_t first, std::uint32_t period,
                        std::uint32_t micro_batches);
  bool is_complete(const std::vector<Order>& orders) const;
  bool is_runnable(const std::vector<Order>& orders) const;

  const RecordedStep& step_;
  const std::uint32_t stages_, recorded_;
  std::vector<std::vector<RecordedPass>> passes_;  ///< indexed by stage
  std::vector<Order> orders_;                      ///< indexed by stage
};

/// Returns an order whose part from the forward pass of `first` to that of `first + period` is
/// repeated, with later micro-batches each time. Behind that part all micro-batches are later.
/// Returns an empty order if the part does not have the passes of `period` micro-batches.
Order Pipeline::repeated(const Order& order, std::uint32_t first, std::uint32_t period,
                         std::uint32_t micro_batches) {
  const auto begin = std::find(order.begin(), order.end(), Pass{Kind::forward, first, 0});
  const auto end = std::find(order.begin(), order.end(), Pass{Kind::forward, first + period, 0});
  if (begin == order.end() || end == order.end() || end < begin) return {};
  // The gradients of weights are apart in some micro-batches only.
  const auto is_counted = [](const Pass& each) { return each.kind != Kind::weights; };
  const auto of_period = std::count_if(order.begin(), order.end(), [&](const Pass& each) {
    return is_counted(each) && each.micro_batch >= first && each.micro_batch < first + period;
  });
  if (std::count_if(begin, end, is_counted) != of_period) return {};
  Order out(order.begin(), begin);
  const auto append = [&](auto from, auto to, std::uint32_t shift) {
    for (; from != to; ++from) {
      Pass pass = *from;
      pass.micro_batch += shift;
      if (pass.micro_batch < micro_batches) out.push_back(pass);
    }
  };
  std::uint32_t shift = 0;
  // The rest of the order holds the last micro-batches.
  const auto last = std::max_element(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return a.micro_batch < b.micro_batch;
  });
  for (; last->micro_batch + 1 + shift < micro_batches; shift += period) append(begin, end, shift);
  append(begin, end, shift);
  append(end, order.end(), shift);
  return out;
}

/// Returns true if every micro-batch of each stage runs the passes of a recorded one, in the same
/// order.
bool Pipeline::is_complete(const std::vector<Order>& orders) const {
  using Passes = std::vector<std::pair<Kind, std::uint32_t>>;
  const auto by_micro_batch = [](const Order& order) {
    std::vector<Passes> out;
    for (const Pass& pass : order) {
      if (out.size() <= pass.micro_batch) out.resize(pass.micro_batch + 1);
      out[pass.micro_batch].emplace_back(pass.kind, pass.chunk);
    }
    return out;
  };
  for (std::uint32_t stage = 0; stage < stages_; ++stage) {
    const std::vector<Passes> known = by_micro_batch(orders_[stage]);
    const std::set<Passes> allowed(known.begin(), known.end());
    for (const Passes& each : by_micro_batch(orders[stage])) {
      if (!allowed.contains(each)) return false;
    }
  }
  return true;
}

/// Returns true if no stage waits for a message that is sent only behind a pass that waits for it.
bool Pipeline::is_runnable(const std::vector<Order>& orders) const {
  // Receiver, phase, micro-batch and chunk.
  std::set<std::tuple<std::uint32_t, RecordedPhase, std::uint32_t, std::uint32_t>> sent;
  std::vector<std::size_t> next(stages_, 0);
  const auto run = [&](std::uint32_t stage) {
    const Pass& pass = orders[stage][next[stage]];
    const std::uint32_t source = std::min(pass.micro_batch, recorded_ - 1);
    const auto found = std::find(orders_[stage].begin(), orders_[stage].end(),
                                 Pass{pass.kind, source, pass.chunk});
    if (found == orders_[stage].end()) return true;  // weights that belong to the backward pass
    const auto at = static_cast<std::size_t>(found - orders_[stage].begin());
    std::vector<const RecordedOp*> sends;
    for (const int number : passes_[stage][at].ops) {
      const RecordedOp& op = ops_of(step_, stage)[number];
      if (collective_of(op) == RecordedCollective::send) sends.push_back(&op);
      if (collective_of(op) == RecordedCollective::receive &&
          !sent.contains({stage, phase_of(op), pass.micro_batch, op.chunk()})) {
        return false;
      }
    }
    for (const RecordedOp* op : sends) {
      sent.emplace(op->peer(), phase_of(*op), pass.micro_batch, op->chunk());
    }
    return true;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::uint32_t stage = 0; stage < stages_; ++stage) {
      for (; next[stage] < orders[stage].size() && run(stage); ++next[stage]) moved = true;
    }
  }
  for (std::uint32_t stage = 0; stage < stages_; ++stage) {
    if (next[stage] < orders[stage].size()) return false;
  }
  return true;
}

}  // namespace

std::vector<RecordedPass> recorded_passes(const RecordedStep& step, std::uint32_t stage) {
  std::vector<RecordedPass> passes;
  const RecordedOps& ops = ops_of(step, stage);
  for (int i = 0; i < ops.size(); ++i) {
    const RecordedOp& op = ops[i];
    if (phase_of(op) == RecordedPhase::update) continue;
    // The chunk of a send, which ends a pass, is that of the receiver.
    const bool sends = collective_of(op) == RecordedCollective::send && !passes.empty();
    const Pass pass{phase_of(op) == RecordedPhase::forward ? Kind::forward
                    : op.weights()                         ? Kind::weights
                                                           : Kind::backward,
                    op.micro_batch(), sends ? passes.back().pass.chunk : op.chunk()};
    if (passes.empty() || passes.back().pass != pass) passes.push_back({pass, {}});
    passes.back().ops.push_back(i);
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

bool has_replayed_order(const RecordedStep& step, std::uint32_t micro_batches) {
  if (micro_batches <= step.micro_batches()) return true;
  const Pipeline pipeline(step);
  return pipeline.schedule() != Schedule::other || pipeline.extended(micro_batches);
}

std::vector<Pass> replayed_order(const RecordedStep& step, std::uint32_t stage,
                                 std::uint32_t micro_batches) {
  Order order = order_of(recorded_passes(step, stage));
  if (micro_batches <= step.micro_batches()) {
    std::erase_if(order, [=](const Pass& each) { return each.micro_batch >= micro_batches; });
    return order;
  }
  const Pipeline pipeline(step);
  switch (pipeline.schedule()) {
    case Schedule::one_f_one_b: return pass_order(place_of(step, stage, micro_batches));
    case Schedule::forward_first: return forward_first(micro_batches);
    case Schedule::other: break;
  }
  if (auto orders = pipeline.extended(micro_batches)) return std::move((*orders)[stage]);
  Order first = order;
  std::erase_if(first, [](const Pass& each) { return each.micro_batch > 0; });
  for (std::uint32_t more = step.micro_batches(); more < micro_batches; ++more) {
    for (Pass& each : first) each.micro_batch = more;
    order.insert(order.end(), first.begin(), first.end());
  }
  return order;
}

}  // namespace orrery
