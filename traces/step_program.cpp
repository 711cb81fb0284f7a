// The order of one rank's operations in a step: the 1F1B pipeline schedule (Narayanan et al. 2021,
// arXiv:2104.04473), then gradients in buckets and the optimizer.
#include <algorithm>
#include <optional>
#include <utility>

#include "core/error.hpp"
#include "traces/step_graph.hpp"

namespace orrery {

class StepGraph::Builder {
 public:
  Builder(const StepGraph& graph, std::uint32_t stage, std::uint32_t micro_batches)
      : graph_(graph), kind_(graph.stages_[graph.stage_kind_[stage]]) {
    program_.stage = stage;
    program_.micro_batches = micro_batches;
    const Job& job = graph.job_;
    const bool split = graph.tensor() > 1 && job.layout().sequence_parallel();
    const double element = job.precision() == "fp32" ? 4 : 2;
    boundary_ = Bytes{static_cast<double>(job.micro_batch()) * job.sequence_length() *
                      job.model().hidden() * element / (split ? graph.tensor() : 1)};
  }

  std::unique_ptr<Program> build() {
    const std::uint32_t count = program_.micro_batches;
    const std::uint32_t warm_up = std::min(graph_.pipeline() - 1 - program_.stage, count);
    forward_op_.resize(count);
    for (std::uint32_t i = 0; i < warm_up; ++i) forward(i);
    for (std::uint32_t i = warm_up; i < count; ++i) {
      forward(i);
      backward(i - warm_up);
    }
    for (std::uint32_t i = count - warm_up; i < count; ++i) backward(i);
    exchange_rest();
    optimizer();
    return std::make_unique<Program>(std::move(program_));
  }

 private:
  using Index = std::uint32_t;

  Index add(Op op) {
    program_.ops.push_back(std::move(op));
    return static_cast<Index>(program_.ops.size() - 1);
  }

  Index compute(Phase phase, std::uint32_t micro_batch, std::uint32_t block,
                std::vector<Index> after) {
    if (last_compute_) after.push_back(*last_compute_);
    last_compute_ = add(Op{.kind = OpKind::compute, .phase = phase, .micro_batch = micro_batch,
                           .block = block, .after = std::move(after)});
    return *last_compute_;
  }

  bool has_previous() const { return program_.stage > 0; }
  bool has_next() const { return program_.stage + 1 < graph_.pipeline(); }

  /// Posted early: it waits for the peer only.
  std::vector<Index> receive(Phase phase, std::uint32_t micro_batch, int offset) {
    return {add(Op{.kind = OpKind::receive, .phase = phase, .micro_batch = micro_batch,
                   .peer_stage = static_cast<std::int32_t>(program_.stage) + offset,
                   .bytes = boundary_})};
  }
  void send(Phase phase, std::uint32_t micro_batch, int offset, Index ready) {
    add(Op{.kind = OpKind::send, .phase = phase, .micro_batch = micro_batch,
           .peer_stage = static_cast<std::int32_t>(program_.stage) + offset, .bytes = boundary_,
           .after = {ready}});
  }

  void forward(std::uint32_t micro_batch) {
    std::vector<Index> inputs;
    if (has_previous()) inputs = receive(Phase::forward, micro_batch, -1);
    const Index done = compute(Phase::forward, micro_batch, kind_.forward, std::move(inputs));
    forward_op_[micro_batch] = done;
    if (has_next()) send(Phase::forward, micro_batch, +1, done);
  }

  void backward(std::uint32_t micro_batch) {
    std::vector<Index> inputs;
    if (has_next()) inputs = receive(Phase::backward, micro_batch, +1);
    if (forward_op_[micro_batch] != last_compute_) inputs.push_back(forward_op_[micro_batch]);
    const bool last = micro_batch + 1 == program_.micro_batches;
    if (last) {
      for (const std::uint32_t part : kind_.last_backward) {
        compute(Phase::backward, micro_batch, part, std::exchange(inputs, {}));
        if (kind_.last_backward.size() > 1) exchange_bucket();
      }
    } else {
      compute(Phase::backward, micro_batch, kind_.backward, std::move(inputs));
    }
    if (has_previous()) send(Phase::backward, micro_batch, -1, *last_compute_);
  }

  /// One gradient bucket, once its part of the backward pass has ended. Buckets share one
  /// communicator: they go one after the other.
  void exchange_bucket() {
    std::vector<Index> after;
    if (last_compute_) after.push_back(*last_compute_);
    if (last_collective_) after.push_back(*last_collective_);
    last_collective_ = add(Op{.kind = OpKind::collective, .phase = Phase::gradient,
                              .bucket = exchanged_++, .collective = OpCollective::all_reduce,
                              .bytes = Bytes{kind_.gradient_bytes / kind_.buckets},
                              .after = std::move(after)});
  }
  void exchange_rest() {
    while (exchanged_ < kind_.buckets) exchange_bucket();
  }

  void optimizer() {
    std::vector<Index> after;
    if (last_collective_) after.push_back(*last_collective_);
    compute(Phase::optimizer, 0, kind_.optimizer, std::move(after));
  }

  const StepGraph& graph_;
  const Stage& kind_;
  Program program_;
  Bytes boundary_;
  std::vector<Index> forward_op_;
  std::optional<Index> last_compute_, last_collective_;
  std::uint32_t exchanged_ = 0;
};

const Program& StepGraph::program(std::uint32_t stage, std::uint32_t micro_batches) {
  ensure(stage < pipeline(), "a stage of the pipeline");
  std::unique_ptr<Program>& slot = programs_[{stage, micro_batches}];
  if (!slot) slot = Builder(*this, stage, micro_batches).build();
  return *slot;
}

}  // namespace orrery
