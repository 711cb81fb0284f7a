// Profiles of made-up ranks for the tests of the calibration.
#pragma once

#include <vector>

#include "live/programs/calibration/rank_profile.hpp"

namespace orrery::live::testing {

/// Rank whose steps take 1 ms before a loader, 2 ms in the loader, `factor` times 7 ms of forward
/// pass, 6 ms of backward pass with two all-reduces of 1 MB, a wait for them, and 1 ms of update.
/// The all-reduces end 4 ms behind the backward pass of a rank of factor 2.
inline RankProfile sample_rank(std::uint32_t rank, std::size_t steps, double factor = 1) {
  RankProfile profile;
  profile.rank = rank;
  profile.ranks = 2;
  profile.state.set_parameter_bytes(2e6);
  double at = 100;
  for (std::size_t step = 0; step < steps; ++step) {
    profile.parts.push_back({ProfiledPart::Kind::input, at + 1e-3, at + 3e-3});
    const double forward_end = at + 3e-3 + 7e-3 * factor;
    const double done = at + 3e-3 + 2 * 7e-3 + 6e-3 + 4e-3;
    const auto all_reduce = [&](double issued_s, double ended_s) {
      profile.operations.push_back({"all_reduce", {0, 1}, 1e6, issued_s, issued_s, ended_s, 0});
    };
    all_reduce(forward_end + 3e-3, done - 4e-3);
    all_reduce(forward_end + 6e-3, done);
    profile.parts.push_back({ProfiledPart::Kind::backward, forward_end, done});
    profile.parts.push_back({ProfiledPart::Kind::update, done, done + 1e-3});
    at = done + 1e-3;
  }
  return profile;
}

}  // namespace orrery::live::testing
