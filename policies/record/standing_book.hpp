// Record of the placements of jobs: their starts with GPUs, their stops and their ends. A simulated
// and a live run with equal placements have equal records. One thread; instants are nanoseconds of
// the policy clock.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "policies/seam/policy.hpp"

namespace orrery {

/// Policy that forwards to another policy and records starts, stops and ends of jobs. Decides
/// nothing itself.
class StandingBook : public Policy {
 public:
  /// Start, stop or end of a job.
  struct Line {
    enum class What : std::uint8_t { started, stopped, done };
    Nanos at = 0;  ///< instant of the observation that showed the event
    What what{};
    JobId job;
    GpuRuns gpus = {};  ///< GPUs of a start
    friend bool operator==(const Line&, const Line&) = default;
  };

  /// Constructs a book around the policy `inner`, which must outlive the book.
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

/// Returns a text with the first line, up to the instant `until`, in which two books differ, as
/// each book has it; empty if the books are equal up to `until`. Lines must be in the order of
/// their instants.
std::string first_difference(const std::vector<StandingBook::Line>& a,
                             const std::vector<StandingBook::Line>& b, Nanos until = kNever);

}  // namespace orrery
