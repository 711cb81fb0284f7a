// Operations of one rank in a step: the passes in the order of the pipeline schedule, their sends
// and receives, the exchange of gradients and of sharded parameters (ZeRO, arXiv:1910.02054; FSDP,
// arXiv:2304.11277), the reading of data, and the optimizer. A step begins where the previous one
// has ended. Work that real runs carry over the border is placed at the beginning of the same step,
// so that consecutive steps take as long: the gathering of updated parameters (ZeRO-1 and 2 with
// overlaps.parameters) runs beside the first forward pass of each chunk, which proceeds part by
// part, and only the wait counts; the first `prefetch` micro-batches are available, and those of
// the next step are read before this one ends.
#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "traces/workload/precision.hpp"
#include "traces/workload/program_writer.hpp"
#include "traces/workload/rank_shape.hpp"
#include "traces/workload/sharding.hpp"
#include "traces/workload/step_graph.hpp"
#include "traces/workload/step_schedule.hpp"

namespace orrery {
/// Operations of one rank, pass after pass: all with build(), or part by part with read_part(), not
/// both. The first operation has the index `first_op`. The graph must outlive the builder.
class StepGraph::Builder : public ProgramReader {
 public:
  Builder(const StepGraph& graph, std::uint32_t stage, std::uint32_t micro_batches,
          std::uint32_t order_of, std::uint32_t first_op);
  std::unique_ptr<Program> build();
  void read_part(Part& part) override;

 private:
  using Indices = std::vector<ProgramWriter::Index>;

  const Piece& piece(std::uint32_t chunk) const { return *pieces_[chunk]; }
  bool first(std::uint32_t chunk) const { return stage_ == 0 && chunk == 0; }
  bool last(std::uint32_t chunk) const { return last_stage_ && chunk + 1 == pieces_.size(); }

  bool add_part();
  bool is_plain(const Pass& pass) const;
  const PlainPass& plain_pass(const Pass& pass);
  void forward(const Pass& pass);
  void backward(const Pass& pass, bool weights);
  bool exchanges(const Pass& pass) const;
  void gather(Phase phase, const Pass& pass, std::uint32_t part, FewOps& out);
  void run_units(Phase phase, const Pass& pass, const std::vector<std::uint32_t>& blocks,
                 FewOps inputs, bool reduces);
  void reduce(const Pass& pass, std::uint32_t part);
  void exchange_rest();
  void gather_updated(bool after_optimizer);
  void find_reductions(std::uint32_t chunk);

  const StepGraph& graph_;
  const std::uint32_t stage_, micro_batches_;
  const bool last_stage_;
  const double element_;              ///< bytes of a parameter or an activation
  std::vector<const Piece*> pieces_;  ///< indexed by chunk
  ProgramWriter ops_;
  Sharding sharded_ = Sharding::nothing;
  const bool overlap_, early_, apart_, reads_;
  double gradient_ = 2;
  std::vector<Pass> order_;
  std::size_t next_ = 0;  ///< index of the next part: a pass, or the operations behind the passes
  PlainPass plain_;       ///< plain pass of the newest part
  std::vector<Indices> forward_op_;           ///< chunk: by micro-batch
  std::vector<std::vector<FewOps>> updated_;  ///< chunk, part: gathering of updated parameters
  std::vector<std::uint32_t> reduced_;  ///< indexed by chunk: parts of the step's exchange so far
  /// Indexed by chunk: reductions of a backward pass before the last micro-batch, if it is plain.
  std::vector<std::vector<PassReduction>> reductions_;
};

StepGraph::Builder::Builder(const StepGraph& graph, std::uint32_t stage,
                            std::uint32_t micro_batches, std::uint32_t order_of,
                            std::uint32_t first_op)
    : graph_(graph),
      stage_(stage),
      micro_batches_(micro_batches),
      last_stage_(stage + 1 == graph.pipeline()),
      element_(value_bytes(graph.job())),
      ops_(graph, stage, micro_batches, element_, first_op),
      overlap_(graph.job().overlap()),
      early_(graph.job().overlaps().parameters()),
      apart_(!graph.piece(stage, 0).weights.empty()),
      reads_(stage == 0 && graph.job().has_input()) {
  const Job& job = graph.job_;
  for (std::uint32_t chunk = 0; chunk < graph.chunks(); ++chunk) {
    pieces_.push_back(&graph.piece(stage, chunk));
  }
  if (graph.communicator_size(Communicator::gradient) > 1) {
    sharded_ = sharding_of(job.layout());
  }
  gradient_ = job.gradient_bytes() > 0 ? job.gradient_bytes() : element_;
  forward_op_.assign(graph.chunks(), Indices(micro_batches));
  updated_.resize(graph.chunks());
  reduced_.resize(graph.chunks());
  reductions_.resize(graph.chunks());
  for (std::uint32_t chunk = 0; chunk < graph.chunks(); ++chunk) find_reductions(chunk);
  order_ = pass_order({.stage = stage,
                       .stages = graph.pipeline(),
                       .chunks = graph.chunks(),
                       .micro_batches = micro_batches,
                       .zero_bubble = apart_,
                       .order_of = order_of});
}

std::unique_ptr<Program> StepGraph::Builder::build() {
  ops_.reserve(3 * order_.size());  // received, computed, sent on
  while (add_part()) continue;
  return ops_.take_program();
}

void StepGraph::Builder::read_part(Part& part) {
  ops_.drop_ops();
  if (next_ < order_.size() && is_plain(order_[next_])) {
    part.pass = &plain_pass(order_[next_++]);
    part.ops = {};
  } else {
    add_part();
    part.pass = nullptr;
    part.ops = ops_.ops();
  }
}

/// Adds the operations of the next pass, or those behind the passes. Returns false if the program
/// was complete.
bool StepGraph::Builder::add_part() {
  if (next_ > order_.size()) return false;
  const bool updates = sharded_ == Sharding::optimizer || sharded_ == Sharding::gradients;
  if (next_ == 0 && updates && early_) gather_updated(false);
  if (next_ == order_.size()) {
    exchange_rest();
    ops_.add_compute(Phase::optimizer, {}, graph_.optimizer_[stage_], ops_.last_collectives());
    if (updates && !early_) gather_updated(true);
  } else {
    const Pass& pass = order_[next_];
    switch (pass.kind) {
      case Pass::Kind::forward: forward(pass); break;
      case Pass::Kind::backward: backward(pass, false); break;
      case Pass::Kind::weights: backward(pass, true); break;
    }
  }
  ++next_;
  return true;
}

// ---- passes -------------------------------------------------------------------------------------

/// Returns true if a pass has no reads and waits for no collective, and has no collectives but the
/// reductions of a plain pass. The first forward passes are not plain if they may wait for updated
/// parameters.
bool StepGraph::Builder::is_plain(const Pass& pass) const {
  if (sharded_ == Sharding::parameters) return false;
  if (pass.kind == Pass::Kind::forward) {
    const bool may_wait = pass.micro_batch == 0 && early_;
    return !may_wait && !(reads_ && pass.chunk == 0);
  }
  const bool completes = (pass.kind == Pass::Kind::weights) == apart_;
  if (!completes || !exchanges(pass)) return true;
  if (sharded_ != Sharding::gradients) return !overlap_;
  return pass.micro_batch + 1 < micro_batches_ && !reductions_[pass.chunk].empty();
}

/// Finds the reductions of gradients that are sharded: those of reduce() for a micro-batch that is
/// not the last one. None if experts reduce theirs in a group of their own.
void StepGraph::Builder::find_reductions(std::uint32_t chunk) {
  const Piece& what = piece(chunk);
  if (sharded_ != Sharding::gradients || graph_.communicator_size(Communicator::shard) == 1) return;
  for (const Share& share : what.shares) {
    if (share.expert > 0) return;
  }
  const std::vector<std::uint32_t>& parts = apart_ ? what.weights_parts : what.backward_parts;
  std::vector<PassReduction>& found = reductions_[chunk];
  for (std::size_t part = 0; part < what.shares.size(); ++part) {
    const Share& share = what.shares[what.shares.size() - 1 - part];
    found.push_back({.bytes = Bytes{share.dense * gradient_}, .next_block = {}});
    if (overlap_ && part + 1 < parts.size()) found.back().next_block = parts[part + 1];
  }
}

/// Returns the plain pass of a reader for `pass`.
const PlainPass& StepGraph::Builder::plain_pass(const Pass& pass) {
  const Piece& what = piece(pass.chunk);
  const bool begins = first(pass.chunk), ends = last(pass.chunk);
  plain_ = {.micro_batch = pass.micro_batch, .chunk = pass.chunk};
  switch (pass.kind) {
    case Pass::Kind::forward:
      plain_.receives = !begins;
      plain_.sends = !ends;
      plain_.block = what.forward.front();
      forward_op_[pass.chunk][pass.micro_batch] = kNewestBlock;
      break;
    case Pass::Kind::backward:
      plain_.phase = Phase::backward;
      plain_.receives = !ends;
      plain_.sends = !begins;
      plain_.block = what.backward.front();
      break;
    case Pass::Kind::weights:
      plain_.phase = Phase::backward;
      plain_.block = what.weights.front();
      break;
  }
  const bool reduces = pass.kind != Pass::Kind::forward &&
                       (pass.kind == Pass::Kind::weights) == apart_ &&
                       !reductions_[pass.chunk].empty();
  if (reduces) {
    plain_.reductions = reductions_[pass.chunk];
    if (overlap_) plain_.block = (apart_ ? what.weights_parts : what.backward_parts).front();
  }
  ops_.skip_pass(plain_);
  return plain_;
}

void StepGraph::Builder::forward(const Pass& pass) {
  FewOps inputs;
  if (!first(pass.chunk)) ops_.add_receive(Phase::forward, pass, false, inputs);
  if (first(pass.chunk)) ops_.read(pass.micro_batch, inputs);
  const Piece& what = piece(pass.chunk);
  if (sharded_ == Sharding::parameters) {
    run_units(Phase::forward, pass, what.forward_parts, inputs, false);
  } else if (pass.micro_batch == 0 && !updated_[pass.chunk].empty()) {
    for (std::size_t part = 0; part < what.forward_parts.size(); ++part) {
      inputs.append_ops(updated_[pass.chunk][part]);
      ops_.add_compute(Phase::forward, pass, what.forward_parts[part], std::exchange(inputs, {}));
    }
  } else {
    ops_.add_compute(Phase::forward, pass, what.forward.front(), inputs);
  }
  forward_op_[pass.chunk][pass.micro_batch] = *ops_.last_compute();
  if (!last(pass.chunk)) ops_.add_send(Phase::forward, pass, true);
}

/// Whether a pass is one after which gradients are whole enough to go.
bool StepGraph::Builder::exchanges(const Pass& pass) const {
  if (piece(pass.chunk).shares.empty()) return false;
  return sharded_ == Sharding::gradients || pass.micro_batch + 1 == micro_batches_;
}

/// The pass for the inputs' gradients, with the weights' unless those are apart.
void StepGraph::Builder::backward(const Pass& pass, bool weights) {
  FewOps inputs;
  if (!weights) {
    if (!last(pass.chunk)) ops_.add_receive(Phase::backward, pass, true, inputs);
    const ProgramWriter::Index own = forward_op_[pass.chunk][pass.micro_batch];
    if (own != ops_.last_compute()) inputs.push_back(own);
  }
  const Piece& what = piece(pass.chunk);
  const bool completes = weights == apart_;  // gradients are complete with this pass
  const std::vector<std::uint32_t>& parts = weights ? what.weights_parts : what.backward_parts;
  if (sharded_ == Sharding::parameters) {
    run_units(Phase::backward, pass, parts, inputs, completes);
  } else if (completes && overlap_ && exchanges(pass)) {
    for (std::uint32_t part = 0; part < parts.size(); ++part) {
      ops_.add_compute(Phase::backward, pass, parts[part], std::exchange(inputs, {}));
      reduce(pass, part);
    }
  } else {
    ops_.add_compute(Phase::backward, pass, (weights ? what.weights : what.backward).front(),
                     inputs);
    if (completes && sharded_ == Sharding::gradients) {
      for (std::uint32_t part = 0; part < what.shares.size(); ++part) reduce(pass, part);
    }
  }
  if (!weights && !first(pass.chunk)) ops_.add_send(Phase::backward, pass, false);
}

// ---- sharded parameters -------------------------------------------------------------------------

/// Parameters of a part, in the order of the pass. Weight gradients need none.
void StepGraph::Builder::gather(Phase phase, const Pass& pass, std::uint32_t part, FewOps& out) {
  const std::vector<Share>& shares = piece(pass.chunk).shares;
  const Share& share = phase == Phase::backward ? shares[shares.size() - 1 - part] : shares[part];
  const Op op{.phase = phase, .micro_batch = pass.micro_batch, .chunk = pass.chunk, .bucket = part};
  const FewOps after = ops_.so_far();
  ops_.collective(op, Communicator::shard, OpCollective::all_gather, share.dense * element_, after,
                  &out);
  ops_.collective(op, Communicator::expert_gradient, OpCollective::all_gather,
                  share.expert * element_, after, &out);
}

/// A pass part by part, each gathered while the one before is computed (not before that begins:
/// one part ahead), and its gradients reduced behind it.
void StepGraph::Builder::run_units(Phase phase, const Pass& pass,
                                   const std::vector<std::uint32_t>& blocks, FewOps inputs,
                                   bool reduces) {
  const bool gathers = pass.kind != Pass::Kind::weights;
  FewOps ready, next;
  if (gathers) gather(phase, pass, 0, ready);
  for (std::uint32_t part = 0; part < blocks.size(); ++part) {
    const bool more = gathers && part + 1 < blocks.size();
    if (more && early_) gather(phase, pass, part + 1, next);
    inputs.append_ops(ready);
    ops_.add_compute(phase, pass, blocks[part], std::exchange(inputs, {}));
    if (more && !early_) gather(phase, pass, part + 1, next);
    ready = std::exchange(next, {});
    if (!reduces) continue;
    reduce(pass, part);
    if (overlap_) continue;
    for (const Communicator among : {Communicator::shard, Communicator::expert_gradient}) {
      const std::optional<ProgramWriter::Index> sent = ops_.last_collective(among);
      if (sent) inputs.push_back(*sent);
    }
  }
}

// ---- gradients and the update -------------------------------------------------------------------

/// The gradients of one part, the last layers' first, once they are complete.
void StepGraph::Builder::reduce(const Pass& pass, std::uint32_t part) {
  const std::vector<Share>& shares = piece(pass.chunk).shares;
  const Share& share = shares[shares.size() - 1 - part];
  const bool each = sharded_ == Sharding::gradients || sharded_ == Sharding::parameters;
  const bool final = pass.micro_batch + 1 >= micro_batches_;
  const double dense = share.dense * gradient_, expert = share.expert * gradient_;
  Op op{.phase = Phase::gradient,
        .micro_batch = each ? pass.micro_batch : 0,
        .chunk = pass.chunk,
        .bucket = part};
  const FewOps after = ops_.so_far();
  const bool whole = sharded_ == Sharding::nothing;
  const OpCollective kind = whole ? OpCollective::all_reduce : OpCollective::reduce_scatter;
  const Communicator among = whole ? Communicator::gradient : Communicator::shard;
  FewOps scattered;
  ops_.collective(op, among, kind, dense, after, &scattered);
  ops_.collective(op, Communicator::expert_gradient, kind, expert, after);
  if (final) ++reduced_[pass.chunk];
  if (whole || !final) return;
  op.micro_batch = 0;
  if (scattered.empty()) scattered = after;
  ops_.collective(op, Communicator::replicate, OpCollective::all_reduce,
                  dense / graph_.communicator_size(Communicator::shard), scattered);
}

/// Exchanges the gradients that no backward pass has exchanged: without overlap all of them, at the
/// end of the passes.
void StepGraph::Builder::exchange_rest() {
  if (sharded_ == Sharding::parameters || sharded_ == Sharding::gradients) return;
  for (auto chunk = static_cast<std::uint32_t>(pieces_.size()); chunk-- > 0;) {
    const std::uint32_t last_one = std::max(1u, micro_batches_) - 1;
    while (reduced_[chunk] < piece(chunk).shares.size()) {
      reduce({Pass::Kind::backward, last_one, chunk}, reduced_[chunk]);
    }
  }
}

/// Updated parameters, where each rank has updated a share of them.
void StepGraph::Builder::gather_updated(bool after_optimizer) {
  const FewOps after = after_optimizer ? ops_.so_far() : FewOps{};
  for (std::uint32_t chunk = 0; chunk < pieces_.size(); ++chunk) {
    const std::vector<Share>& shares = piece(chunk).shares;
    for (std::uint32_t part = 0; part < shares.size(); ++part) {
      FewOps gathered;
      const Op op{.phase = Phase::parameters, .chunk = chunk, .bucket = part};
      ops_.collective(op, Communicator::shard, OpCollective::all_gather,
                      shares[part].dense * element_, after, &gathered);
      ops_.collective(op, Communicator::expert_gradient, OpCollective::all_gather,
                      shares[part].expert * element_, after, &gathered);
      if (!after_optimizer) updated_[chunk].push_back(gathered);
    }
  }
}

// ---- programs of the graph ----------------------------------------------------------------------

std::uint32_t StepGraph::followed_micro_batches(std::uint32_t micro_batches,
                                                std::uint32_t most) const {
  const bool in_each_pass = sharding_of(job_.layout()) >= Sharding::gradients;
  const bool is_staged = chunks() > 1 || (job_.has_program() && pipeline() > 1);
  return is_staged && in_each_pass ? std::max(most, micro_batches) : 0;
}

const Program& StepGraph::program(std::uint32_t stage, std::uint32_t micro_batches,
                                  std::uint32_t most) {
  ensure(stage < pipeline(), "a stage of the pipeline");
  const std::uint32_t order_of = followed_micro_batches(micro_batches, most);
  std::unique_ptr<Program>& slot =
      programs_[{stage, micro_batches, order_of, job_.input().prefetch()}];
  if (!slot) {
    slot = job_.has_program() ? recorded_program(stage, micro_batches, order_of, 0)
                              : Builder(*this, stage, micro_batches, order_of, 0).build();
  }
  return *slot;
}

std::unique_ptr<ProgramReader> StepGraph::read_program(std::uint32_t stage,
                                                       std::uint32_t micro_batches) const {
  /// Reader of a program that exists: all operations in one part.
  class Whole : public ProgramReader {
   public:
    explicit Whole(std::unique_ptr<Program> program)
        : program_(std::move(program)), left_(program_->ops) {}
    void read_part(Part& part) override {
      part.pass = nullptr;
      part.ops = std::exchange(left_, {});
    }

   private:
    std::unique_ptr<Program> program_;
    std::span<const Op> left_;
  };
  ensure(stage < pipeline(), "a stage of the pipeline");
  constexpr std::uint32_t kFirstOp = ProgramReader::kFirstOp;
  const std::uint32_t order_of = followed_micro_batches(micro_batches, 0);
  if (job_.has_program()) {
    return std::make_unique<Whole>(recorded_program(stage, micro_batches, order_of, kFirstOp));
  }
  return std::make_unique<Builder>(*this, stage, micro_batches, order_of, kFirstOp);
}

}  // namespace orrery
