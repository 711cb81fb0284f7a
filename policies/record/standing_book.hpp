// Writes down what becomes of jobs while a policy decides: which came, on which GPUs they started,
// when they left them and ended. Two worlds that do the same have equal books. A decorator; decides
// nothing. One thread; nanoseconds of the policy clock.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "policies/seam/policy.hpp"

namespace orrery {

class StandingBook : public Policy {
 public:
  struct Line {
    enum class What : std::uint8_t { started, stopped, done };
    Nanos at = 0;
    What what{};
    JobId job;
    GpuRuns gpus = {};  ///< of a start
    friend bool operator==(const Line&, const Line&) = default;
  };

  /// Borrowed; must outlive this.
  explicit StandingBook(Policy& inner) : inner_(inner) {}

  Needs needs() const override { return inner_.needs(); }
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override {
    inner_.start(context, cluster, parameters);
  }
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override;
  void save(Archive& archive) const override { inner_.save(archive); }
  void load(const Archive& archive) override { inner_.load(archive); }
  bool changed() const override { return inner_.changed(); }

  const std::vector<Line>& lines() const { return lines_; }

 private:
  Policy& inner_;
  std::vector<Line> lines_;
};

/// How the first line in which two books differ reads in each, up to an instant; empty if they are
/// equal.
std::string first_difference(const std::vector<StandingBook::Line>& a,
                             const std::vector<StandingBook::Line>& b, Nanos until = kNever);

}  // namespace orrery
