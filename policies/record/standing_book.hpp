// Record of the placements of jobs under a policy: their arrivals, the GPUs on which they started,
// their stops and ends. Two worlds with equal behaviour have equal books. Decorator without
// decisions of its own. One thread; nanoseconds of the policy clock.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "policies/seam/policy.hpp"

namespace orrery {

/// Policy that forwards to another policy and records starts, stops and ends of jobs.
class StandingBook : public Policy {
 public:
  struct Line {
    enum class What : std::uint8_t { started, stopped, done };
    Nanos at = 0;
    What what{};
    JobId job;
    GpuRuns gpus = {};  ///< GPUs of a start
    friend bool operator==(const Line&, const Line&) = default;
  };

  /// Constructs a book around `inner`, which must outlive it.
  explicit StandingBook(Policy& inner) : inner_(inner) {}

  Needs needs() const override { return inner_.needs(); }
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override {
    inner_.start(context, cluster, parameters);
  }
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override;
  void save(Archive& archive) const override { inner_.save(archive); }
  void load(const Archive& archive) override { inner_.load(archive); }
  bool has_changed() const override { return inner_.has_changed(); }

  /// Returns the recorded lines in order.
  const std::vector<Line>& lines() const { return lines_; }

 private:
  Policy& inner_;
  std::vector<Line> lines_;
};

/// Returns the first line up to an instant in which two books differ, as it is in each; empty if
/// they are equal.
std::string first_difference(const std::vector<StandingBook::Line>& a,
                             const std::vector<StandingBook::Line>& b, Nanos until = kNever);

}  // namespace orrery
