// Fake ranks for tests, which only record the calls.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "live/run/processes/rank_control.hpp"

namespace orrery::live {

/// Rank control that records its calls. The states are those that the test has written; only
/// fence() changes them.
struct FakeRanks : RankControl {
  /// Starts with `seats` seats, of which the first four are members.
  explicit FakeRanks(std::uint32_t seats = 8) {
    now.ranks.resize(seats);
    now.is_epoch_formed = true;
    now.patience = 600 * kNanosPerSecond;
    set_members({0, 1, 2, 3});
  }

  void replace(std::uint32_t rank) override { replaced.push_back(rank); }
  void withdraw_rank(std::uint32_t rank) override { withdrawn.push_back(rank); }
  void signal(std::uint32_t rank, int number) override { signals.emplace_back(rank, number); }
  void end(std::uint32_t rank, const std::string& cause) override {
    ended.emplace_back(rank, cause);
  }
  void renew_epoch() override { ++renewed; }
  void fence(std::uint32_t rank) override {
    fenced.push_back(rank);
    now.ranks.at(rank).is_fenced = true;
  }
  void readmit_rank(std::uint32_t rank) override { readmitted.push_back(rank); }
  const RankStates& states() const override { return now; }

  /// Lets the processes of these ranks run and be the members, and no others.
  void set_members(const std::vector<std::uint32_t>& ranks) {
    mark_only(ranks, &RankState::is_running);
    mark_only(ranks, &RankState::is_peer);
    mark_only(ranks, &RankState::is_member);
  }
  std::vector<std::uint32_t> members() const { return now.ranks_with(&RankState::is_member); }
  /// Gives these ranks, and no others, the property.
  void mark_only(const std::vector<std::uint32_t>& ranks, bool RankState::*property) {
    for (RankState& each : now.ranks) each.*property = false;
    for (const std::uint32_t rank : ranks) now.ranks.at(rank).*property = true;
  }

  RankStates now;
  std::vector<std::uint32_t> replaced, withdrawn, fenced, readmitted;
  std::vector<std::pair<std::uint32_t, int>> signals;
  std::vector<std::pair<std::uint32_t, std::string>> ended;
  int renewed = 0;
};

}  // namespace orrery::live
