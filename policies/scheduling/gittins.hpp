// The Gittins index, as Tiresias (Gu et al., NSDI 2019) uses it in two dimensions: who is likeliest
// to end soon for the GPU-seconds that it would take, by what jobs that have ended took altogether.
// Of a job that has had `a` GPU-seconds it is the largest, over all amounts d, of
// P(S - a <= d | S > a) / E[min(S - a, d) | S > a], S being what an ended job took. Jobs that have
// had more than any before go last. Needs no estimates. Tiresias holds jobs in queues of equal
// index; here every pass reckons anew, so jobs make room more often.
#pragma once

#include <deque>

#include "policies/scheduling/ranked.hpp"

namespace orrery {

class GittinsPolicy : public RankedPolicy {
 public:
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override;

 private:
  Jobs select(const Jobs& jobs, std::uint64_t gpus, Nanos now) override;
  void ended(double gpu_seconds) override;
  const char* reason() const override { return "likeliest to end soon"; }

  std::size_t history_ = 0;    ///< of so many jobs
  std::deque<double> took_;    ///< GPU-seconds, the newest last
};

/// The index of a job that has had so much, by what others took in ascending order.
double gittins_index(const std::vector<double>& took, double had);

}  // namespace orrery
