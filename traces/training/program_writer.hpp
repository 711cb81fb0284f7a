// One rank's program as it is written: its operations one after the other, each with what it waits
// for by the nature of its kind: blocks of a GPU, collectives of a communicator and reads go in
// turn. Used by traces/training/step_program, which knows what a step consists of; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "traces/training/step_graph.hpp"
#include "traces/training/step_schedule.hpp"

namespace orrery {

class ProgramWriter {
 public:
  using Index = std::uint32_t;

  /// The graph outlives this. `element`: bytes of a value that goes from stage to stage.
  ProgramWriter(const StepGraph& graph, std::uint32_t stage, std::uint32_t micro_batches,
                double element);

  const Program& program() const { return program_; }
  void reserve(std::size_t ops) { program_.ops.reserve(ops); }
  std::unique_ptr<Program> take() { return std::make_unique<Program>(std::move(program_)); }

  Index compute(Phase phase, const Pass& pass, std::uint32_t block, FewOps after);
  /// Nothing among one rank. `out`: it is added there.
  void collective(Op op, Communicator which, OpCollective kind, double bytes, FewOps after,
                  FewOps* out = nullptr);
  /// From the next stage or the one before; to be waited for by `inputs`.
  void receive(Phase phase, const Pass& pass, bool from_next, FewOps& inputs);
  /// What was computed last.
  void send(Phase phase, const Pass& pass, bool to_next);
  /// Micro-batch `prefetch` after this one may be read from now on; this one was, or is waited for.
  void read(std::uint32_t micro_batch, FewOps& inputs);

  // The last one so far.
  const std::optional<Index>& last_compute() const { return last_compute_; }
  FewOps so_far() const { return last_compute_ ? FewOps{*last_compute_} : FewOps{}; }
  const std::map<Communicator, Index>& last_collectives() const { return last_on_; }

 private:
  Index add(Op op) {
    program_.ops.push_back(std::move(op));
    return static_cast<Index>(program_.ops.size() - 1);
  }

  const StepGraph& graph_;
  Program program_;
  const bool blocking_;    ///< what follows a send waits for it
  const double boundary_;  ///< bytes from stage to stage
  std::optional<Index> last_compute_, last_read_, last_send_;
  std::vector<Index> reads_;               ///< from micro-batch `prefetch` on
  std::map<Communicator, Index> last_on_;  ///< by communicator
};

}  // namespace orrery
