// Adam with its state divided among the ranks of a job (ZeRO-1, arXiv:1910.02054). Each rank holds
// the moments of its own part of the parameters and, as its peer, of one other rank's part, and
// updates both from the same sum of gradients: the peer's copy costs an update and no traffic, and
// is exact. Then each rank sends its own part's parameters to all others. A rank that is lost takes
// no state with it; one that is lost together with who keeps its copy does. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "live/checkpoint/format.hpp"
#include "live/fabric/fabric.hpp"
#include "live/training/model.hpp"

namespace orrery::live {

/// Nobody who is left holds some of the state.
class StateLost : public Error {
 public:
  explicit StateLost(std::string message) : Error(ErrorKind::environment, std::move(message)) {}
};

class ShardedOptimizer {
 public:
  /// Parameters that have had no update yet; they outlive this.
  ShardedOptimizer(std::span<float> parameters, double learning_rate);

  /// By member: who keeps the copy of its part (topologies/failure_domain.hpp).
  using Keepers = std::vector<std::uint32_t>;
  /// What member `index` holds: its own part and those whose copies it keeps.
  static std::vector<Range> shares(std::size_t total, std::uint32_t index, const Keepers& keepers);

  /// Takes on a whole state; the next deal() leaves this rank its share of it.
  void restore(const TrainingState& whole);
  /// Deals the state anew among the fabric's ranks, whatever each of them holds; all end with all
  /// parameters. `current`: what this rank holds is of the step that the others are at. Whoever
  /// held something keeps it until the next update, so that a deal which fails costs nothing.
  /// The same `keepers` on all. Throws FabricBroken, and StateLost.
  void deal(Fabric& fabric, bool current, const Keepers& keepers);
  /// One optimizer step of the parts held along gradient x scale; the other parameters are old
  /// until they are gathered.
  void update(std::span<const float> gradient, float scale);
  /// Every rank's own part of the parameters goes to all. Throws FabricBroken.
  void gather(Fabric& fabric);

  /// A copy of what belongs to parameters that are held.
  TrainingState part(const Range& range) const;
  /// Size of the moments held.
  std::size_t bytes() const;

 private:
  struct Held {
    Range range;
    Adam optimizer;
  };
  using Holdings = std::vector<std::vector<Range>>;  ///< by rank
  struct Piece {
    Range range;
    std::uint32_t source = 0;
    std::vector<bool> takes_moments;  ///< by rank
  };
  std::vector<Range> holdings() const;
  static Holdings exchange_holdings(Fabric& fabric, const std::vector<Range>& own);
  std::vector<Piece> pieces(const Holdings& holdings, const Keepers& keepers) const;
  void give(Fabric& fabric, const Piece& piece) const;
  TrainingState take(Fabric& fabric, const Piece& piece);
  Held hold(const TrainingState& state, const Range& range) const;

  const std::span<float> parameters_;
  const double learning_rate_;
  bool fresh_ = true;  ///< all moments are zero, and not in memory
  std::vector<Held> held_;
  std::vector<Held> before_;  ///< the deal before: as good as held_ until the next update
};

}  // namespace orrery::live
