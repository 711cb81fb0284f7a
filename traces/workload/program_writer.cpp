#include "traces/workload/program_writer.hpp"

#include <algorithm>
#include <utility>

namespace orrery {
namespace {

/// Returns the bytes of activations between stages: a rank sends its share of them.
double boundary_bytes(const StepGraph& graph, double element) {
  const Job& job = graph.job();
  const bool split = graph.tensor() > 1 && job.layout().sequence_parallel();
  return double{1} * job.micro_batch() * job.sequence_length() * job.model().hidden() * element /
         (split ? graph.tensor() : 1) / graph.context();
}

}  // namespace

ProgramWriter::ProgramWriter(const StepGraph& graph, std::uint32_t stage,
                             std::uint32_t micro_batches, double element)
    : graph_(graph),
      blocking_(!graph.job().overlaps().pipeline()),
      boundary_(boundary_bytes(graph, element)) {
  program_.stage = stage;
  program_.micro_batches = micro_batches;
}

ProgramWriter::Index ProgramWriter::add_compute(Phase phase, const Pass& pass, std::uint32_t block,
                                            FewOps after) {
  if (last_compute_) after.push_back(*last_compute_);
  if (last_send_) after.push_back(*std::exchange(last_send_, {}));
  last_compute_ = add(Op{.kind = OpKind::compute,
                         .phase = phase,
                         .micro_batch = pass.micro_batch,
                         .chunk = pass.chunk,
                         .block = block,
                         .after = std::move(after)});
  return *last_compute_;
}

/// Collectives of a communicator go one after the other.
void ProgramWriter::collective(Op op, Communicator which, OpCollective kind, double bytes,
                               FewOps after, FewOps* out) {
  if (bytes <= 0 || graph_.communicator_size(which) == 1) return;
  const auto before = last_on_.find(which);
  if (before != last_on_.end()) after.push_back(before->second);
  op.kind = OpKind::collective;
  op.collective = kind;
  op.communicator = which;
  op.bytes = Bytes{bytes};
  op.after = std::move(after);
  last_on_[which] = add(std::move(op));
  if (out != nullptr) out->push_back(last_on_[which]);
}

/// Posted early: it waits for the peer only.
void ProgramWriter::add_receive(Phase phase, const Pass& pass, bool from_next, FewOps& inputs) {
  const std::uint32_t stages = graph_.pipeline();
  const std::uint32_t peer = (program_.stage + (from_next ? 1 : stages - 1)) % stages;
  inputs.push_back(add(Op{.kind = OpKind::receive,
                          .phase = phase,
                          .micro_batch = pass.micro_batch,
                          .chunk = pass.chunk,
                          .peer_stage = static_cast<std::int32_t>(peer),
                          .bytes = Bytes{boundary_}}));
}

void ProgramWriter::add_send(Phase phase, const Pass& pass, bool to_next) {
  const std::uint32_t stages = graph_.pipeline();
  const std::uint32_t peer = (program_.stage + (to_next ? 1 : stages - 1)) % stages;
  std::uint32_t chunk = pass.chunk;
  if (to_next && peer == 0) ++chunk;
  if (!to_next && program_.stage == 0) --chunk;
  const Index sent = add(Op{.kind = OpKind::send,
                            .phase = phase,
                            .micro_batch = pass.micro_batch,
                            .chunk = chunk,
                            .peer_stage = static_cast<std::int32_t>(peer),
                            .bytes = Bytes{boundary_},
                            .after = {*last_compute_}});
  if (blocking_) last_send_ = sent;
}

void ProgramWriter::read(std::uint32_t micro_batch, FewOps& inputs) {
  const Job& job = graph_.job();
  if (!job.has_input()) return;
  const std::uint32_t ahead = std::min(job.input().prefetch(), program_.micro_batches);
  FewOps after;
  if (last_read_) after.push_back(*last_read_);
  if (last_compute_) after.push_back(*last_compute_);
  last_read_ = add(Op{.kind = OpKind::read,
                      .phase = Phase::forward,
                      .micro_batch = micro_batch + ahead,
                      .after = std::move(after)});
  reads_.push_back(*last_read_);
  if (micro_batch >= ahead) inputs.push_back(reads_[micro_batch - ahead]);
}

}  // namespace orrery
