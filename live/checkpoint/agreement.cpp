#include "live/checkpoint/agreement.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace orrery::live {
namespace {

using Ranks = std::map<std::uint32_t, PartChecksums>;
/// Holders of each checksum of one part.
using Votes = std::map<Checksum, std::vector<std::uint32_t>>;

/// Returns the votes on each part with more than one checksum. Ranks in `without` have no vote.
std::vector<Votes> contested(const Ranks& ranks, const std::set<std::uint32_t>& without) {
  std::map<std::uint32_t, Votes> parts;
  for (const auto& [rank, checksums] : ranks) {
    if (without.contains(rank)) continue;
    for (const auto& [part, checksum] : checksums) parts[part][checksum].push_back(rank);
  }
  std::vector<Votes> found;
  for (const auto& [part, votes] : parts) {
    if (votes.size() > 1) found.push_back(votes);
  }
  return found;
}

/// Returns the ranks outside of the majority; empty without a majority.
std::vector<std::uint32_t> minority(const Votes& votes) {
  std::size_t all = 0, most = 0;
  for (const auto& [checksum, holders] : votes) {
    all += holders.size();
    most = std::max(most, holders.size());
  }
  std::vector<std::uint32_t> others;
  if (2 * most <= all) return others;
  for (const auto& [checksum, holders] : votes) {
    if (holders.size() < most) others.insert(others.end(), holders.begin(), holders.end());
  }
  return others;
}

}  // namespace

ReplicaVerdict compare_replicas(const Ranks& ranks) {
  std::set<std::uint32_t> outvoted, undecided;
  for (const Votes& votes : contested(ranks, {})) {
    for (const std::uint32_t rank : minority(votes)) outvoted.insert(rank);
  }
  for (const Votes& votes : contested(ranks, outvoted)) {
    for (const auto& [checksum, holders] : votes) {
      undecided.insert(holders.begin(), holders.end());
    }
  }
  return {{outvoted.begin(), outvoted.end()}, {undecided.begin(), undecided.end()}};
}

std::string find_disagreement(const std::vector<ShardProof>& shards) {
  Ranks writers;
  bool sharded = false;
  Checksum contents;
  for (std::uint32_t index = 0; index < shards.size(); ++index) {
    const ShardProof& shard = shards[index];
    if (shard.state.empty()) return {};
    writers.emplace(index, shard.state);
    sharded = sharded || shard.state.rbegin()->first > 0;
    contents += shard.content;
  }
  const ReplicaVerdict verdict = compare_replicas(writers);
  std::vector<std::uint32_t> differ = verdict.outvoted;
  differ.insert(differ.end(), verdict.undecided.begin(), verdict.undecided.end());
  if (!differ.empty()) {
    return fmt::format("expected equal training states on all ranks, found others on {} {}",
                       differ.size() > 1 ? "the ranks" : "rank", fmt::join(differ, ", "));
  }
  for (std::uint32_t index = 0; sharded && index < shards.size(); ++index) {
    const auto part = shards[index].state.find(1 + index);
    if (part == shards[index].state.end() || part->second != shards[index].content) {
      return fmt::format("the shard of rank {} is not the state of the rank", index);
    }
  }
  if (!sharded && !shards.empty() && contents != writers.at(0).at(0)) {
    return "the shards together are not the state of the ranks";
  }
  return {};
}

}  // namespace orrery::live
