// Operations of one training step: those of one rank and their dependencies, for a model and a
// parallel layout. The simulator prices every operation, live mode executes it; both report the
// same phases. Ranks with the same program share it: a program is built once for each rank class
// (pipeline stage, micro-batches), never once for each rank. Immutable after construction and
// thread-safe, except program(), which stores the programs that it builds. For example, tensor 2 x
// pipeline 4 x data 8 has 64 ranks and 4 rank classes.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "core/error.hpp"
#include "core/ids.hpp"
#include "core/units.hpp"
#include "topologies/cluster.hpp"
#include "traces/scenario.pb.h"
#include "traces/workload/kernel_name.hpp"

namespace orrery {

/// Kernel as the cost model prices it. A GEMM has m x n x k (x batch), the optimizer m parameters;
/// every kernel has the bytes that it moves through GPU memory. A timed kernel takes `time` on
/// every GPU.
struct Kernel {
  enum class Kind : std::uint8_t { gemm, attention, memory_bound, timed } kind{};
  /// Returns the names of the kinds in recorded steps (RecordedKernel.kind).
  friend constexpr std::array<std::string_view, 4> names_of(Kind) {
    return {"gemm", "attention", "memory", "time"};
  }
  double m = 0, n = 0, k = 0, batch = 1;
  Flop flop{};
  Bytes bytes{};
  double repeat = 1;  ///< repetitions in the block, for example once per layer
  KernelName name{};
  /// true: runs in the job's precision; else in 16 bits (fp32: in fp32)
  bool low_precision = false;
  /// Precision of a recorded kernel, which the job's precision does not affect.
  std::optional<Precision> precision = {};
  Seconds time = {};  ///< timed: duration
  double value = 0;   ///< attention: size of a head's value; 0: that of its query, `k`
  /// attention: at most the rate of kernels of the second generation, whatever the job has
  bool flash_2 = false;
};

/// Groups of ranks in collectives. The first three belong to a block (they repeat in every layer
/// and are priced in closed form); the others are operations of a program.
enum class Communicator : std::uint8_t {
  tensor,           ///< the tensor-parallel ranks
  context,          ///< the ranks that share a sequence
  expert,           ///< the ranks that share the experts of a layer
  gradient,         ///< all replicas and context ranks of a stage and tensor rank
  shard,            ///< part of `gradient` that holds one copy of the sharded values
  replicate,        ///< ranks of different copies with the same share
  expert_gradient,  ///< the ranks of `gradient` (or of a shard group) with the same experts
};

/// Collective inside a block. `beside`: runs next to the block's kernels of that name, so only the
/// uncovered time counts; `plain` is exposed. A ring pass sends `bytes` round by round to the next
/// rank (keys and values of ring attention).
struct BlockCollective {
  enum class Kind : std::uint8_t {
    all_reduce,
    all_gather,
    reduce_scatter,
    all_to_all,
    ring_pass
  } kind{};
  Bytes bytes;  ///< full (gathered) size; all-to-all: bytes sent by one rank in total
  double repeat = 1;
  Communicator communicator = Communicator::tensor;
  KernelName beside{};
  double hidden = 0;  ///< fraction of its time that products hide (Job.overlaps.tensor)
};

/// Work of one rank between two communications with another stage or replica.
struct Block {
  std::vector<Kernel> kernels = {};
  std::vector<BlockCollective> collectives = {};
  Nanos declared = 0;  ///< > 0: takes exactly this time at speed 1 (Job.pace)
  double layers = 0;   ///< layer passes in the block (a stack may add time to each)
  double expert_layers = 0;  ///< layer passes among them with experts
  /// Kernel launches of the host, in layer passes. The host runs ahead within a micro-batch, so
  /// only both passes together wait for it: each counts by its work, a third forward.
  double launches = 0;
};

/// Kinds of operations. read: a micro-batch of training data, beside all other operations
/// (Job.input).
enum class OpKind : std::uint8_t { compute, send, receive, collective, read };
enum class Phase : std::uint8_t { forward, backward, gradient, optimizer, parameters };
enum class OpCollective : std::uint8_t { none, all_reduce, reduce_scatter, all_gather };

/// Short list of operations of a program, by index, without heap memory: programs of many
/// operations are built often. A part of a pass has the longest list: it waits for the block and
/// the blocking send before it, for received, read and kept values, for its parameters (of experts
/// separately), and for gradients that do not overlap. Appending more than seven operations throws
/// an internal Error.
class FewOps {
 public:
  static constexpr std::uint32_t kMost = 7;

  FewOps() = default;
  FewOps(std::initializer_list<std::uint32_t> ops) {
    for (const std::uint32_t op : ops) push_back(op);
  }
  void push_back(std::uint32_t op) {
    if (size_ == ops_.size()) ensure(false, "an op waits for few others");
    ops_[size_++] = op;
  }
  void append_ops(const FewOps& others) {
    for (const std::uint32_t op : others) push_back(op);
  }
  const std::uint32_t* begin() const { return ops_.data(); }
  const std::uint32_t* end() const { return ops_.data() + size_; }
  std::uint32_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

 private:
  std::array<std::uint32_t, kMost> ops_{};
  std::uint32_t size_ = 0;
};

/// Operation of a program.
struct Op {
  OpKind kind{};
  Phase phase{};
  std::uint32_t micro_batch = 0;
  std::uint32_t chunk = 0;       ///< model chunk of the stage (interleaving)
  std::uint32_t block = 0;       ///< compute: index into StepGraph::blocks()
  std::uint32_t bucket = 0;      ///< collective: index of the gradient bucket
  std::int32_t peer_stage = -1;  ///< send, receive
  OpCollective collective{};
  Communicator communicator = Communicator::gradient;  ///< collective: its group
  Bytes bytes{};      ///< send, receive: payload; collective: full size
  FewOps after = {};  ///< operations of this program that must end first
};

/// Operations of a rank. Compute operations run one at a time in the given order; communication
/// runs beside them, collectives of one communicator one at a time in the given order. A send is
/// received by the operation of the same phase, micro-batch and chunk (the receiver's) at the peer
/// stage; with chunks the last stage sends to the first.
struct Program {
  std::uint32_t stage = 0;
  std::uint32_t micro_batches = 0;
  std::vector<Op> ops;
};

/// Reduce-scatter of gradients among the ranks of Communicator::shard, and the block behind it.
struct PassReduction {
  Bytes bytes{};                            ///< size of the reduce-scatter; 0: none
  std::optional<std::uint32_t> next_block;  ///< block that runs beside it, if any
};

/// Pass of a stage with no other operations than a receive (if `receives`), a block, reductions and
/// a send (if `sends`). A forward pass receives from the previous stage and sends to the next one,
/// a backward pass receives from the next stage. The block waits for the receive, for the newest
/// block of the stage and, with `after_send`, for the newest send of the stage. A reduction waits
/// for the newest block and for the reduction before, the first one for the operation
/// `reduces_after`. The send waits for the newest block.
struct PlainPass {
  Phase phase{};  ///< forward or backward
  bool receives = false, sends = false, after_send = false;
  std::uint32_t micro_batch = 0, chunk = 0;
  std::uint32_t block = 0;  ///< index into StepGraph::blocks()
  Bytes bytes{};            ///< payload of receive and send
  std::span<const PassReduction> reductions = {};
  std::optional<std::uint32_t> reduces_after = {};
};

/// Reader of the operations of a rank, pass after pass, for callers that run each operation once:
/// no memory for the whole program is needed, and most passes of a pipeline are plain ones.
class ProgramReader {
 public:
  /// Numbers in Op::after of a reader: that of the newest block, the newest send and the newest
  /// reduction behind the passes so far, and that of the first operation of `ops`. Operations of
  /// later `ops` follow; plain passes have no other numbers.
  static constexpr std::uint32_t kNewestBlock = 0, kNewestSend = 1, kNewestReduction = 2,
                                 kFirstOp = 3;

  /// Next part of a program: a plain pass, or operations; neither at the end.
  struct Part {
    const PlainPass* pass = nullptr;
    std::span<const Op> ops = {};
    bool empty() const { return pass == nullptr && ops.empty(); }
  };

  virtual ~ProgramReader() = default;
  /// Writes the next part to `part`, where it is valid until the next call.
  virtual void read_part(Part& part) = 0;
};

/// Memory of one GPU, by use.
struct MemoryUse {
  Bytes parameters, gradients, optimizer, activations;
  Bytes logits;    ///< logits of the last stage, beyond the memory of a backward pass
  Bytes gathered;  ///< complete layers of sharded parameters
  Bytes buffers;   ///< buffers of communication
  Bytes update;    ///< copies of the optimizer's step, beyond the memory of the passes
  Bytes reserved;  ///< used by driver, libraries and allocator
  Bytes total() const {
    return parameters + gradients + optimizer + activations + logits + gathered + buffers +
           update + reserved;
  }
  /// Returns the memory of tensors alone: the peak that a framework's allocator reports.
  Bytes allocated() const { return total() - reserved; }
};

/// Step of a job as programs of its rank classes.
class StepGraph {
 public:
  /// Builds the graph of a resolved job (traces/workload/model.hpp). Throws bad_input for the first
  /// of job_problems(), for example if the layout does not divide the model or the batch (the
  /// message names the keys, the caller adds the place). Without `even_shares` replicas may have
  /// different numbers of micro-batches, as after a loss.
  explicit StepGraph(const Job& job, bool even_shares = true);

  const Job& job() const { return job_; }  ///< the job with defaults
  std::uint32_t ranks() const { return members() * pipeline() * data(); }
  std::uint32_t tensor() const { return job_.layout().tensor(); }
  std::uint32_t pipeline() const { return job_.layout().pipeline(); }
  std::uint32_t context() const { return job_.layout().context(); }
  std::uint32_t data() const { return job_.layout().data(); }
  std::uint32_t chunks() const { return job_.layout().chunks(); }
  /// Returns the number of ranks of one stage of one replica, its members: tensor x context, tensor
  /// fastest.
  std::uint32_t members() const { return tensor() * context(); }
  /// Returns the micro-batches of one step, all replicas together.
  std::uint32_t micro_batches() const;

  /// Sets the processes that read data for a rank, and the micro-batches that they read ahead, for
  /// steps that begin from now on. Programs that were built before stay valid.
  void set_input(std::uint32_t workers, std::uint32_t prefetch);
  /// Sets the nanoseconds of one read for steps that begin from now on, in place of job.input.read;
  /// does nothing for a job without input. Programs that were built before stay valid.
  void set_read_time(Nanos read);
  /// Returns the time from one micro-batch that the readers of a rank deliver to the next: that of
  /// one read over the number of reads beside each other, min(workers, prefetch). For example,
  /// 120 ms, four workers and eight micro-batches ahead give 30 ms. 0 for a job without input.
  Seconds read_interval() const;

  const std::vector<Block>& blocks() const { return blocks_; }
  /// Returns the index of the block of a stage's optimizer in blocks(). `stage` must be below
  /// pipeline() (not checked).
  std::uint32_t block_of_optimizer(std::uint32_t stage) const { return optimizer_[stage]; }
  /// Returns the program of a rank class: one per (stage, micro-batches of its replica), built at
  /// the first use and valid as long as the graph. `most` is the largest number of micro-batches
  /// among the replicas of the step (0: this one's): if each pass has collectives, interleaved
  /// stages of all replicas follow the order of that replica. Throws an internal Error for an
  /// unknown stage.
  const Program& program(std::uint32_t stage, std::uint32_t micro_batches, std::uint32_t most = 0);
  /// Returns a reader of the operations of program(stage, micro_batches), which does not build the
  /// program. The graph must outlive the reader. Throws an internal Error for an unknown stage.
  std::unique_ptr<ProgramReader> read_program(std::uint32_t stage,
                                              std::uint32_t micro_batches) const;
  /// Returns the number of distinct programs that program() has built.
  std::size_t programs_built() const { return programs_.size(); }

  /// Parameters on one rank, those of experts separately.
  struct Share {
    double dense = 0, expert = 0;
  };
  /// Returns the parameters with gradients of each rank of a stage, all chunks together. `stage`
  /// must be below pipeline() (not checked). 0 for a recorded program.
  Share parameters(std::uint32_t stage) const;
  /// Returns the indices into blocks() of the passes of one micro-batch on a stage, each whole.
  /// `stage` must be below pipeline() (not checked). Empty for a recorded program.
  std::vector<std::uint32_t> pass_blocks(std::uint32_t stage) const;
  /// Returns the model FLOPs of a whole step over all ranks: three times those of the forward pass,
  /// because a backward pass counts twice. Counts the experts to which a token is routed only,
  /// causal attention half, and no recomputation.
  Flop model_flop() const;
  double tokens() const;  ///< tokens of a whole step
  /// Returns the memory of one rank with Adam: a gradient of Job.gradient_bytes, fp32 moments and,
  /// beside 16-bit weights, fp32 weights, divided as Layout.shard says; the activations of the
  /// micro-batches in flight after Korthikanti et al. 2022 (arXiv:2205.05198), without dropout for
  /// flash attention. A built-in model has fp32 values only. A recorded program has its recorded
  /// memory. Throws an internal Error for an unknown stage.
  MemoryUse memory(std::uint32_t stage, std::uint32_t micro_batches) const;

  /// Place of a rank in the layout. Rank order: members fastest, then pipeline and data as
  /// Layout.order says.
  struct Position {
    std::uint32_t replica, stage, member;
    friend bool operator==(const Position&, const Position&) = default;
  };
  /// Returns the rank at a place; position() is the inverse. Indices beyond the layout are not
  /// checked, as in the methods below.
  RankId rank(std::uint32_t replica, std::uint32_t stage, std::uint32_t member) const;
  RankId rank(const Position& at) const { return rank(at.replica, at.stage, at.member); }
  Position position(RankId rank) const;

  /// Arrangement of the communicators of a stage among its ranks, numbered member after member and
  /// replica after replica: `size` ranks each, `stride` apart, in blocks of size x stride.
  struct Lie {
    std::uint32_t size = 1, stride = 1;
  };
  /// Returns the arrangement of a communicator.
  Lie lie_of(Communicator which) const;
  /// Returns true if ranks are numbered replica after replica within a stage (Layout.order), false
  /// if stage after stage within a replica.
  bool is_pipeline_last() const { return pipeline_last_; }
  /// Returns the number of ranks of one communicator, at least 1.
  std::uint32_t communicator_size(Communicator which) const;
  /// Returns all ranks of the communicator of `of`, itself included, in ring order.
  std::vector<RankId> communicator(Communicator which, RankId of) const;

 private:
  /// Blocks of one model chunk of a stage: indices into blocks_. A pass is one block, or one for
  /// each of `shares` if each part waits for, or leads to, an exchange of its own.
  struct Piece {
    std::vector<std::uint32_t> forward, forward_parts;
    std::vector<std::uint32_t> backward, backward_parts;  ///< the last layers first
    std::vector<std::uint32_t> weights, weights_parts;    ///< only if separate from `backward`
    std::vector<Share> shares;  ///< indexed by part, the first layers first
    Share whole;
  };
  struct Peers {
    std::uint32_t size = 1, stride = 1;
    bool with_tensor = false;
  };
  Peers peers(Communicator which) const;
  class Builder;  ///< builder and reader of one program (step_program.cpp)
  class Pieces;   ///< builder of all pieces (step_pieces.cpp)
  class Replay;   ///< builder of a recorded program (step_replay.cpp)
  void add_pieces();
  void add_recorded_blocks();
  /// Returns the program of a recorded stage; its operations are numbered from `first_op`.
  /// `order_of`: as followed_micro_batches().
  std::unique_ptr<Program> recorded_program(std::uint32_t stage, std::uint32_t micro_batches,
                                            std::uint32_t order_of, std::uint32_t first_op) const;
  /// Returns the micro-batches of the replica whose order of passes a program follows; 0: its own.
  std::uint32_t followed_micro_batches(std::uint32_t micro_batches, std::uint32_t most) const;
  MemoryUse recorded_memory(std::uint32_t stage) const;
  const Piece& piece(std::uint32_t stage, std::uint32_t chunk) const {
    return pieces_[piece_of_[stage * chunks() + chunk]];
  }

  Job job_;
  bool pipeline_last_ = false;
  std::vector<Block> blocks_;
  std::vector<Piece> pieces_;             ///< the distinct ones
  std::vector<std::uint32_t> piece_of_;   ///< stage x chunk
  std::vector<std::uint32_t> optimizer_;  ///< indexed by stage: index into blocks_
  /// Stage, recorded operation: index into blocks_.
  std::vector<std::vector<std::uint32_t>> recorded_;
  /// Stage, micro-batches, micro-batches of the replica whose order is followed, micro-batches that
  /// are read ahead.
  using ProgramKey = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>;
  std::map<ProgramKey, std::unique_ptr<Program>> programs_;
};

}  // namespace orrery
