// What one training step is: the operations of one rank and their dependencies, for a model and a
// parallel layout. The simulator prices every op, live mode launches it; both report the same
// phases. Ranks that run the same program share it: a program is built once per rank class
// (pipeline stage, micro-batches), never once per rank. Immutable after building; thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/ids.hpp"
#include "core/units.hpp"
#include "topologies/cluster.hpp"
#include "traces/scenario.pb.h"

namespace orrery {

/// One kernel as the cost model prices it. A GEMM has m x n x k (x batch); everything has the
/// bytes it moves through GPU memory.
struct Kernel {
  enum class Kind : std::uint8_t { gemm, attention, memory_bound } kind{};
  double m = 0, n = 0, k = 0, batch = 1;
  Flop flop{};
  Bytes bytes{};
  double repeat = 1;  ///< times in the block (once per layer, say)
  const char* name = "";  ///< "qkv", "attention", "mlp_up", ...; static storage
};

/// A collective inside a block, on NVLink and not overlapped: it never leaves the node.
struct BlockCollective {
  enum class Kind : std::uint8_t { all_reduce, all_gather, reduce_scatter } kind{};
  Bytes bytes;  ///< full (gathered) size
  double repeat = 1;
};

/// Work of one rank between two points where it talks to another stage or replica.
struct Block {
  std::vector<Kernel> kernels = {};
  std::vector<BlockCollective> collectives = {};  ///< over the tensor-parallel group
  Nanos declared = 0;                        ///< > 0: takes exactly this at speed 1 (Job.pace)
};

enum class OpKind : std::uint8_t { compute, send, receive, collective };
enum class Phase : std::uint8_t { forward, backward, gradient, optimizer, parameters };
enum class OpCollective : std::uint8_t { none, all_reduce, reduce_scatter, all_gather };

struct Op {
  OpKind kind{};
  Phase phase{};
  std::uint32_t micro_batch = 0;
  std::uint32_t block = 0;        ///< compute: index into StepGraph::blocks()
  std::uint32_t bucket = 0;       ///< collective: which gradient bucket
  std::int32_t peer_stage = -1;   ///< send, receive
  OpCollective collective{};      ///< over the data-parallel group of this stage and tensor rank
  Bytes bytes{};                  ///< send, receive: payload; collective: full size
  std::vector<std::uint32_t> after = {};  ///< ops of this program, by index, that must end first
};

/// Compute ops run one at a time in the order given; communication runs beside them. The k-th
/// send of a phase to a neighbour stage is the k-th receive of that phase there.
struct Program {
  std::uint32_t stage = 0;
  std::uint32_t micro_batches = 0;
  std::vector<Op> ops;
};

/// Memory of one GPU, by what it holds.
struct MemoryUse {
  Bytes parameters, gradients, optimizer, activations, buffers;
  Bytes total() const { return parameters + gradients + optimizer + activations + buffers; }
};

class StepGraph {
 public:
  /// `job` resolved (traces/model.hpp). Throws bad_input when the layout does not divide the
  /// model or the batch (places are the caller's: the message names the keys).
  explicit StepGraph(const Job& job);

  const Job& job() const { return job_; }
  std::uint32_t ranks() const { return tensor() * pipeline() * data(); }
  std::uint32_t tensor() const { return job_.layout().tensor(); }
  std::uint32_t pipeline() const { return job_.layout().pipeline(); }
  std::uint32_t data() const { return job_.layout().data(); }
  /// Micro-batches of one step, all replicas together.
  std::uint32_t micro_batches() const;

  const std::vector<Block>& blocks() const { return blocks_; }
  /// Built on first use and kept: one per (stage, micro-batches of its replica).
  const Program& program(std::uint32_t stage, std::uint32_t micro_batches);
  std::size_t programs_built() const { return programs_.size(); }

  /// Model FLOPs of a whole step: forward + 2 x backward, no recompute, causal attention at half.
  Flop model_flop() const;
  double tokens() const;  ///< of a whole step
  /// Memory of one rank: 16 bytes per parameter (weights, gradients, fp32 master weights and
  /// moments of Adam) and the activations of the micro-batches in flight under 1F1B, after
  /// Korthikanti et al. 2022 (arXiv:2205.05198) without dropout and with flash attention.
  MemoryUse memory(std::uint32_t stage, std::uint32_t micro_batches) const;

  /// Rank order: tensor fastest, then pipeline, then data.
  RankId rank(std::uint32_t replica, std::uint32_t stage, std::uint32_t tensor_rank) const {
    return {(replica * pipeline() + stage) * tensor() + tensor_rank};
  }

 private:
  /// Indices into blocks_, and the gradients that a stage exchanges.
  struct Stage {
    std::uint32_t forward = 0, backward = 0, optimizer = 0;
    std::vector<std::uint32_t> last_backward;  ///< of the last micro-batch: one per bucket
    double parameters = 0;                     ///< on one rank
    double gradient_bytes = 0;                 ///< on one rank
    std::uint32_t buckets = 0;                 ///< 0: nobody to exchange gradients with
    std::uint32_t layers = 0;
  };
  class Builder;  ///< of one program (step_program.cpp)
  std::uint32_t add_block(Block block);
  void add_declared_stages();
  void add_transformer_stages();
  std::uint32_t bucket_count(double gradient_bytes) const;
  double activation_bytes(std::uint32_t stage) const;  ///< of one micro-batch in flight

  Job job_;
  std::vector<Block> blocks_;
  std::vector<Stage> stages_;  ///< by kind: a stage is of kind stage_kind_[its number]
  std::vector<std::uint32_t> stage_kind_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::unique_ptr<Program>> programs_;
};

}  // namespace orrery
