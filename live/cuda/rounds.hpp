// Rounds in which all pairs of ranks meet once: in each round every rank has at most one partner
// (the circle method of tournaments). Pure functions. For example, 4 ranks meet as 03 12, 01 23, 02
// 13.
#pragma once

namespace orrery::live::gpu {

/// Returns the number of rounds; 0 for fewer than two ranks.
constexpr int pairing_rounds(int ranks) { return ranks < 2 ? 0 : ranks - 1 + ranks % 2; }

/// Returns the partner of a rank, below `ranks`, in a round, from 0 and below pairing_rounds(); -1
/// if the rank has none, as in one round with an odd number of ranks.
constexpr int partner_of(int rank, int ranks, int round) {
  const int circle = pairing_rounds(ranks);  // odd; seat `circle` is the middle, or empty
  int partner = -1;
  if (rank == circle) {
    for (int i = 0; i < circle; ++i) partner = 2 * i % circle == round ? i : partner;
  } else {
    partner = (round - rank + circle) % circle;
    if (partner == rank) partner = circle;
  }
  return partner < ranks ? partner : -1;
}

}  // namespace orrery::live::gpu
