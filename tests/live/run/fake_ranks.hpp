// Fake ranks for tests, which only record the calls.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "live/run/processes/rank_control.hpp"

namespace orrery::live {

/// Rank control that records its calls.
struct FakeRanks : RankControl {
  void replace(std::uint32_t rank) override { replaced.push_back(rank); }
  void withdraw_rank(std::uint32_t rank) override { withdrawn.push_back(rank); }
  void signal(std::uint32_t rank, int number) override { signals.emplace_back(rank, number); }
  void end(std::uint32_t rank, const std::string& cause) override {
    ended.emplace_back(rank, cause);
  }
  void renew_epoch() override { ++renewed; }
  void fence(std::uint32_t rank) override { fenced.push_back(rank); }
  bool is_fenced(std::uint32_t rank) const override {
    return std::find(fenced.begin(), fenced.end(), rank) != fenced.end();
  }
  std::vector<std::uint32_t> heard_again() const override { return heard; }
  void readmit_rank(std::uint32_t rank) override { readmitted.push_back(rank); }
  bool is_running(std::uint32_t rank) const override {
    for (const std::uint32_t each : there) {
      if (each == rank) return true;
    }
    return false;
  }
  bool has_answering_spare(std::uint32_t rank) const override {
    return std::find(answering.begin(), answering.end(), rank) != answering.end();
  }
  std::int64_t pid(std::uint32_t) const override { return 0; }
  bool is_epoch_formed() const override { return formed; }
  std::vector<std::uint32_t> members() const override { return there; }
  std::vector<std::uint32_t> peers() const override { return there; }
  std::vector<std::uint32_t> silent(Nanos) const override { return quiet; }
  bool all_silent() const override { return nobody_heard; }
  bool waits_for_fenced() const override { return fenced_needed; }
  Nanos patience() const override { return waits; }
  bool has_state_holder() const override { return state_held; }

  std::vector<std::uint32_t> there{0, 1, 2, 3}, quiet, answering;
  bool formed = true, nobody_heard = false, state_held = false, fenced_needed = false;
  std::vector<std::uint32_t> replaced, withdrawn, fenced, heard, readmitted;
  std::vector<std::pair<std::uint32_t, int>> signals;
  std::vector<std::pair<std::uint32_t, std::string>> ended;
  int renewed = 0;
  Nanos waits = 600 * kNanosPerSecond;
};

}  // namespace orrery::live
