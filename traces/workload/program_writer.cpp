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
                             std::uint32_t micro_batches, double element, Index first_op)
    : graph_(graph),
      first_op_(first_op),
      stages_(graph.pipeline()),
      blocking_(!graph.job().overlaps().pipeline()),
      boundary_(boundary_bytes(graph, element)) {
  program_.stage = stage;
  program_.micro_batches = micro_batches;
  for (std::size_t i = 0; i < kCommunicators; ++i) {
    sizes_[i] = graph.communicator_size(static_cast<Communicator>(i));
  }
}

Op& ProgramWriter::add(OpKind kind, Phase phase, std::uint32_t micro_batch, std::uint32_t chunk) {
  Op& op = program_.ops.emplace_back();
  op.kind = kind;
  op.phase = phase;
  op.micro_batch = micro_batch;
  op.chunk = chunk;
  return op;
}

ProgramWriter::Index ProgramWriter::add_compute(Phase phase, const Pass& pass, std::uint32_t block,
                                                const FewOps& after) {
  Op& op = add(OpKind::compute, phase, pass.micro_batch, pass.chunk);
  op.block = block;
  op.after.append_ops(after);
  if (last_compute_) op.after.push_back(*last_compute_);
  if (last_send_) op.after.push_back(*std::exchange(last_send_, {}));
  last_compute_ = newest();
  return *last_compute_;
}

/// Collectives of a communicator go one after the other.
void ProgramWriter::collective(const Op& of, Communicator which, OpCollective kind, double bytes,
                               const FewOps& after, FewOps* out) {
  const auto number = static_cast<std::size_t>(which);
  if (bytes <= 0 || sizes_[number] == 1) return;
  Op& op = add(OpKind::collective, of.phase, of.micro_batch, of.chunk);
  op.bucket = of.bucket;
  op.collective = kind;
  op.communicator = which;
  op.bytes = Bytes{bytes};
  op.after.append_ops(after);
  if (last_on_[number]) op.after.push_back(*last_on_[number]);
  last_on_[number] = newest();
  if (out != nullptr) out->push_back(newest());
}

FewOps ProgramWriter::last_collectives() const {
  FewOps out;
  for (const std::optional<Index>& last : last_on_) {
    if (last) out.push_back(*last);
  }
  return out;
}

/// Posted early: it waits for the peer only.
void ProgramWriter::add_receive(Phase phase, const Pass& pass, bool from_next, FewOps& inputs) {
  Op& op = add(OpKind::receive, phase, pass.micro_batch, pass.chunk);
  op.peer_stage = static_cast<std::int32_t>(neighbour(from_next));
  op.bytes = Bytes{boundary_};
  inputs.push_back(newest());
}

void ProgramWriter::add_send(Phase phase, const Pass& pass, bool to_next) {
  const std::uint32_t peer = neighbour(to_next);
  std::uint32_t chunk = pass.chunk;
  if (to_next && peer == 0) ++chunk;
  if (!to_next && program_.stage == 0) --chunk;
  Op& op = add(OpKind::send, phase, pass.micro_batch, chunk);
  op.peer_stage = static_cast<std::int32_t>(peer);
  op.bytes = Bytes{boundary_};
  op.after.push_back(*last_compute_);
  if (blocking_) last_send_ = newest();
}

ProgramWriter::Index ProgramWriter::add_message(OpKind kind, Phase phase, const Pass& pass,
                                                std::uint32_t peer, Bytes bytes,
                                                const FewOps& after) {
  Op& op = add(kind, phase, pass.micro_batch, pass.chunk);
  op.peer_stage = static_cast<std::int32_t>(peer);
  op.bytes = bytes;
  op.after.append_ops(after);
  return newest();
}

void ProgramWriter::skip_pass(PlainPass& pass) {
  pass.after_send = last_send_.has_value();
  pass.bytes = Bytes{boundary_};
  last_send_.reset();
  last_compute_ = ProgramReader::kNewestBlock;
  if (pass.sends && blocking_) last_send_ = ProgramReader::kNewestSend;
  if (pass.reductions.empty()) return;
  auto& last_reduction = last_on_[static_cast<std::size_t>(Communicator::shard)];
  pass.reduces_after = std::exchange(last_reduction, ProgramReader::kNewestReduction);
}

void ProgramWriter::read(std::uint32_t micro_batch, FewOps& inputs) {
  const Job& job = graph_.job();
  if (!job.has_input()) return;
  const std::uint32_t ahead = std::min(job.input().prefetch(), program_.micro_batches);
  Op& op = add(OpKind::read, Phase::forward, micro_batch + ahead, 0);
  if (last_read_) op.after.push_back(*last_read_);
  if (last_compute_) op.after.push_back(*last_compute_);
  last_read_ = newest();
  reads_.push_back(*last_read_);
  if (micro_batch >= ahead) inputs.push_back(reads_[micro_batch - ahead]);
}

}  // namespace orrery
