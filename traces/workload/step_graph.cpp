#include "traces/workload/step_graph.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "core/schema/yaml_loader.hpp"
#include "traces/workload/job_choices.hpp"
#include "traces/workload/layout_check.hpp"
#include "traces/workload/rank_shape.hpp"

namespace orrery {
StepGraph::StepGraph(const Job& job, bool even_shares) : job_(job) {
  fill_defaults(job_);
  pipeline_last_ = rank_order_of(job_.layout()) == RankOrder::pipeline_last;
  const std::vector<Problem> problems = job_problems(job_, even_shares);
  if (!problems.empty()) {
    const Problem& first = problems.front();
    throw Error(ErrorKind::bad_input, "job." + first.path + ": " + first.message);
  }
  add_pieces();
}

RankId StepGraph::rank(std::uint32_t replica, std::uint32_t stage, std::uint32_t member) const {
  const std::uint32_t cell =
      pipeline_last_ ? stage * data() + replica : replica * pipeline() + stage;
  return {cell * members() + member};
}

StepGraph::Position StepGraph::position(RankId rank) const {
  const std::uint32_t cell = rank.value / members();
  const std::uint32_t member = rank.value % members();
  if (pipeline_last_) return {cell % data(), cell / data(), member};
  return {cell / pipeline(), cell % pipeline(), member};
}

/// Among `peers()` ranks of a stage numbered context fastest, then replica (where experts span
/// the tensor group: tensor fastest): a communicator is `size` of them, `stride` apart.
StepGraph::Peers StepGraph::peers(Communicator which) const {
  const std::uint32_t all = data() * context();
  const std::uint32_t shard = job_.layout().shard_group();
  const std::uint32_t copy = shard == 0 ? all : shard;
  const std::uint32_t expert = job_.layout().expert();
  const std::uint32_t split = expert_tensor(job_.layout());
  const bool across = split < tensor();  // experts span the tensor group too
  const std::uint32_t stride = across ? split : 1;
  switch (which) {
    case Communicator::tensor: return {.size = tensor(), .stride = 1, .with_tensor = true};
    case Communicator::context: return {.size = context(), .stride = 1};
    case Communicator::gradient: return {.size = all, .stride = 1};
    case Communicator::shard: return {.size = copy, .stride = 1};
    case Communicator::replicate: return {.size = all / copy, .stride = copy};
    case Communicator::expert: return {.size = expert, .stride = stride, .with_tensor = across};
    case Communicator::expert_gradient:
      return {.size = (across ? all * tensor() : all) / (expert * stride),
              .stride = expert * stride, .with_tensor = across};
  }
  return {};
}

StepGraph::Lie StepGraph::lie_of(Communicator which) const {
  const Peers peer = peers(which);
  return {peer.size, peer.with_tensor ? peer.stride : peer.stride * tensor()};
}

StepGraph::Share StepGraph::parameters(std::uint32_t stage) const {
  Share sum;
  if (pieces_.empty()) return sum;
  for (std::uint32_t chunk = 0; chunk < chunks(); ++chunk) {
    sum.dense += piece(stage, chunk).whole.dense;
    sum.expert += piece(stage, chunk).whole.expert;
  }
  return sum;
}

std::vector<std::uint32_t> StepGraph::pass_blocks(std::uint32_t stage) const {
  std::vector<std::uint32_t> found;
  if (pieces_.empty()) return found;
  for (std::uint32_t chunk = 0; chunk < chunks(); ++chunk) {
    const Piece& what = piece(stage, chunk);
    for (const auto* passes : {&what.forward, &what.backward, &what.weights}) {
      found.insert(found.end(), passes->begin(), passes->end());
    }
  }
  return found;
}

std::uint32_t StepGraph::communicator_size(Communicator which) const { return peers(which).size; }

std::vector<RankId> StepGraph::communicator(Communicator which, RankId of) const {
  const Peers peer = peers(which);
  const Position at = position(of);
  const std::uint32_t tensor_rank = at.member % tensor();
  std::uint32_t own = at.replica * context() + at.member / tensor();
  if (peer.with_tensor) own = own * tensor() + tensor_rank;
  // Blocks of size x stride peers, each of `stride` interleaved communicators.
  const std::uint32_t whole = peer.size * peer.stride;
  const std::uint32_t first = own / whole * whole + own % peer.stride;
  std::vector<RankId> out;
  for (std::uint32_t i = 0; i < peer.size; ++i) {
    const std::uint32_t number = first + i * peer.stride;
    const std::uint32_t t = peer.with_tensor ? number % tensor() : tensor_rank;
    const std::uint32_t outer = peer.with_tensor ? number / tensor() : number;
    out.push_back(rank(outer / context(), at.stage, outer % context() * tensor() + t));
  }
  return out;
}

std::uint32_t StepGraph::micro_batches() const { return job_.global_batch() / job_.micro_batch(); }

void StepGraph::set_input(std::uint32_t workers, std::uint32_t prefetch) {
  if (!job_.has_input()) return;
  job_.mutable_input()->set_workers(workers);
  job_.mutable_input()->set_prefetch(prefetch);
}

void StepGraph::set_read_time(Nanos read) {
  if (job_.has_input()) job_.mutable_input()->set_read(read);
}

Seconds StepGraph::read_interval() const {
  const Input& input = job_.input();
  const std::uint32_t beside = std::min(input.workers(), input.prefetch());
  return Seconds{to_seconds(input.read()) / std::max(1u, beside)};
}

double StepGraph::tokens() const {
  return static_cast<double>(job_.global_batch()) * job_.sequence_length();
}

}  // namespace orrery
