// The Gittins index, as Tiresias (Gu et al., NSDI 2019) uses it in two dimensions: who is likeliest
// to end soon for the GPU-seconds that it would take, by what jobs that have ended took altogether.
// Of a job that has had `a` GPU-seconds it is the largest, over all amounts d, of
// P(S - a <= d | S > a) / E[min(S - a, d) | S > a], S being what an ended job took. Jobs that have
// had more than any before go last. Needs no estimates. Tiresias holds jobs in queues of equal
// index; here every pass reckons anew, so jobs make room more often.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "policies/scheduling/ranked.hpp"

namespace orrery {

/// The index of whatever has been had, by what so many jobs took that ended last.
///
/// Of a job that `k` of the `n` took no more than, the index is the steepest slope from the point
/// (what they and the others up to then took, k) to the points (what all took up to what the j-th
/// took, j), j > k. So what the points hold is reckoned once after a job has ended: from each the
/// next corner of the hull over those behind it. Whole seconds of whole GPUs give the very quotient
/// that the definition gives: all sums of them are exact.
class GittinsIndex {
 public:
  explicit GittinsIndex(std::size_t history = 0) : history_(history) {}
  void learn(double took);
  double of(double had) const;

 private:
  struct Point {
    double took = 0;           ///< by the job itself
    double before = 0;         ///< by all up to and with it
    double all = 0;            ///< by all up to when it ended
    std::uint32_t corner = 0;  ///< of the hull, behind it; its own number: none
  };
  void reckon() const;

  std::size_t history_;
  std::deque<double> newest_;   ///< the newest last
  std::vector<double> sorted_;  ///< the same, ascending
  mutable std::vector<Point> points_;
  mutable bool stale_ = false;
};

class GittinsPolicy : public RankedPolicy {
 public:
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override;

 private:
  Jobs select(const Jobs& jobs, std::uint64_t gpus, Nanos now) override;
  void ended(double gpu_seconds) override { index_.learn(gpu_seconds); }
  const char* reason() const override { return "likeliest to end soon"; }

  GittinsIndex index_;
};

}  // namespace orrery
