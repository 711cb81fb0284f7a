// Max-min rates of the flows in progress on links, by the numbers of flows of each kind. Used by
// sim/estimates/step/joint_run; one thread. Bytes per second.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace orrery::estimates {

/// Table of the max-min rates of flows. A state is the number of flows of each kind that are in
/// progress; flows of one kind cross the same links and have the same rate. The rates of a state
/// are computed once. Not thread-safe.
///
/// For example, kinds 0 and 1, with largest rates 6 and 10, cross a link of bandwidth 10: in the
/// state with one flow of each, the rates are 5 and 5; with two flows of kind 1, 10/3 each; with
/// a flow of kind 1 alone, 10.
class SharedRates {
 public:
  /// Link that flows of these kinds cross so many times each.
  struct Link {
    struct Crossing {
      std::uint32_t kind = 0;
      double times = 0;
    };
    double bandwidth = 0;
    std::vector<Crossing> crossings;
  };

  /// Begins with no flow in progress. `largest`: largest rate of a flow of each kind, positive.
  SharedRates(std::vector<double> largest, std::vector<Link> links);

  /// Adds a flow of a kind to those in progress.
  void add_flow(std::uint32_t kind) { move_to(2 * kind); }
  /// Removes a flow of a kind, of which one is in progress (not checked).
  void remove_flow(std::uint32_t kind) { move_to(2 * kind + 1); }
  /// Returns the rates of the flows in progress, by kind, 0 if there is none; valid until the next
  /// call of another method.
  const double* rates() const { return &rates_[std::size_t{state_} * kinds_]; }

 private:
  using Counts = std::vector<std::uint32_t>;
  static constexpr std::uint32_t kUnknown = ~0u;
  static constexpr std::size_t kMostStates = 65536;

  /// Goes to the state after a change: 2 x kind for a flow more, 2 x kind + 1 for one less.
  void move_to(std::uint32_t change) {
    const std::uint32_t next = next_[std::size_t{state_} * 2 * kinds_ + change];
    next == kUnknown ? find_next(change) : void(state_ = next);
  }
  void find_next(std::uint32_t change);
  std::uint32_t add_state(Counts counts);
  void fill_links(const Counts& counts, double* rates) const;

  const std::size_t kinds_;
  const std::vector<double> largest_;
  const std::vector<Link> links_;
  std::map<Counts, std::uint32_t> known_;
  std::vector<const Counts*> counts_;  ///< counts of each state
  std::vector<double> rates_;          ///< rates of each state
  std::vector<std::uint32_t> next_;    ///< state after each change of each state
  std::uint32_t state_ = 0;
};

}  // namespace orrery::estimates
