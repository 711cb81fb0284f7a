// Programs of a recorded step (Job.program): blocks of the recorded kernels, and the operations of
// one rank for any number of micro-batches. The passes of the recording repeat: every pass but the
// last one is a copy of an early recorded pass, or, if the program accumulates no gradients, of its
// only pass without the exchange of gradients, unless the gradients are scattered. Stages of a
// pipeline run their forward and backward passes in the recorded schedule. Only the
// data-parallel size may differ from the recording: a collective keeps its size in bytes, and
// kernels on a rank's share of sharded state work on a smaller or larger share.
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/schema/names.hpp"
#include "traces/chakra/recorded_op.hpp"
#include "traces/workload/program_writer.hpp"
#include "traces/workload/recorded_passes.hpp"
#include "traces/workload/recorded_step.hpp"
#include "traces/workload/step_graph.hpp"
#include "traces/workload/step_schedule.hpp"

namespace orrery {
namespace {

constexpr std::uint32_t kNoBlock = ~0u;
/// First bucket of the collectives behind the passes.
constexpr std::uint32_t kUpdateBuckets = 1u << 20;
/// First bucket of the small collectives of the last pass.
constexpr std::uint32_t kLastBuckets = 1u << 19;
/// First bucket of the passes that compute the gradients of the weights.
constexpr std::uint32_t kWeightBuckets = 1u << 18;
/// Largest collective of a gradient phase that carries norms, flags or counts: in bytes, and as a
/// share of the gradients.
constexpr double kMostFlags = 64 * 1024, kFlagsShare = 0.01;

/// Returns the bytes of the largest collective of a stage that carries norms, flags or counts. A
/// measured recording does not state its gradients: its largest collective stands for them.
double most_flags(const RecordedStep& step, std::uint32_t stage) {
  const double stated = gradient_bytes_of(step, stage);
  double gradients = stated;
  for (const RecordedOp& op : ops_of(step, stage)) {
    if (stated == 0 && !op.collective().empty() && !is_message(op)) {
      gradients = std::max(gradients, op.bytes());
    }
  }
  return std::min(kMostFlags, kFlagsShare * gradients);
}

/// Returns the first bucket of the collectives of a pass.
constexpr std::uint32_t first_bucket(Pass::Kind kind) {
  return kind == Pass::Kind::weights ? kWeightBuckets : 0;
}

/// Returns `count` executions of a recorded kernel with `ratio` of its work.
Kernel kernel_of(const RecordedKernel& from, double ratio, double count) {
  Kernel kernel{.kind = named(from.kind(), std::optional(Kernel::Kind::memory_bound))};
  kernel.m = from.m() * ratio;
  kernel.n = from.n();
  kernel.k = from.k();
  kernel.batch = std::max(1.0, from.batch());
  kernel.flop = Flop{from.flop() * ratio};
  kernel.bytes = Bytes{from.bytes() * ratio};
  kernel.repeat = count;
  kernel.name = kernel_entry(from.entry());
  kernel.flash_2 = is_flash_2(from.entry());
  kernel.precision = named(from.precision(), std::optional(Precision::bf16));
  kernel.time = Seconds{from.time() * ratio};
  return kernel;
}

BlockCollective::Kind block_kind(RecordedCollective collective) {
  using enum BlockCollective::Kind;
  switch (collective) {
    case RecordedCollective::all_gather: return all_gather;
    case RecordedCollective::reduce_scatter: return reduce_scatter;
    case RecordedCollective::all_to_all: return all_to_all;
    default: return all_reduce;
  }
}

OpCollective op_kind(RecordedCollective collective) {
  switch (collective) {
    case RecordedCollective::all_gather: return OpCollective::all_gather;
    case RecordedCollective::reduce_scatter: return OpCollective::reduce_scatter;
    default: return OpCollective::all_reduce;
  }
}

}  // namespace

/// Builder of the program of one rank from the recording.
class StepGraph::Replay {
 public:
  Replay(const StepGraph& graph, std::uint32_t stage, std::uint32_t micro_batches,
         std::uint32_t order_of, std::uint32_t first_op)
      : graph_(graph),
        step_(graph.job_.program().step()),
        stage_(stage),
        recorded_ops_(ops_of(step_, stage)),
        micro_batches_(micro_batches),
        order_of_(std::max(order_of, micro_batches)),
        most_flags_(most_flags(step_, stage)),
        newest_(static_cast<std::size_t>(recorded_ops_.size())),
        ops_(graph, stage, micro_batches, 0, first_op) {}

  std::unique_ptr<Program> build();

 private:
  /// Part of the program under construction.
  struct Part {
    Pass pass = {};
    bool update = false;  ///< behind the passes
    bool last = false;    ///< the last pass, which completes the gradients
    bool drop = false;    ///< copy of a last pass: gradients are not complete
  };
  void add_passes();
  void add_stage_passes();
  void add_idle_exchange();
  void add_idle_stage_exchange();
  void add_part(const Part& part, std::uint32_t recorded_pass);
  void add_op(int number, const Part& part);
  void add_collective(int number, const Part& part);
  void add_message(int number, const Part& part);
  FewOps before(const RecordedOp& recorded, bool with_newest) const;
  /// Returns the recorded micro-batch of which pass `micro_batch` is a copy. Replicas with fewer
  /// micro-batches have the passes of the one whose order they follow.
  std::uint32_t source_of(std::uint32_t micro_batch) const {
    const std::uint32_t recorded = step_.micro_batches();
    if (micro_batch + 1 == order_of_) return recorded - 1;
    return recorded > 1 ? std::min(micro_batch, recorded - 2) : 0;
  }
  Part part_of(const Pass& pass) const {
    Part part{.pass = pass, .last = pass.micro_batch + 1 == order_of_};
    part.drop = !part.last && step_.micro_batches() == 1 && !step_.sharded();
    return part;
  }
  bool exchanges(const RecordedOp& op) const {
    return collective_of(op) != RecordedCollective::all_gather &&
           phase_of(op) != RecordedPhase::forward && op.bytes() > most_flags_;
  }

  const StepGraph& graph_;
  const RecordedStep& step_;
  const std::uint32_t stage_;
  const RecordedOps& recorded_ops_;
  const std::uint32_t micro_batches_;
  const std::uint32_t order_of_;  ///< micro-batches of the replica whose order is followed
  const double most_flags_;       ///< bytes of the largest collective that carries no gradients
  /// Newest operation of the program for each recorded operation.
  std::vector<std::optional<ProgramWriter::Index>> newest_;
  /// Newest message sent, by phase and stage.
  std::map<std::pair<RecordedPhase, std::uint32_t>, ProgramWriter::Index> sent_;
  ProgramWriter ops_;
  std::uint32_t bucket_ = 0;  ///< bucket of the next collective
};

std::unique_ptr<Program> StepGraph::Replay::build() {
  const bool is_idle = micro_batches_ == 0 && !step_.sharded();
  if (stages_of(step_) > 1) {
    add_stage_passes();
    if (is_idle) add_idle_stage_exchange();
  } else {
    add_passes();
    if (is_idle) add_idle_exchange();
  }
  add_part({.pass = {}, .update = true, .last = true}, 0);
  ops_.add_compute(Phase::optimizer, {}, graph_.optimizer_[stage_], ops_.last_collectives());
  return ops_.take_program();
}

void StepGraph::Replay::add_passes() {
  for (std::uint32_t pass = 0; pass < micro_batches_; ++pass) {
    add_part(part_of({Pass::Kind::forward, pass, 0}), source_of(pass));
  }
}

/// A backward pass with the gradients of the weights copies both parts of a recorded one that has
/// them apart.
void StepGraph::Replay::add_stage_passes() {
  const std::vector<RecordedPass> recorded = recorded_passes(step_, stage_);
  std::vector<Pass> order = replayed_order(step_, stage_, order_of_);
  std::erase_if(order, [this](const Pass& each) { return each.micro_batch >= micro_batches_; });
  const auto add = [&](const Pass& pass, Pass::Kind kind) {
    const Pass source{kind, source_of(pass.micro_batch), pass.chunk};
    const auto found = std::find_if(recorded.begin(), recorded.end(),
                                    [&](const auto& each) { return each.pass == source; });
    if (found == recorded.end()) return;
    bucket_ = first_bucket(kind);
    const Part part = part_of(pass);
    for (const int number : found->ops) add_op(number, part);
  };
  for (const Pass& pass : order) {
    add(pass, pass.kind);
    const Pass apart{Pass::Kind::weights, pass.micro_batch, pass.chunk};
    if (pass.kind == Pass::Kind::backward &&
        std::find(order.begin(), order.end(), apart) == order.end()) {
      add(pass, Pass::Kind::weights);
    }
  }
}

/// A rank without micro-batches takes part in the sum of the gradients.
void StepGraph::Replay::add_idle_exchange() {
  bucket_ = 0;
  for (int i = 0; i < recorded_ops_.size(); ++i) {
    const RecordedOp& op = recorded_ops_[i];
    const RecordedPhase of = phase_of(op);
    if (of == RecordedPhase::update || op.micro_batch() + 1 != step_.micro_batches()) continue;
    if (graph_.recorded_[stage_][i] != kNoBlock) continue;
    if (of == RecordedPhase::backward) {
      add_collective(i, {.pass = {}, .last = true});
    } else {
      ++bucket_;  // buckets are those of ranks with micro-batches
    }
  }
}

/// Does as add_idle_exchange(), with buckets that begin anew in each pass.
void StepGraph::Replay::add_idle_stage_exchange() {
  for (const RecordedPass& each : recorded_passes(step_, stage_)) {
    const Pass& pass = each.pass;
    if (pass.kind == Pass::Kind::forward || pass.micro_batch + 1 != step_.micro_batches()) continue;
    bucket_ = first_bucket(pass.kind);
    for (const int number : each.ops) {
      if (graph_.recorded_[stage_][number] != kNoBlock || is_message(recorded_ops_[number]))
        continue;
      add_collective(number, {.pass = pass, .last = true});
    }
  }
}

void StepGraph::Replay::add_part(const Part& part, std::uint32_t recorded_pass) {
  bucket_ = part.update ? kUpdateBuckets : 0;
  for (int i = 0; i < recorded_ops_.size(); ++i) {
    const RecordedOp& op = recorded_ops_[i];
    const bool update = phase_of(op) == RecordedPhase::update;
    if (update != part.update || (!update && op.micro_batch() != recorded_pass)) continue;
    add_op(i, part);
  }
}

void StepGraph::Replay::add_op(int number, const Part& part) {
  const RecordedOp& op = recorded_ops_[number];
  if (is_message(op)) return add_message(number, part);
  const std::uint32_t block = graph_.recorded_[stage_][number];
  if (block == kNoBlock) return add_collective(number, part);
  const RecordedPhase of = phase_of(op);
  const Phase phase = of == RecordedPhase::update    ? Phase::optimizer
                      : of == RecordedPhase::forward ? Phase::forward
                                                     : Phase::backward;
  newest_[number] = ops_.add_compute(phase, part.pass, block, before(op, false));
}

/// Returns the operations of the program that must end before a recorded operation, with the newest
/// compute operation only if `with_newest`. Recordings name the newest operation of each stream
/// only. A wait for a message that was sent is one for the newest to the same stage in the same
/// direction.
FewOps StepGraph::Replay::before(const RecordedOp& recorded, bool with_newest) const {
  FewOps after;
  for (const std::uint32_t other : recorded.after()) {
    if (collective_of(recorded_ops_[other]) == RecordedCollective::send) {
      const auto sent = sent_.find({phase_of(recorded_ops_[other]), recorded_ops_[other].peer()});
      if (sent != sent_.end()) after.push_back(sent->second);
      continue;
    }
    if (!newest_[other]) continue;
    if (with_newest || newest_[other] != ops_.last_compute()) after.push_back(*newest_[other]);
  }
  return after;
}

/// The receiver's operation has the same phase, micro-batch and chunk.
void StepGraph::Replay::add_message(int number, const Part& part) {
  const RecordedOp& recorded = recorded_ops_[number];
  const bool sends = collective_of(recorded) == RecordedCollective::send;
  const Phase phase =
      phase_of(recorded) == RecordedPhase::forward ? Phase::forward : Phase::backward;
  const Pass pass{part.pass.kind, part.pass.micro_batch, recorded.chunk()};
  const ProgramWriter::Index made =
      ops_.add_message(sends ? OpKind::send : OpKind::receive, phase, pass, recorded.peer(),
                       Bytes{recorded.bytes()}, before(recorded, true));
  newest_[number] = made;
  if (sends) sent_[{phase_of(recorded), recorded.peer()}] = made;
}

/// A collective of the last pass has the same identity on all ranks, whatever their numbers of
/// micro-batches. Steps with scattered gradients exchange in every pass: their collectives are
/// those of the pass.
void StepGraph::Replay::add_collective(int number, const Part& part) {
  const RecordedOp& recorded = recorded_ops_[number];
  const bool gradient = exchanges(recorded);
  if (part.drop && gradient) {
    newest_[number].reset();
    return;
  }
  Op op{.chunk = part.pass.chunk, .bucket = bucket_++};
  const RecordedCollective collective = collective_of(recorded);
  const Phase pass =
      phase_of(recorded) == RecordedPhase::forward ? Phase::forward : Phase::backward;
  op.phase = gradient                                       ? Phase::gradient
             : !part.update                                 ? pass
             : collective == RecordedCollective::all_gather ? Phase::parameters
                                                            : Phase::optimizer;
  const bool complete = gradient && part.last && !step_.sharded();
  op.micro_batch = complete || part.update ? 0 : part.pass.micro_batch;
  if (gradient && !complete && !step_.sharded()) ++op.micro_batch;
  if (!gradient && part.last && !part.update && !step_.sharded()) {
    op.micro_batch = 0;
    op.bucket += kLastBuckets;
  }
  const FewOps after = before(recorded, true);
  FewOps made;
  const std::optional<Communicator> which = recorded_communicator(graph_.job_, recorded);
  ensure(which.has_value(), "a checked recording has only groups of the layout");
  ops_.collective(op, *which, op_kind(collective), recorded.bytes(), after, &made);
  newest_[number].reset();
  if (!made.empty()) newest_[number] = *made.begin();
}

void StepGraph::add_recorded_blocks() {
  const RecordedStep& step = job_.program().step();
  const double ratio = recorded_share(job_);
  const auto add = [this](Block block) {
    blocks_.push_back(std::move(block));
    return static_cast<std::uint32_t>(blocks_.size() - 1);
  };
  recorded_.resize(stages_of(step));
  for (std::uint32_t stage = 0; stage < stages_of(step); ++stage) {
    for (const RecordedOp& op : ops_of(step, stage)) {
      Block block;
      if (op.collective().empty()) {
        for (int i = 0; i < op.kernels_size(); ++i) {
          const RecordedKernel& kernel = step.kernels(static_cast<int>(op.kernels(i)));
          block.kernels.push_back(kernel_of(kernel, kernel.share() ? ratio : 1, op.counts(i)));
        }
      } else if (!is_message(op) && recorded_communicator(job_, op) == Communicator::tensor) {
        block.collectives.push_back(
            {.kind = block_kind(collective_of(op)), .bytes = Bytes{op.bytes()}});
      } else {
        recorded_[stage].push_back(kNoBlock);
        continue;
      }
      recorded_[stage].push_back(add(std::move(block)));
    }
  }
  // The end of the step, where a stack's time of a step is added.
  const std::uint32_t end = add(Block{.kernels = {Kernel{.kind = Kernel::Kind::timed}}});
  optimizer_.assign(stages_of(step), end);
}

std::unique_ptr<Program> StepGraph::recorded_program(std::uint32_t stage,
                                                     std::uint32_t micro_batches,
                                                     std::uint32_t order_of,
                                                     std::uint32_t first_op) const {
  return Replay(*this, stage, micro_batches, order_of, first_op).build();
}

}  // namespace orrery
