// The compute blocks of every stage and model chunk: whole passes, and passes in parts where
// gradients or parameters are exchanged part by part. With sharded parameters a part is a layer,
// else a gradient bucket.
#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include "traces/workload/job_choices.hpp"
#include "traces/workload/model.hpp"
#include "traces/workload/precision.hpp"
#include "traces/workload/sharding.hpp"
#include "traces/workload/step_blocks.hpp"
#include "traces/workload/step_graph.hpp"

namespace orrery {
namespace {

/// Passes in parts of one replica's step, summed over micro-batches, are at most this many unless
/// even kFewestParts each are more: it bounds the operations of a program.
constexpr std::uint32_t kMostParts = 4096;
constexpr std::uint32_t kFewestParts = 32;

/// A share of a block's work.
Block scaled(Block block, double share) {
  for (Kernel& kernel : block.kernels) kernel.repeat *= share;
  for (BlockCollective& collective : block.collectives) collective.repeat *= share;
  block.layers *= share;
  block.expert_layers *= share;
  block.launches *= share;
  return block;
}

Block joined(Block block, const Block& other) {
  block.kernels.insert(block.kernels.end(), other.kernels.begin(), other.kernels.end());
  block.collectives.insert(block.collectives.end(), other.collectives.begin(),
                           other.collectives.end());
  block.layers += other.layers;
  block.expert_layers += other.expert_layers;
  block.launches += other.launches;
  return block;
}

/// Layers `first` up to `last` of a chunk.
StageShape layers_of(const Job& job, const StageShape& chunk, std::uint32_t first,
                     std::uint32_t last) {
  StageShape shape = layers_from(job, chunk.begin + first, last - first);
  shape.first = chunk.first && first == 0;
  shape.last = chunk.last && last == chunk.layers;
  return shape;
}

}  // namespace

class StepGraph::Pieces {
 public:
  explicit Pieces(StepGraph& graph)
      : graph_(graph),
        job_(graph.job_),
        apart_(schedule_of(job_.layout()) == PipelineSchedule::zero_bubble),
        units_(sharding_of(job_.layout()) == Sharding::parameters &&
               graph.communicator_size(Communicator::shard) > 1) {}

  void add_declared();
  void add_transformer();

 private:
  std::uint32_t add(Block block) {
    graph_.blocks_.push_back(std::move(block));
    return static_cast<std::uint32_t>(graph_.blocks_.size() - 1);
  }
  std::uint32_t most_parts() const;
  std::uint32_t buckets(const Share& whole, double gradient) const;
  void declared_pass(Nanos time, std::size_t parts, std::vector<std::uint32_t>& whole,
                     std::vector<std::uint32_t>& in_parts);
  Piece transformer_piece(const RankShape& rank, const StageShape& shape);
  void add_units(const RankShape& rank, const StageShape& shape, Piece& piece);
  void add_buckets(const RankShape& rank, const StageShape& shape, Piece& piece);
  void backward_blocks(const RankShape& rank, const StageShape& shape, double share, bool head,
                       bool table, std::vector<std::uint32_t>& backward,
                       std::vector<std::uint32_t>& weights);
  void add_optimizer(std::uint32_t stage, double element, double gradient);
  static Share parameters(const RankShape& rank, const StageShape& shape) {
    const double expert = rank.expert_parameters(shape);
    if (rank.adapter > 0) return {rank.trained(shape), 0};
    return {rank.parameters(shape) - expert, expert};
  }

  StepGraph& graph_;
  const Job& job_;
  bool apart_;  ///< weight gradients are passes of their own
  bool units_;  ///< parameters are gathered layer by layer
  std::map<double, std::uint32_t> optimizers_;  ///< keyed by parameters
};

std::uint32_t StepGraph::Pieces::most_parts() const {
  const std::uint32_t passes =
      std::max(1u, graph_.micro_batches() / graph_.data() * graph_.chunks());
  return std::max(kFewestParts, kMostParts / passes);
}

/// None where there is nobody to exchange gradients with.
std::uint32_t StepGraph::Pieces::buckets(const Share& whole, double gradient) const {
  if (graph_.communicator_size(Communicator::gradient) == 1) return 0;
  const double bytes = (whole.dense + whole.expert) * gradient;
  const auto count = std::max(1u, static_cast<std::uint32_t>(std::ceil(bytes / job_.bucket())));
  return sharding_of(job_.layout()) == Sharding::gradients ? std::min(count, most_parts()) : count;
}

/// One and the same optimizer block for stages with as many parameters.
void StepGraph::Pieces::add_optimizer(std::uint32_t stage, double element, double gradient) {
  Share held;
  for (std::uint32_t chunk = 0; chunk < graph_.chunks(); ++chunk) {
    held.dense += graph_.piece(stage, chunk).whole.dense;
    held.expert += graph_.piece(stage, chunk).whole.expert;
  }
  if (sharding_of(job_.layout()) != Sharding::nothing) {
    const double all = graph_.communicator_size(Communicator::gradient);
    const double copy = graph_.communicator_size(Communicator::shard);
    const double expert = graph_.communicator_size(Communicator::expert_gradient);
    held.dense /= copy;
    held.expert /= std::max(1.0, expert * copy / all);
  }
  const auto [found, fresh] = optimizers_.emplace(held.dense + held.expert, 0);
  if (fresh) found->second = add(optimizer_block(found->first, element, gradient));
  graph_.optimizer_.push_back(found->second);
}

// ---- declared cost ------------------------------------------------------------------------------

void StepGraph::Pieces::declared_pass(Nanos time, std::size_t parts,
                                      std::vector<std::uint32_t>& whole,
                                      std::vector<std::uint32_t>& in_parts) {
  whole = {add(Block{.declared = time})};
  if (parts <= 1) {
    in_parts.assign(parts, whole.front());
    return;
  }
  const Nanos part = time / static_cast<Nanos>(parts);
  const Nanos rest = time - part * static_cast<Nanos>(parts - 1);
  in_parts.push_back(add(Block{.declared = rest}));
  in_parts.resize(parts, add(Block{.declared = part}));
}

/// A micro-batch takes the job's declared time, a third of it forward; every stage and chunk takes
/// an equal share of it. The built-in model trains in fp32, independently of the job's precision.
void StepGraph::Pieces::add_declared() {
  const double element = value_bytes(job_);
  const double gradient = job_.gradient_bytes() > 0 ? job_.gradient_bytes() : element;
  const std::uint32_t parts_of_model = graph_.pipeline() * graph_.chunks();
  const Nanos whole = job_.pace().micro_batch() / parts_of_model;
  const Nanos forward = whole / 3;
  Piece piece;
  piece.whole.dense = parameter_count(job_.model()) / graph_.tensor() / parts_of_model;
  const std::uint32_t layers = std::max(1u, job_.model().layers() / parts_of_model);
  const std::uint32_t parts =
      units_ ? std::min(layers, most_parts()) : buckets(piece.whole, gradient);
  piece.shares.assign(parts, {piece.whole.dense / std::max(1u, parts), 0});
  declared_pass(forward, parts, piece.forward, piece.forward_parts);
  const Nanos inputs = apart_ ? (whole - forward) / 2 : whole - forward;
  declared_pass(inputs, parts, piece.backward, piece.backward_parts);
  if (apart_) declared_pass(whole - forward - inputs, parts, piece.weights, piece.weights_parts);
  graph_.pieces_.push_back(std::move(piece));
  graph_.piece_of_.assign(parts_of_model, 0);
  for (std::uint32_t stage = 0; stage < graph_.pipeline(); ++stage) {
    add_optimizer(stage, element, gradient);
  }
}

// ---- transformer --------------------------------------------------------------------------------

void StepGraph::Pieces::backward_blocks(const RankShape& rank, const StageShape& shape,
                                        double share, bool head, bool table,
                                        std::vector<std::uint32_t>& backward,
                                        std::vector<std::uint32_t>& weights) {
  const auto block = [&](BackwardPart part) {
    return add(backward_block(rank, shape, share, head, table, part));
  };
  backward.push_back(block(apart_ ? BackwardPart::input : BackwardPart::whole));
  if (apart_) weights.push_back(block(BackwardPart::weight));
}

/// Layer by layer, or in runs of layers where those would be too many; equal ones share blocks.
void StepGraph::Pieces::add_units(const RankShape& rank, const StageShape& shape, Piece& piece) {
  const std::uint32_t count = std::max(1u, std::min(shape.layers, most_parts()));
  std::vector<StageShape> seen;
  std::vector<std::uint32_t> forward, backward, weights;  // distinct ones found so far
  for (std::uint32_t i = 0; i < count; ++i) {
    const StageShape unit =
        layers_of(job_, shape, static_cast<std::uint32_t>(std::uint64_t{shape.layers} * i / count),
                  static_cast<std::uint32_t>(std::uint64_t{shape.layers} * (i + 1) / count));
    const auto known = static_cast<std::size_t>(std::find(seen.begin(), seen.end(), unit) -
                                                seen.begin());
    if (known == seen.size()) {
      seen.push_back(unit);
      forward.push_back(add(forward_block(rank, unit)));
      backward_blocks(rank, unit, 1, unit.last, unit.first, backward, weights);
    }
    piece.shares.push_back(parameters(rank, unit));
    piece.forward_parts.push_back(forward[known]);
    piece.backward_parts.push_back(backward[known]);
    if (apart_) piece.weights_parts.push_back(weights[known]);
  }
  std::reverse(piece.backward_parts.begin(), piece.backward_parts.end());
  std::reverse(piece.weights_parts.begin(), piece.weights_parts.end());
}

/// Equal shares of the layers, the head with the last ones and the embedding with the first.
void StepGraph::Pieces::add_buckets(const RankShape& rank, const StageShape& shape,
                                    Piece& piece) {
  const std::uint32_t count = buckets(piece.whole, rank.gradient);
  if (count == 0) return;
  piece.shares.assign(count, {piece.whole.dense / count, piece.whole.expert / count});
  if (count == 1) {
    piece.forward_parts = piece.forward;
    piece.backward_parts = piece.backward;
    piece.weights_parts = piece.weights;
    return;
  }
  const double share = 1.0 / count;
  const auto part = [&](bool head, bool table, std::uint32_t times) {
    std::vector<std::uint32_t> backward, weights;
    backward_blocks(rank, shape, share, head, table, backward, weights);
    piece.backward_parts.insert(piece.backward_parts.end(), times, backward.front());
    if (apart_) piece.weights_parts.insert(piece.weights_parts.end(), times, weights.front());
  };
  part(shape.last, false, 1);
  if (count > 2) part(false, false, count - 2);
  part(false, shape.first, 1);

  StageShape inner = shape, table{.first = shape.first},
             head{.last = shape.last};
  inner.first = inner.last = false;
  const Block layers = scaled(forward_block(rank, inner), share);
  piece.forward_parts.push_back(add(joined(forward_block(rank, table), layers)));
  if (count > 2) piece.forward_parts.resize(count - 1, add(layers));
  piece.forward_parts.push_back(add(joined(layers, forward_block(rank, head))));
}

StepGraph::Piece StepGraph::Pieces::transformer_piece(const RankShape& rank,
                                                      const StageShape& shape) {
  Piece piece;
  piece.whole = parameters(rank, shape);
  piece.forward = {add(forward_block(rank, shape))};
  backward_blocks(rank, shape, 1, shape.last, shape.first, piece.backward, piece.weights);
  if (units_) {
    add_units(rank, shape, piece);
  } else {
    add_buckets(rank, shape, piece);
  }
  return piece;
}

void StepGraph::Pieces::add_transformer() {
  const RankShape rank(job_);
  std::vector<StageShape> kinds;
  for (std::uint32_t stage = 0; stage < graph_.pipeline(); ++stage) {
    for (std::uint32_t chunk = 0; chunk < graph_.chunks(); ++chunk) {
      const StageShape shape = stage_shape(job_, stage, chunk);
      const auto known = std::find(kinds.begin(), kinds.end(), shape) - kinds.begin();
      graph_.piece_of_.push_back(static_cast<std::uint32_t>(known));
      if (static_cast<std::size_t>(known) < kinds.size()) continue;
      kinds.push_back(shape);
      graph_.pieces_.push_back(transformer_piece(rank, shape));
    }
  }
  for (std::uint32_t stage = 0; stage < graph_.pipeline(); ++stage) {
    add_optimizer(stage, rank.element, rank.gradient);
  }
}

void StepGraph::add_pieces() {
  if (job_.has_program()) return add_recorded_blocks();
  Pieces pieces(*this);
  if (job_.has_pace()) {
    pieces.add_declared();
  } else {
    pieces.add_transformer();
  }
}

}  // namespace orrery
