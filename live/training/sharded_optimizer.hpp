// Adam with its state divided among the ranks of a job (ZeRO-1, arXiv:1910.02054). Each rank holds
// the moments of its own part of the parameters and, as its peer, of another rank's part, and
// updates both from the same sum of gradients: the peer's copy costs an update and no traffic, and
// is exact. Then each rank sends its own part's parameters to all others. The loss of one rank
// loses no state; the loss of a rank together with the holder of its copy does. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "live/checkpoint/checksum.hpp"
#include "live/checkpoint/format.hpp"
#include "live/fabric/fabric.hpp"
#include "live/training/model.hpp"

namespace orrery::live {

/// Error: no remaining rank holds some of the state.
class StateLost : public Error {
 public:
  explicit StateLost(std::string message) : Error(ErrorKind::environment, std::move(message)) {}
};

/// Optimizer of one rank with its share of the state.
class ShardedOptimizer {
 public:
  /// Constructs an optimizer of parameters without updates, whose moments are 0 on every rank; the
  /// parameters must outlive it.
  ShardedOptimizer(std::span<float> parameters, double learning_rate);

  /// Holder of the copy of each member's part, indexed by member (topologies/failure_domain.hpp).
  using Keepers = std::vector<std::uint32_t>;
  /// Returns the ranges that member `index` holds: its own part and the parts whose copies it
  /// holds; ascending, neighbours joined, without empty ones. Throws an internal Error unless
  /// `index` is below the number of keepers.
  static std::vector<Range> shares(std::size_t total, std::uint32_t index, const Keepers& keepers);

  /// Sets a complete state, parameters included; the next deal_state() keeps this rank's share.
  /// Throws an internal Error for a state of another model; the held state may be lost by then.
  void restore_state(const TrainingState& whole);
  /// Distributes the state again among the fabric's ranks, from the parts that each of them holds;
  /// all end with all parameters. All ranks call it, and it blocks until this rank has its share.
  /// `current`: this rank's part is of the step of the others; if false, the part is dropped
  /// without use. Every rank keeps its earlier part until the next update, so a failed call loses
  /// no moments of a current rank. What a rank sends is copied before the state is verified, and
  /// its receivers compare it with the checksum of the copy, so that no damage spreads. `keepers`
  /// must be the same on all ranks, with one entry for each rank; throws an internal Error for
  /// another count. Throws FabricBroken, also if a part was damaged on its way; StateDamaged, if
  /// this rank is current; and StateLost if no current rank holds some of the state.
  void deal_state(Fabric& fabric, bool current, const Keepers& keepers);
  /// Applies one optimizer step to the held parts along gradient x scale, with the learning rate x
  /// `rate_factor`; the other parameters are
  /// outdated until gather_parameters(). Forgets the parts of before the newest deal_state().
  /// `gradient` has the size of the parameters, unchecked.
  /// Throws an internal Error if neither deal_state() nor restore_state() has been called.
  void update(std::span<const float> gradient, float scale, double rate_factor = 1);
  /// Sends every rank's own part of the parameters to all ranks, and writes the received parts into
  /// the parameters. Call after update(), on all ranks, over the fabric of the newest deal_state().
  /// Throws StateDamaged, before anything is sent, if this rank's part differs from the one that
  /// the update has written, and FabricBroken, also if a part was damaged on its way; some parts
  /// may be new then.
  void gather_parameters(Fabric& fabric);

  /// Returns a copy of the state of held parameters, also of parts from before the newest
  /// deal_state() until the next update; zero moments and 0 updates before the first deal_state()
  /// or restore_state(). Throws an internal Error for a range beyond the parameters, or with
  /// parameters whose state this rank does not hold.
  TrainingState part(const Range& range) const;
  /// Returns true if all parameters and moments in memory are those that this object has written;
  /// reads them all.
  bool is_state_intact() const;
  /// Returns the checksums of the state that this rank holds, as it has been written: without the
  /// parameters (key 0) between update() and the end of gather_parameters(), and without parts
  /// before the first deal_state(). Those of a part contain the parameters that this rank's update
  /// has left, also if it has received the part since. Reads no state.
  PartChecksums part_checksums() const;
  /// Returns the size of the held moments in bytes, with those from before the newest deal_state();
  /// 0 before the first deal_state() or restore_state().
  std::size_t bytes() const;

 private:
  struct Held {
    Range range;
    Adam optimizer;
    Checksum moments;     ///< running checksum of the moments
    Checksum parameters;  ///< covers the parameters that the newest update or distribution has left
  };
  /// Copy of a piece of the state, with the checksums of the copy.
  struct Copy {
    TrainingState state;
    StateChecksums sums;
  };
  using Holdings = std::vector<std::vector<Range>>;  ///< indexed by rank
  struct Piece {
    Range range;
    std::uint32_t source = 0;
    std::vector<bool> takes_moments;  ///< indexed by rank
    /// Returns true if the message of this piece to `rank` contains moments: `rank` takes them, or
    /// one of the ranks to which it passes the piece on, up to the source.
    bool carries_moments_to(std::uint32_t rank) const;
  };
  std::vector<Range> holdings() const;
  static Holdings exchange_holdings(Fabric& fabric, const std::vector<Range>& own);
  std::vector<Piece> pieces(const Holdings& holdings, const Keepers& keepers) const;
  Copy copy_range(const Range& range) const;
  /// Passes a piece on to the next rank, unless that is its source.
  static void pass_piece(Fabric& fabric, const Piece& piece, const Copy& copy);
  Copy take_piece(Fabric& fabric, const Piece& piece);
  Held cut_range(const Copy& copy, const Range& range) const;
  void write_parameters(const Range& range, const Copy& copy);
  void forget_state();

  const std::span<float> parameters_;
  const double learning_rate_;
  bool fresh_ = true;          ///< all moments are zero, and not in memory
  Checksum all_parameters_;    ///< running checksum of the parameters
  bool is_gathered_ = true;    ///< false from update() until the end of gather_parameters()
  std::uint32_t members_ = 0;  ///< ranks of the newest distribution; 0: none
  std::vector<Held> held_;
  std::vector<Held> before_;  ///< state before the newest distribution, valid until the next update
};

}  // namespace orrery::live
