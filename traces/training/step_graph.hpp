// What one training step is: the operations of one rank and their dependencies, for a model and a
// parallel layout. The simulator prices every op, live mode launches it; both report the same
// phases. Ranks that run the same program share it: a program is built once per rank class
// (pipeline stage, micro-batches), never once per rank. Immutable after building; thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/ids.hpp"
#include "core/units.hpp"
#include "topologies/cluster.hpp"
#include "traces/scenario.pb.h"

namespace orrery {

/// One kernel as the cost model prices it. A GEMM has m x n x k (x batch), the optimizer m
/// parameters; everything has the bytes it moves through GPU memory.
struct Kernel {
  enum class Kind : std::uint8_t { gemm, attention, memory_bound } kind{};
  double m = 0, n = 0, k = 0, batch = 1;
  Flop flop{};
  Bytes bytes{};
  double repeat = 1;  ///< times in the block (once per layer, say)
  const char* name = "";  ///< "qkv", "attention", "mlp_up", ...; static storage
  bool low_precision = false;  ///< runs in the job's precision; else in 16 bits (fp32: in fp32)
};

/// Who takes part in a collective. The first three belong to a block (they repeat in every layer
/// and are priced in closed form); the others are operations of a program.
enum class Communicator : std::uint8_t {
  tensor,     ///< the tensor-parallel ranks
  context,    ///< the ranks that share a sequence
  expert,     ///< the ranks that share the experts of a layer
  gradient,   ///< all replicas and context ranks of a stage and tensor rank
  shard,      ///< the part of it that holds one copy of what is sharded
  replicate,  ///< ranks of different copies with the same share
  expert_gradient,  ///< the ranks of `gradient` (or of a shard group) with the same experts
};

/// A collective inside a block. `beside`: runs next to the block's kernels of that name, so that
/// only what they do not cover counts; "" is exposed. A ring pass sends `bytes` round by round to
/// the next rank (keys and values of ring attention).
struct BlockCollective {
  enum class Kind : std::uint8_t {
    all_reduce, all_gather, reduce_scatter, all_to_all, ring_pass
  } kind{};
  Bytes bytes;  ///< full (gathered) size; all-to-all: what one rank sends in all
  double repeat = 1;
  Communicator communicator = Communicator::tensor;
  const char* beside = "";
  double hidden = 0;  ///< share of its time that products hide (Job.overlaps.tensor)
};

/// Work of one rank between two points where it talks to another stage or replica.
struct Block {
  std::vector<Kernel> kernels = {};
  std::vector<BlockCollective> collectives = {};
  Nanos declared = 0;  ///< > 0: takes exactly this at speed 1 (Job.pace)
  double layers = 0;   ///< layer passes in it (a stack may add time to each)
  /// What the host launches, in layer passes. It runs ahead within a micro-batch, so that only both
  /// passes together wait for it: each counts by its work, a third forward.
  double launches = 0;
};

/// read: a micro-batch of training data, beside everything else (Job.input).
enum class OpKind : std::uint8_t { compute, send, receive, collective, read };
enum class Phase : std::uint8_t { forward, backward, gradient, optimizer, parameters };
enum class OpCollective : std::uint8_t { none, all_reduce, reduce_scatter, all_gather };

/// A few ops of a program, by index, in place: programs of many ops are made often. Most has a part
/// of a pass: it waits for the block and the blocking send before it, for what it receives, reads
/// or has kept, for its parameters (of experts apart), and for gradients that do not overlap.
class FewOps {
 public:
  FewOps() = default;
  FewOps(std::initializer_list<std::uint32_t> ops) {
    for (const std::uint32_t op : ops) push_back(op);
  }
  void push_back(std::uint32_t op) {
    ensure(size_ < ops_.size(), "an op waits for few others");
    ops_[size_++] = op;
  }
  void append(const FewOps& others) {
    for (const std::uint32_t op : others) push_back(op);
  }
  const std::uint32_t* begin() const { return ops_.data(); }
  const std::uint32_t* end() const { return ops_.data() + size_; }
  std::uint32_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

 private:
  std::array<std::uint32_t, 7> ops_{};
  std::uint32_t size_ = 0;
};

struct Op {
  OpKind kind{};
  Phase phase{};
  std::uint32_t micro_batch = 0;
  std::uint32_t chunk = 0;        ///< model chunk of the stage (interleaving)
  std::uint32_t block = 0;        ///< compute: index into StepGraph::blocks()
  std::uint32_t bucket = 0;       ///< collective: which gradient bucket
  std::int32_t peer_stage = -1;   ///< send, receive
  OpCollective collective{};
  Communicator communicator = Communicator::gradient;  ///< collective: whose
  Bytes bytes{};                  ///< send, receive: payload; collective: full size
  FewOps after = {};              ///< of this program, that must end first
};

/// Compute ops run one at a time in the order given; communication runs beside them, collectives
/// of one communicator one at a time in the order given. A send is received by the op of the same
/// phase, micro-batch and chunk (the receiver's) at the peer stage; with chunks the last stage
/// sends to the first.
struct Program {
  std::uint32_t stage = 0;
  std::uint32_t micro_batches = 0;
  std::vector<Op> ops;
};

/// Memory of one GPU, by what it holds.
struct MemoryUse {
  Bytes parameters, gradients, optimizer, activations;
  Bytes logits;    ///< of the last stage
  Bytes gathered;  ///< layers whole, of parameters that are sharded
  Bytes buffers;   ///< of communication
  Bytes reserved;  ///< by driver, libraries and allocator
  Bytes total() const {
    return parameters + gradients + optimizer + activations + logits + gathered + buffers +
           reserved;
  }
  /// Of tensors alone: what a framework's allocator reports as its peak.
  Bytes allocated() const { return total() - reserved; }
};

class StepGraph {
 public:
  /// `job` resolved (traces/training/model.hpp). Throws bad_input when the layout does not divide
  /// the model or the batch (places are the caller's: the message names the keys). Not
  /// `even_shares`: replicas may have unequal numbers of micro-batches, as after a loss.
  explicit StepGraph(const Job& job, bool even_shares = true);

  const Job& job() const { return job_; }
  std::uint32_t ranks() const { return members() * pipeline() * data(); }
  std::uint32_t tensor() const { return job_.layout().tensor(); }
  std::uint32_t pipeline() const { return job_.layout().pipeline(); }
  std::uint32_t context() const { return job_.layout().context(); }
  std::uint32_t data() const { return job_.layout().data(); }
  std::uint32_t chunks() const { return job_.layout().chunks(); }
  /// Ranks of one stage of one replica, its members: tensor x context, tensor fastest.
  std::uint32_t members() const { return tensor() * context(); }
  /// Micro-batches of one step, all replicas together.
  std::uint32_t micro_batches() const;

  const std::vector<Block>& blocks() const { return blocks_; }
  /// The block of a stage's optimizer.
  std::uint32_t block_of_optimizer(std::uint32_t stage) const { return optimizer_[stage]; }
  /// Built on first use and kept: one per (stage, micro-batches of its replica).
  const Program& program(std::uint32_t stage, std::uint32_t micro_batches);
  std::size_t programs_built() const { return programs_.size(); }

  /// Model FLOPs of a whole step: forward + 2 x backward, no recompute, causal attention at half.
  Flop model_flop() const;
  double tokens() const;  ///< of a whole step
  /// Memory of one rank with Adam: a gradient of Job.gradient_bytes, fp32 moments and beside
  /// 16-bit weights fp32 ones, shared as Layout.shard says; the activations of the micro-batches
  /// in flight after Korthikanti et al. 2022 (arXiv:2205.05198), without dropout where attention
  /// is of the flash kind.
  MemoryUse memory(std::uint32_t stage, std::uint32_t micro_batches) const;

  /// Where a rank stands. Rank order: members fastest, then pipeline and data as Layout.order says.
  struct Position {
    std::uint32_t replica, stage, member;
    friend bool operator==(const Position&, const Position&) = default;
  };
  RankId rank(std::uint32_t replica, std::uint32_t stage, std::uint32_t member) const;
  RankId rank(const Position& at) const { return rank(at.replica, at.stage, at.member); }
  Position position(RankId rank) const;

  /// How the communicators of a stage lie among its ranks, numbered member after member and
  /// replica after replica: `size` of them, `stride` apart, in blocks of size x stride.
  struct Lie {
    std::uint32_t size = 1, stride = 1;
  };
  Lie lie(Communicator which) const;
  bool pipeline_last() const { return pipeline_last_; }
  /// Ranks of one communicator, and all ranks of the one that `of` belongs to, in ring order.
  std::uint32_t communicator_size(Communicator which) const;
  std::vector<RankId> communicator(Communicator which, RankId of) const;

 private:
  /// Parameters on one rank, those of experts apart.
  struct Share {
    double dense = 0, expert = 0;
  };
  /// What one model chunk of a stage does: indices into blocks_. A pass is one block, or as many
  /// as `shares` where each part waits for, or leads to, an exchange of its own.
  struct Piece {
    std::vector<std::uint32_t> forward, forward_parts;
    std::vector<std::uint32_t> backward, backward_parts;  ///< the last layers first
    std::vector<std::uint32_t> weights, weights_parts;    ///< only where they are apart
    std::vector<Share> shares;                            ///< by part, the first layers first
    Share whole;
  };
  struct Peers {
    std::uint32_t size = 1, stride = 1;
    bool with_tensor = false;
  };
  Peers peers(Communicator which) const;
  class Builder;  ///< of one program (step_program.cpp)
  class Pieces;   ///< builder of all pieces (step_pieces.cpp)
  void add_pieces();
  const Piece& piece(std::uint32_t stage, std::uint32_t chunk) const {
    return pieces_[piece_of_[stage * chunks() + chunk]];
  }

  Job job_;
  bool pipeline_last_ = false;
  std::vector<Block> blocks_;
  std::vector<Piece> pieces_;             ///< those that differ
  std::vector<std::uint32_t> piece_of_;   ///< stage x chunk
  std::vector<std::uint32_t> optimizer_;  ///< by stage: into blocks_
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::unique_ptr<Program>> programs_;
};

}  // namespace orrery
