// Deviations of a job's hardware from its data sheet during one step. A plain value, used by plans
// and steps. Factors; the world decides when they change (sim/training/fault_plan).
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "core/ids.hpp"

namespace orrery::estimates {

/// Factors by rank, in the order of the ranks: a sorted vector, because a state with a factor for
/// each of hundreds of thousands of ranks is copied into the key of its step. For example,
/// factors[3] = 2 adds or changes the factor of rank 3. A rank above all others is added in
/// constant time.
class RankFactors {
 public:
  using Entry = std::pair<std::uint32_t, double>;  ///< rank and factor
  using Iterator = std::vector<Entry>::const_iterator;

  Iterator begin() const { return entries_.begin(); }
  Iterator end() const { return entries_.end(); }
  bool empty() const { return entries_.empty(); }
  std::size_t size() const { return entries_.size(); }
  void clear() { entries_.clear(); }
  /// Returns the entry of a rank, or end().
  Iterator find(std::uint32_t rank) const {
    const Iterator found = begin() + (lower_bound(rank) - begin());
    return found == end() || found->first != rank ? end() : found;
  }
  /// Returns the factor of a rank, and adds one of 1 if there is none.
  double& operator[](std::uint32_t rank) {
    if (entries_.empty() || entries_.back().first < rank) {
      return entries_.emplace_back(rank, 1.0).second;
    }
    const auto place = entries_.begin() + (lower_bound(rank) - begin());
    if (place->first == rank) return place->second;
    return entries_.insert(place, {rank, 1.0})->second;
  }
  /// Removes the factors of 1.
  void drop_nominal() {
    std::erase_if(entries_, [](const Entry& entry) { return entry.second == 1; });
  }
  friend auto operator<=>(const RankFactors&, const RankFactors&) = default;
  /// Passes all members to an archive of the state.
  template <class Archive>
  friend void fields(Archive& archive, RankFactors& of) {
    archive(of.entries_);
  }

 private:
  Iterator lower_bound(std::uint32_t rank) const {
    return std::lower_bound(begin(), end(), rank, [](const Entry& entry, std::uint32_t sought) {
      return entry.first < sought;
    });
  }

  std::vector<Entry> entries_;
};

/// Deviations of the hardware during a step, as a plain value: a missing entry means nominal. Equal
/// states lead to equal iterations, so that the state can serve as a cache key. For example, slow =
/// {3: 2.0} means that rank 3 takes twice as long.
struct HardwareState {
  RankFactors slow;  ///< slowdown factors of compute time
  /// Divisor x by LinkId: the link has 1/x of its bandwidth.
  std::map<std::uint32_t, double> link_slow;
  std::set<std::uint32_t> down;               ///< LinkIds of links that are down
  /// Share of the compute clock that all GPUs keep under a limit of power: products take 1/clock as
  /// long, kernels that the memory limits as long as before.
  double clock = 1;

  /// Returns the slowdown factor of a rank; 1 if nominal.
  double slow_of(RankId rank) const {
    const auto found = slow.find(rank.value);
    return found == slow.end() ? 1 : found->second;
  }
  /// Returns the divisor of a link's bandwidth; 1 if nominal.
  double link_slow_of(LinkId link) const {
    const auto found = link_slow.find(link.value);
    return found == link_slow.end() ? 1 : found->second;
  }
  friend auto operator<=>(const HardwareState&, const HardwareState&) = default;
};

}  // namespace orrery::estimates
